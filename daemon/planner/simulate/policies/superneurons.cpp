// SuperNeurons (Wang et al., PPoPP'18), sections 3.2 to 3.4: what is cheap is computed again, what is not
// lies in a cache that evicts to the host when memory is short and fetches one checkpoint ahead.
//
//     forward    C p a C p a p C        C: a checkpoint (convolution, matrix product); p, a: cheap layers
//     backward   C a p C p a p C        what a segment of cheap layers made is dropped, and made again
//
// Liveness is the simulator's own. The tensor cache is LRU on demand (Victims::lru). In the backward pass the
// checkpoint before the one that runs is fetched, as far as it is away. Results of cheap layers are dropped
// after their last use forward. A segment is made again by one of two rules: speed-centric, once and whole
// when the first of its tensors is needed, each then staying to its last use; memory-centric, each tensor for
// itself when it is needed, from the checkpoint on. Cost-aware is: speed-centric where what the segment made
// is no larger than what the largest layer takes, else memory-centric.
//
// A layer is an operation here, known by its name; where no name tells a checkpoint, those that take more
// time than the mean are. The paper's text was not at hand: rules and sections are those of notes on it. Its
// choice of convolution algorithms by the memory that is left is vdnn_dynamic's and modnn's here, not this
// one's.
#include <algorithm>
#include <cctype>
#include <map>

#include "daemon/planner/simulate/gaps/lineage.h"
#include "daemon/planner/simulate/gaps/remaking.h"
#include "daemon/planner/simulate/policies/policies.h"

namespace terrace::planner {
namespace {

using wire::Action;
using wire::ScheduleEntry;

constexpr double rounding = 1e-9;
constexpr const char* heavy_names[] = {"conv", "mm",  "matmul", "linear",
                                       "gemm", "dot", "einsum", "attention"};

bool is_heavy_by_name(const wire::TraceOp& op) {
  std::string name = op.name;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::any_of(std::begin(heavy_names), std::end(heavy_names),
                     [&](const char* part) { return name.find(part) != std::string::npos; });
}

std::vector<bool> checkpoints(const wire::Trace& trace) {
  std::vector<bool> heavy;
  double sum_us = 0;
  for (const wire::TraceOp& op : trace.ops) {
    heavy.push_back(is_heavy_by_name(op));
    sum_us += op.time_us;
  }
  if (std::find(heavy.begin(), heavy.end(), true) != heavy.end()) return heavy;
  for (std::size_t i = 0; i < heavy.size(); ++i)
    heavy[i] = trace.ops[i].time_us * static_cast<double>(heavy.size()) > sum_us;
  return heavy;
}

class SuperNeurons {
 public:
  SuperNeurons(const wire::Trace& trace, const Machine& machine, std::uint32_t backward)
      : trace_(trace),
        far_(trace, machine),
        backward_(backward),
        heavy_(checkpoints(trace)),
        largest_layer_bytes_(lower_bounds(trace, machine).largest_op_bytes),
        lineage_(trace),
        remaking_(lineage_, static_cast<std::uint32_t>(trace.ops.size())) {}

  wire::Schedule plan() {
    find_makers_and_segments();
    for (const Gap& gap : gaps_of(trace_)) {
      const bool stashed = !gap.wraps && gap.from < backward_ && backward_ <= gap.to;
      if (!stashed || trace_.tensors[gap.tensor].persistent) continue;
      const std::uint32_t maker = maker_[gap.tensor];
      if (maker != no_op && !heavy_[maker]) {
        segments_[segment_[maker]].push_back(gap);
      } else {
        fetch_ahead(gap);
      }
    }
    for (auto& [number, gaps] : segments_) drop(&gaps);
    remaking_.add_to(&entries_);
    return sorted_schedule(trace_, "superneurons", entries_);
  }

 private:
  static constexpr std::uint32_t no_op = 0xffffffffU;

  const wire::Trace& trace_;
  FarTiers far_;
  std::uint32_t backward_;
  std::vector<bool> heavy_;
  std::uint64_t largest_layer_bytes_;
  Lineage lineage_;
  Remaking remaking_;
  std::vector<std::uint32_t> maker_;              // by tensor: the forward operation that wrote it last
  std::vector<std::uint32_t> segment_;            // by operation: checkpoints before it
  std::vector<double> segment_us_;                // by operation: of the cheap ones of its segment up to it
  std::vector<std::uint32_t> checkpoint_before_;  // by operation: the last one before it, or 0
  std::map<std::uint32_t, std::vector<Gap>> segments_;
  std::vector<ScheduleEntry> entries_;

  void find_makers_and_segments() {
    maker_.assign(trace_.tensors.size(), no_op);
    std::uint32_t checkpoints = 0;
    std::uint32_t last = 0;
    double cheap_us = 0;
    for (std::uint32_t op = 0; op < trace_.ops.size(); ++op) {
      checkpoint_before_.push_back(last);
      if (heavy_[op]) last = op;
      segment_.push_back(checkpoints);
      cheap_us = heavy_[op] ? 0 : cheap_us + trace_.ops[op].time_us;
      segment_us_.push_back(cheap_us);
      checkpoints += heavy_[op] ? 1 : 0;
      if (op >= backward_) continue;
      for (const std::uint32_t t : trace_.ops[op].outputs) maker_[t] = op;
    }
  }

  // While the checkpoint before the one that needs it runs.
  void fetch_ahead(const Gap& gap) {
    const std::uint32_t at = std::max({checkpoint_before_[gap.to], backward_, gap.from + 1});
    if (far_.any()) entries_.push_back({at, gap.tensor, Action::in, far_.tiers().front(), {}});
  }

  // In the order in which they were made: whether one can be made again depends on what it comes from. What
  // would take a checkpoint's operation, too, since nothing keeps its result, stays.
  void drop(std::vector<Gap>* gaps) {
    std::stable_sort(gaps->begin(), gaps->end(),
                     [this](const Gap& a, const Gap& b) { return maker_[a.tensor] < maker_[b.tensor]; });
    std::uint64_t bytes = 0;
    std::uint32_t first = no_op;
    for (const Gap& gap : *gaps) {
      bytes += trace_.tensors[gap.tensor].bytes;
      first = std::min(first, gap.to);
    }
    const bool whole = bytes <= largest_layer_bytes_;
    for (const Gap& gap : *gaps) {
      Gap absent = gap;
      if (whole) absent.to = std::min(std::max(first, gap.from + 2), gap.to);
      const std::optional<double> price_us = lineage_.price_us(absent);
      if (!price_us || *price_us > segment_us_[maker_[gap.tensor]] * (1 + rounding)) {
        fetch_ahead(gap);
        continue;
      }
      lineage_.drop(absent);
      remaking_.add(absent);
    }
  }
};

}  // namespace

Result<wire::Schedule> plan_superneurons(const wire::Trace& trace, const Machine& machine) {
  const std::optional<std::uint32_t> backward = backward_begin(trace);
  if (!backward)
    return refused<wire::Schedule>("the trace has no gradients, and therefore no backward pass to plan for");
  return ok(SuperNeurons(trace, machine, *backward).plan());
}

}  // namespace terrace::planner
