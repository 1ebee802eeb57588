// The judge of simulate(): it shares the step (step.h) with the simulator, and no rule.
#include <algorithm>
#include <cmath>
#include <limits>

#include "daemon/planner/memories/simulate.h"

namespace terrace::planner::memories {
namespace {

constexpr double tolerance = 1e-6;  // relative, of times and bytes

bool at_most(double a, double b) { return a <= b + tolerance * std::max(1.0, std::abs(b)); }

class Check {
 public:
  Check(const Step& step, const Report& report)
      : step_(step), report_(report), tensors_(step.tensors.size()), busy_(report.runs.size()) {}

  std::string run() {
    const std::size_t ops = step_.ops.size();
    if (report_.runs.empty() || report_.runs.size() % ops != 0) return "the timeline has not all operations";
    for (std::uint32_t i = 0; i < report_.transfers.size(); ++i)
      tensors_[report_.transfers[i].tensor].transfers.push_back(i);
    for (std::uint32_t i = 0; i < report_.stays.size(); ++i)
      tensors_[report_.stays[i].tensor].stays.push_back(i);
    for (std::uint32_t r = 0; r < report_.runs.size() && wrong_.empty(); ++r) look_at(r);
    if (wrong_.empty()) look_at_room();
    if (wrong_.empty()) look_at_queues();
    if (wrong_.empty()) look_at_totals();
    return wrong_;
  }

 private:
  // What is known of a tensor up to the operation that is looked at.
  struct Known {
    std::vector<std::uint32_t> transfers, stays;  // of the report
    std::size_t next_transfer = 0;
    bool in_slow = false;          // the slow memory has its content
    const Stay* filled = nullptr;  // the fast memory has it for as long as this lasts
    double written_us = 0;         // the last write's end
    bool seen = false;
  };
  struct Busy {
    double read = 0, written = 0;  // shares of the operation's time
  };

  const Step& step_;
  const Report& report_;
  std::vector<Known> tensors_;
  std::vector<Busy> busy_;  // per run
  std::string wrong_;

  void complain(std::uint32_t run, const std::string& what) {
    if (wrong_.empty())
      wrong_ = "operation " + std::to_string(run % step_.ops.size()) + " of step " +
               std::to_string(run / step_.ops.size()) + ": " + what;
  }

  static std::string name(std::uint32_t tensor) { return "tensor " + std::to_string(tensor); }

  const Stay* stay_at(const Known& known, std::uint32_t run) const {
    for (auto it = known.stays.rbegin(); it != known.stays.rend(); ++it) {
      const Stay& stay = report_.stays[*it];
      if (stay.begin_run <= run && run < stay.end_run) return &stay;
    }
    return nullptr;
  }

  // The move that fills it; none: the tensor came to be in it.
  const Transfer* filler(const Known& known, const Stay& stay) const {
    for (const std::uint32_t i : known.transfers) {
      const Transfer& t = report_.transfers[i];
      if (t.in && t.start_us == stay.begin_us) return &t;
    }
    return nullptr;
  }

  // Moves that ended before the operation began have had their effect.
  void follow_moves(std::uint32_t run, std::uint32_t tensor, Known* known) {
    const double start_us = report_.runs[run].start_us;
    for (; known->next_transfer < known->transfers.size(); ++known->next_transfer) {
      const Transfer& t = report_.transfers[known->transfers[known->next_transfer]];
      if (t.end_us > start_us) return;
      if (t.in && !known->in_slow) complain(run, name(tensor) + " came in, and the slow memory had it not");
      if (t.in || !t.ended) continue;
      const bool whole = known->filled != nullptr && known->filled->begin_us <= t.start_us &&
                         t.end_us <= known->filled->end_us;
      if (!whole) complain(run, name(tensor) + " left, and was not in the fast memory meanwhile");
      if (t.start_us >= known->written_us) known->in_slow = true;
    }
  }

  void look_at(std::uint32_t run) {
    const auto op = static_cast<std::uint32_t>(run % step_.ops.size());
    const OpRun& r = report_.runs[run];
    const double before_us = run == 0 ? 0 : report_.runs[run - 1].end_us;
    if (!(before_us <= r.ready_us && r.ready_us <= r.start_us && r.start_us <= r.end_us))
      complain(run, "it is not ready, started and ended in this order after the one before");
    double extra_us = 0, read_us = 0, written_us = 0;
    for (const std::uint32_t u : step_.ops[op].uses) {
      const Use& use = step_.uses[u];
      if (is_fast(run, op, use)) continue;
      extra_us += use.extra_us;
      read_us += use.slow_read_us;
      written_us += use.slow_write_us;
    }
    const double takes_us = step_.ops[op].takes_us(extra_us);
    if (!at_most(takes_us, r.end_us - r.start_us)) complain(run, "it is faster than its accesses let it be");
    if (takes_us > 0) busy_[run] = {std::min(1.0, read_us / takes_us), std::min(1.0, written_us / takes_us)};
  }

