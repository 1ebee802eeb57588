#include "daemon/planner/simulate/bound/step_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "daemon/planner/one_bit.h"
#include "daemon/planner/simulate/bound/linear.h"
#include "daemon/planner/simulate/bound/lives.h"
#include "daemon/planner/simulate/program.h"
#include "daemon/planner/simulate/simulator.h"
#include "daemon/planner/variants.h"

namespace terrace::planner {
namespace {

constexpr std::uint32_t no_column = 0xffffffffU;

double share_of(const wire::TraceTensor& tensor, std::uint64_t stored) {
  return std::min(1.0, static_cast<double>(stored) / static_cast<double>(tensor.bytes));
}

// By tensor: its share as one bit of each value, where the machine has a codec and an operation reads no
// more.
std::vector<double> shares_as_bits(const wire::Trace& trace, const Machine& machine) {
  std::vector<double> shares(trace.tensors.size(), 1);
  if (machine.one_bit_codec() == 0) return shares;
  for (const wire::TraceOp& op : trace.ops) {
    for (const std::uint32_t t : op.sign_only) {
      const wire::TraceTensor& tensor = trace.tensors[t];
      const std::uint64_t bits = one_bit_bytes(tensor);
      if (bits > 0 && !tensor.persistent) shares[t] = share_of(tensor, bits);
    }
  }
  return shares;
}

// Of the tensor's bytes, by any codec from which its values come back; 1 where none makes it smaller.
double least_share(const wire::TraceTensor& tensor, const Machine& machine) {
  double least = 1;
  for (const CodecCost& codec : machine.codecs)
    if (tensor.bytes > 0 && !codec.one_bit)
      least = std::min(least, share_of(tensor, stored_bytes(tensor, codec)));
  return least;
}

// By tensor, of what rests in a machine that encodes inside tier 0; empty: all of it stays as it is.
std::vector<double> least_shares_inside(const wire::Trace& trace, const Machine& machine,
                                        const std::vector<double>& as_bits) {
  std::vector<double> shares;
  if (machine.tier_inside() == 0) return shares;
  shares.reserve(as_bits.size());
  for (const double bits : as_bits)
    shares.push_back(std::min(bits, least_share(trace.tensors[shares.size()], machine)));
  return shares;
}

// Of all tensors.
double least_stored_share(const wire::Trace& trace, const Machine& machine) {
  double least = 1;
  for (const wire::TraceTensor& t : trace.tensors) least = std::min(least, least_share(t, machine));
  return least;
}

// Bytes and times stand in units in which the numbers are near 1.
class Programme {
 public:
  Programme(const Machine& machine, const Lives& lives, double stored_share)
      : machine_(machine), lives_(lives), stored_share_(stored_share) {
    for (const Version& v : lives.versions) all_bytes_ += v.bytes;
    byte_ = std::max(1.0, all_bytes_ / 100);
    all_bytes_ /= byte_;
    for (const Instant& i : lives.instants) us_ += i.window_us;
    us_ = us_ > 0 ? us_ / static_cast<double>(lives.instants.size()) : 1;
  }

  StepBound bound(const StepBoundOptions& options) {
    recomputes_ = options.recomputes;
    add_instants();
    for (const Version* v : largest_first()) {
      if (lp_.columns() > options.most_columns) break;
      add(*v);
    }
    std::vector<double> multipliers;
    const bool finished = lp_.solve(options.most_iterations, &multipliers);
    fit(&multipliers);
    return {lp_.lagrangian(std::move(multipliers)) * us_, finished};
  }

 private:
  struct Gate {
    std::uint32_t row = 0;
    double rate = 0;
  };
  struct Window {
    std::uint32_t length = 0;                   // column
    std::uint32_t memory = 0, out = 0, in = 0;  // rows; memory: at its end
    std::vector<Gate> gates;                    // link × 2 + direction
  };

  const Machine& machine_;
  const Lives& lives_;
  double stored_share_;
  double all_bytes_ = 0, byte_ = 1, us_ = 0;
  bool recomputes_ = false;
  LinearProgramme lp_;
  std::vector<Window> windows_;
  std::uint32_t whole_ = 0;  // row: the step is no shorter than what it computes

  const Window& window(std::uint32_t instant) const { return windows_[instant % windows_.size()]; }

  double rate(const Link& link, bool in) const {
    const double bytes_per_us = (in ? link.in_bytes_per_second : link.out_bytes_per_second) / 1e6;
    return bytes_per_us / stored_share_ * us_ / byte_;
  }

  void add_instants() {
    double sum = 0;
    for (const Instant& instant : lives_.instants) sum += instant.window_us / us_;
    whole_ = lp_.add_row(sum, without_limit);
    for (const Instant& instant : lives_.instants) {
      Window w;
      w.length = lp_.add_column(1, instant.window_us / us_, without_limit);
      lp_.add(whole_, w.length, 1);
      w.memory = lp_.add_row(-without_limit, room(instant));
      w.out = lp_.add_row(-without_limit, 0);
      w.in = lp_.add_row(-without_limit, 0);
      add_routes(&w);
      windows_.push_back(std::move(w));
    }
  }

  double room(const Instant& instant) const {
    if (machine_.tiers[0].capacity_bytes == unlimited_bytes) return without_limit;
    return (static_cast<double>(machine_.tiers[0].capacity_bytes) - instant.named_bytes) / byte_;
  }

