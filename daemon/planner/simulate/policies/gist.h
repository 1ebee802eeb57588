// Gist: what rests between its last use forward and its first one backward rests encoded, where it lies.
//
//     operation      from                                  to
//     as it is       xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
//     encoded        xxxx=================================xxxx
//
//     as bits        xxxx---------------------------------------
//
// Gist (Jain et al., ISCA'18) encodes feature maps by pairs of layers: of ReLU and convolution as sparse rows
// (lossless), of ReLU and pooling as one bit a value, which only that backward pass can work on, and any as
// narrow floats, which loses precision. Here are the first two. What the backward pass reads the signs of and
// no more (TraceOp::sign_only) rests as one bit a value, where the machine has a codec for that; other
// tensors of which the trace tells a sparsity by a codec that drops zeros. Which it is follows from what
// reads the tensor, not from the layers' names. libterrace's Gist (docs/formats/gist.md) does both in jobs.
// Rebuilt from the abstract and notes.
//
// As a decorator: the policy plans a step in which encoding and decoding are operations, and the three forms
// (before, encoded, after) are tensors of their own. What it says of them is then said of the one tensor; a
// tensor whose encoded form it moves away leaves in that form at once. What it makes again of the first form
// is decoded instead. Bits are read where they lie: there is no decoding and no third form, what the policy
// says of moving them is left out, and what it makes again of the first form is made again, and encoded anew
// where the policy drops it. Needs a machine with a tier inside the first one. Pure and deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/planner/simulate/gaps/gaps.h"
#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

// Why nothing of this step can rest encoded on this machine, and what to add; empty: something may.
std::string nothing_to_encode(const wire::Trace& trace, const Machine& machine);

class EncodedStep {
 public:
  // Both must outlive it, and nothing_to_encode() must have nothing to say of them.
  EncodedStep(const wire::Trace& trace, const Machine& machine);

  // The step that a policy is to plan instead.
  const wire::Trace& stand_in() const { return stand_in_; }
  // What its plan is for the step as it is; without what describe() adds.
  SwapPlan translated(const SwapPlan& plan) const;

 private:
  struct Encoded {
    Gap gap;
    std::uint32_t codec = 0;               // as in wire::ScheduleEntry
    bool bits = false;                     // one of each value: without `after` and `decode`
    std::uint32_t packed = 0, after = 0;   // tensors of the stand-in
    std::uint32_t encode = 0, decode = 0;  // operations of the stand-in
  };
  struct Placed {
    std::uint32_t at = 0;  // position in the stand-in
    wire::ScheduleEntry entry;
  };

  const wire::Trace& trace_;
  const Machine& machine_;
  std::uint32_t inside_ = 0;  // the tier
  std::vector<Encoded> encoded_;
  std::vector<std::uint32_t> encoded_of_;  // per tensor of the stand-in, of all three forms: 1 + index, or 0
  std::vector<std::uint32_t> original_;    // per position of the stand-in
  std::vector<std::uint32_t> op_;          // per operation of the stand-in: its own; no_op if it codes
  wire::Trace stand_in_;

  static constexpr std::uint32_t no_op = 0xffffffffU;

  void choose();
  void add_form(Encoded* e, bool packed);
  void write_operations();
  void add(wire::TraceOp op, std::uint32_t original);
  wire::TraceOp coding(const Encoded& e, bool encode) const;
  std::vector<std::uint32_t> tiers_of_forms(const SwapPlan& plan) const;
  std::vector<wire::ScheduleEntry> of_the_tensor(wire::ScheduleEntry e, const Encoded& encoded,
                                                 std::uint32_t tier) const;
  std::vector<wire::ScheduleEntry> of_what_rests_as_bits(wire::ScheduleEntry e, const Encoded& encoded) const;
  std::vector<Placed> own_entries(const std::vector<std::uint32_t>& tier_of) const;
};

}  // namespace terrace::planner