  bool is_fast(std::uint32_t run, std::uint32_t op, const Use& use) {
    const OpRun& r = report_.runs[run];
    const Tensor& tensor = step_.tensors[use.tensor];
    Known& known = tensors_[use.tensor];
    const bool born = tensor.persistent ? !known.seen : tensor.first == op;
    const Stay* stay = stay_at(known, run);
    if (born) be_born(run, tensor, &known);
    follow_moves(run, use.tensor, &known);
    if (stay != nullptr && stay != known.filled) {
      const Transfer* by = filler(known, *stay);
      if (by == nullptr) complain(run, name(use.tensor) + " came into the fast memory from nowhere");
      if (by != nullptr && by->ended && by->end_us <= r.start_us) known.filled = stay;
    }
    const bool fast = stay != nullptr && stay == known.filled;
    if (fast && (stay->end_us < r.end_us || r.start_us < stay->begin_us))
      complain(run, name(use.tensor) + " left the fast memory in use");
    if (!fast && use.reads && !known.in_slow) complain(run, name(use.tensor) + " is read where it is not");
    if (use.writes) write(run, use, fast, &known);
    return fast;
  }

  // Moves of its life in the step before ended with that.
  void be_born(std::uint32_t run, const Tensor& tensor, Known* known) {
    known->seen = true;
    const double at_us = tensor.persistent ? 0 : report_.runs[run].start_us;
    const Stay* stay = tensor.persistent ? first_stay(*known) : stay_at(*known, run);
    const bool fast = stay != nullptr && filler(*known, *stay) == nullptr;
    known->filled = fast ? stay : nullptr;
    known->in_slow = !fast;
    known->written_us = at_us;
    while (!tensor.persistent && known->next_transfer < known->transfers.size() &&
           report_.transfers[known->transfers[known->next_transfer]].end_us <= at_us)
      ++known->next_transfer;
  }

  const Stay* first_stay(const Known& known) const {
    if (known.stays.empty()) return nullptr;
    const Stay& first = report_.stays[known.stays.front()];
    return first.begin_us == 0 && first.begin_run == 0 ? &first : nullptr;
  }

  void write(std::uint32_t run, const Use& use, bool fast, Known* known) {
    const OpRun& r = report_.runs[run];
    for (const std::uint32_t i : known->transfers) {
      const Transfer& t = report_.transfers[i];
      if (t.start_us < r.end_us && r.start_us < t.end_us)
        complain(run, name(use.tensor) + " is written on its way");
    }
    known->in_slow = !fast;
    known->written_us = r.end_us;
  }

  void look_at_room() {
    std::vector<std::pair<double, std::int64_t>> changes;
    for (const Stay& s : report_.stays) {
      const auto bytes = static_cast<std::int64_t>(step_.tensors[s.tensor].bytes);
      changes.emplace_back(s.begin_us, bytes);
      changes.emplace_back(s.end_us, -bytes);
    }
    std::sort(changes.begin(), changes.end());  // of one instant, what becomes free comes first
    std::int64_t used = 0;
    for (const auto& [us, bytes] : changes) {
      used += bytes;
      if (used <= 0 || static_cast<std::uint64_t>(used) <= step_.fast_bytes) continue;
      wrong_ = "the fast memory holds " + std::to_string(used) + " bytes at " + std::to_string(us) + " µs";
      return;
    }
  }

  void look_at_queues() {
    double ended_us[2] = {};
    for (const Transfer& t : report_.transfers) {
      if (t.start_us < ended_us[t.in ? 1 : 0]) wrong_ = "moves of one direction overlap";
      ended_us[t.in ? 1 : 0] = t.end_us;
      const auto bytes = static_cast<double>(step_.tensors[t.tensor].bytes);
      if (t.ended && !at_most(bytes, most_bytes(t))) wrong_ = name(t.tensor) + " moves faster than it can";
    }
  }

  // That can be moved in its time, beside what operations read and write. Times are sums of many, and carry
  // the rounding of each.
  double most_bytes(const Transfer& t) const {
    const double from_us = t.start_us + (t.in ? step_.in_latency_us : step_.out_latency_us);
    const double rounding_us = t.end_us * 1e-15;
    double idle_us = std::max(0.0, t.end_us - from_us) + 2 * rounding_us;
    auto run = std::partition_point(report_.runs.begin(), report_.runs.end(),
                                    [&](const OpRun& r) { return r.end_us <= from_us; });
    for (; run != report_.runs.end() && run->start_us < t.end_us; ++run) {
      const Busy& busy = busy_[static_cast<std::size_t>(run - report_.runs.begin())];
      const double both_us = std::min(run->end_us, t.end_us) - std::max(run->start_us, from_us);
      idle_us += rounding_us - std::max(0.0, both_us) * (t.in ? busy.read : busy.written);
    }
    return idle_us * (t.in ? step_.in_rate : step_.out_rate);
  }

  void look_at_totals() {
    const OpRun& first = report_.runs[report_.runs.size() - step_.ops.size()];
    if (!at_most(report_.runs.back().end_us - first.ready_us, report_.total_us))
      wrong_ = "the step's time is less than its operations'";
  }
};

}  // namespace

std::string check(const Step& step, const Report& report) { return Check(step, report).run(); }

}  // namespace terrace::planner::memories