  void add_routes(Window* w) {
    for (const Link& link : machine_.links) {
      for (const bool in : {false, true}) {
        const Gate gate{lp_.add_row(-without_limit, 0), rate(link, in)};
        lp_.add(gate.row, w->length, -gate.rate);
        w->gates.push_back(gate);
      }
    }
    for (const Route& route : machine_.routes) {
      if (machine_.is_inside(route.tier)) continue;
      for (const bool in : {false, true}) {
        const std::uint32_t flow = lp_.add_column(0, 0, 2 * all_bytes_);
        lp_.add(in ? w->in : w->out, flow, -1);
        for (const std::uint32_t link : route.links) lp_.add(w->gates[2 * link + (in ? 1 : 0)].row, flow, 1);
      }
    }
  }

  std::vector<const Version*> largest_first() const {
    std::vector<const Version*> all;
    for (const Version& v : lives_.versions) all.push_back(&v);
    std::stable_sort(all.begin(), all.end(),
                     [](const Version* a, const Version* b) { return a->bytes > b->bytes; });
    return all;
  }

  void add(const Version& v) {
    std::vector<std::uint32_t> copied;  // columns, per instant from v.born on
    for (std::uint32_t s = v.born; !v.copied && s <= v.gaps.back().last; ++s) {
      const std::uint32_t now = lp_.add_column(0, 0, v.bytes / byte_);
      lp_.add(window(s).out, now, 1);
      if (!copied.empty()) {
        lp_.add(window(s).out, copied.back(), -1);
        const std::uint32_t grows = lp_.add_row(0, without_limit);
        lp_.add(grows, now, 1);
        lp_.add(grows, copied.back(), -1);
      }
      copied.push_back(now);
    }
    for (const Stretch& gap : v.gaps) add_gap(v, gap, copied);
  }

  void add_gap(const Version& v, const Stretch& gap, const std::vector<std::uint32_t>& copied) {
    const double bytes = v.bytes / byte_;
    const std::uint32_t again = add_recomputation(v, gap);
    std::uint32_t before = no_column;
    for (std::uint32_t s = gap.first; s <= gap.last; ++s) {
      const std::uint32_t here = lp_.add_column(0, 0, bytes);
      lp_.add(window(s).memory, here, v.least_share);
      if (!v.copied) {
        const std::uint32_t exists = lp_.add_row(bytes, without_limit);
        lp_.add(exists, here, 1);
        lp_.add(exists, copied[s - v.born], 1);
        if (again != no_column) lp_.add(exists, again, 1);
      }
      if (before != no_column) comes(s, bytes, before, here, again);
      before = here;
    }
    if (gap.returns) comes(gap.last + 1, bytes, before, no_column, again);
  }

  std::uint32_t add_recomputation(const Version& v, const Stretch& gap) {
    if (!recomputes_ || v.again_us_per_byte == never_again || !gap.returns) return no_column;
    const std::uint32_t again = lp_.add_column(0, 0, v.bytes / byte_);
    lp_.add(whole_, again, -v.again_us_per_byte * byte_ / us_);
    return again;
  }

  // What is more here than before has come, or was made again. After the gap all of it is here.
  void comes(std::uint32_t s, double bytes, std::uint32_t before, std::uint32_t here, std::uint32_t again) {
    const std::uint32_t in = lp_.add_column(0, 0, bytes);
    const std::uint32_t row = lp_.add_row(here == no_column ? bytes : 0, without_limit);
    lp_.add(window(s).in, in, 1);
    lp_.add(row, in, 1);
    lp_.add(row, before, 1);
    if (here != no_column) lp_.add(row, here, -1);
    if (again != no_column) lp_.add(row, again, 1);
  }

  // Scales them so that no window gains by being longer: its length is the one column without a limit.
  void fit(std::vector<double>* multipliers) const {
    double most = 1;
    for (const Window& w : windows_) {
      double gain = std::max(0.0, (*multipliers)[whole_]);
      for (const Gate& gate : w.gates) gain += std::max(0.0, -(*multipliers)[gate.row]) * gate.rate;
      most = std::max(most, gain * (1 + 1e-12));
    }
    for (double& one : *multipliers) one /= most;
  }
};

}  // namespace

StepBound step_bound(const wire::Trace& trace, const Machine& machine, const StepBoundOptions& options) {
  if (has_variants(trace)) return step_bound(least_costs(trace), machine, options);
  const LowerBounds plain = lower_bounds(trace, machine);
  if (plain.largest_op_bytes > machine.tiers[0].capacity_bytes)
    return {std::numeric_limits<double>::infinity(), true};
  const std::uint32_t usual = options.repeats || options.recomputes ? 64 : 128;
  const std::vector<double> as_bits = shares_as_bits(trace, machine);
  const Lives lives =
      lives_of(trace, {options.repeats, options.most_instants == 0 ? usual : options.most_instants,
                       least_shares_inside(trace, machine, as_bits), as_bits});
  const double stored_share = least_stored_share(trace, machine);
  const bool shrinks =
      stored_share < 1 || std::any_of(as_bits.begin(), as_bits.end(), [](double share) { return share < 1; });
  const double at_least = options.recomputes || shrinks ? plain.compute_us : plain.step_us;
  StepBound b{0, true};
  if (stored_share > 0) b = Programme(machine, lives, stored_share).bound(options);
  if (!(b.step_us >= at_least)) b.step_us = at_least;
  return b;
}

}  // namespace terrace::planner
