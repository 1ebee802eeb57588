// Compression as a decorator: moves of a plan, whoever made it, cross the link in coded form.
//
//     plan of any policy     out 7 ───▶ ssd … in 7          out 8 ───▶ ssd … in 8
//     always (cDMA)          out 7, coded     …   in 7      out 8, coded     …   in 8
//     where it pays (CSWAP)  out 7, coded     …    in 7     out 8 ───▶ ssd … in 8
//
// cDMA (Rhu et al., HPCA'18) puts a codec for zeros (ZVC) into the GPU's memory controllers, below any plan:
// all that vDNN moves is coded, whether the link is busy or not. CSWAP (Chen et al., CLUSTER'21) codes a
// tensor where encoding, the shorter transfer and decoding together are predicted to take less than the plain
// transfer, and counts only what of a transfer is exposed. Of cDMA the abstract and notes were at hand, of
// CSWAP the abstract and its published code, which has the codecs but no such decision. The rule is rebuilt
// from the abstract. Guessed are therefore its two ways (out and in, in one sum), what counts as exposed
// (compressing.cpp), and the check of the whole step by simulation, which makes its plan never slower than
// the plain one. CSWAP fits its predictions to measured tensors; here they are the machine's own figures.
//
// A codec takes the computation's time here (simulator.h), unless the machine says that it overlaps: cDMA's
// hardware does. Only codecs that drop zeros are chosen, since others
// may lose precision (FlashNeuron's FP16), and only for tensors of which the trace gives a sparsity; of any
// kind, not activations alone. What moves on demand, a schedule cannot code. Pure and deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/planner/simulate/gaps/gaps.h"
#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

// Which tensors may be coded, by what, and what that takes. Times are in microseconds.
class SparseCodecs {
 public:
  // Both must outlive it.
  SparseCodecs(const wire::Trace& trace, const Machine& machine);

  // Whether any tensor of the trace may be coded.
  bool any() const { return any_; }
  // The codec for the tensor's way to this tier and back, as wire::ScheduleEntry counts: of those that drop
  // zeros and make it smaller, the one with which that takes least. 0: none makes it smaller.
  std::uint32_t of(std::uint32_t tensor, std::uint32_t tier) const;
  // CSWAP's rule: encoding, both coded transfers and decoding take less than both plain transfers.
  bool pays(std::uint32_t tensor, std::uint32_t tier) const;
  // One way, alone on its route, in the form that the codec makes; 0: as it is.
  double transfer_us(std::uint32_t tensor, std::uint32_t tier, std::uint32_t codec, bool in) const;

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  FarTiers far_;
  bool any_ = false;

  bool shrinks(std::uint32_t tensor, const CodecCost& codec) const;
  double swap_us(std::uint32_t tensor, std::uint32_t tier, std::uint32_t codec) const;
};

// What may rest as one bit a value (one_bit.h).
class BitRests {
 public:
  // The trace must outlive it. O(n log n).
  BitRests(const wire::Trace& trace, const Machine& machine);

  bool any() const { return any_; }
  // The codec with which the tensor may rest so from the gap on, as wire::ScheduleEntry counts; 0: none, or
  // its values are needed later.
  std::uint32_t codec(const Gap& gap) const;

 private:
  const wire::Trace& trace_;
  std::uint32_t codec_ = 0;
  bool any_ = false;
  std::vector<std::uint32_t> until_;
};

// Why no plan for this step can be compressed, and what to add; empty: some may.
std::string nothing_to_compress(const wire::Trace& trace, const Machine& machine);

// The plan with codecs on its evictions; those that have one keep it. With Coding::where_it_pays also with
// later begins of what comes back, and never slower than `plan`, as simulate_repeated() times both; that
// simulates five plans at most. The plan has its deadlines (describe()); the new one has them, too.
SwapPlan compressed(const wire::Trace& trace, const Machine& machine, SwapPlan plan, Coding coding);

}  // namespace terrace::planner
