#include "tools/cli/timeline/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "daemon/planner/trace_limits.h"
#include "tools/cli/timeline/median.h"
#include "tools/cli/timeline/seen_steps.h"
#include "tools/cli/timeline/step_tensors.h"
#include "tools/cli/timeline/touches.h"

namespace terrace::cli {

using wire::Trace;
using wire::TraceOp;

namespace {

// A stay of an object in use, within an interval between two ticks; as shares of what the interval takes.
struct Visit {
  double begin = 0, end = 0;
  std::set<std::uint64_t> runs;  // that were touched in it
};

// What all like steps say of one interval.
struct Interval {
  std::vector<double> us;  // by step: what computing took
  // By role, and which visit of it in this interval, of the steps in which it was seen.
  std::map<std::pair<Role, std::size_t>, std::vector<Visit>> visits;
};

class IntervalReader {
 public:
  IntervalReader(const Recording& recording, const History& history, const Roles& roles,
                 const LikeSteps& like)
      : roles_(roles),
        clock_(history, like.steps.front().session),
        touches_(touches_of(recording, history, like.steps.front().session)),
        intervals_(like.steps.front().ticks.size() + 1) {
    for (const SeenStep& step : like.steps) read(step);
  }

  std::vector<Interval> take() { return std::move(intervals_); }
  const ComputeClock& clock() const { return clock_; }

 private:
  void read(const SeenStep& step) {
    for (std::size_t i = 0; i < intervals_.size(); ++i) {
      const std::uint64_t from_ns = i == 0 ? step.begin_ns : step.tick_ns[i - 1];
      const std::uint64_t to_ns = i == step.tick_ns.size() ? step.end_ns : step.tick_ns[i];
      read(step, from_ns, to_ns, &intervals_[i]);
    }
  }

  void read(const SeenStep& step, std::uint64_t from_ns, std::uint64_t to_ns, Interval* into) {
    const std::uint64_t begin = clock_.at(from_ns), took = clock_.at(to_ns) - begin;
    into->us.push_back(static_cast<double>(took) / 1e3);
    const auto before = [](const Touch& touch, std::uint64_t ns) { return touch.time_ns < ns; };
    const auto first = std::lower_bound(touches_.begin(), touches_.end(), from_ns, before);
    const auto last = std::lower_bound(first, touches_.end(), to_ns, before);
    std::map<Role, std::vector<Visit>> visits;
    for (auto touch = first; touch != last; ++touch) {
      const auto since = static_cast<double>(clock_.at(touch->time_ns) - begin);
      see(*touch, took == 0 ? 0 : since / static_cast<double>(took),
          &visits[roles_.of(touch->object, touch->run, step.number)]);
    }
    for (const auto& [role, seen] : visits)
      for (std::size_t i = 0; i < seen.size(); ++i) into->visits[{role, i}].push_back(seen[i]);
  }

  // A visit lasts until one of its runs has left and is back.
  static void see(const Touch& touch, double share, std::vector<Visit>* visits) {
    const bool goes_on = !visits->empty() && (touch.is_again || visits->back().runs.count(touch.run) == 0);
    if (!goes_on) visits->push_back({share, share, {}});
    visits->back().end = share;
    visits->back().runs.insert(touch.run);
  }

  const Roles& roles_;
  ComputeClock clock_;
  std::vector<Touch> touches_;
  std::vector<Interval> intervals_;
};

bool holds(const std::vector<std::uint32_t>& list, std::uint32_t tensor) {
  return std::find(list.begin(), list.end(), tensor) != list.end();
}

std::string name_of(const Tick& tick) {
  return fmt::format("{} {}", tick.is_birth ? "allocation" : "free of", tick.role.place) +
         (tick.role.age == 0 ? "" : " of an earlier step");
}

class OperationWriter {
 public:
  OperationWriter(const std::vector<Tick>& ticks, const StepTensors& tensors, Trace* into)
      : ticks_(ticks), tensors_(tensors), ops_(into->ops) {}

  void write(const std::vector<Interval>& intervals) {
    for (std::size_t i = 0; i < intervals.size(); ++i) write(intervals[i], i);
    for (const auto& [tensor, op] : updated_in_)
      if (!holds(ops_[op].outputs, tensor)) ops_[op].outputs.push_back(tensor);
  }

 private:
  struct Use {
    double begin = 0, end = 0;
    std::uint32_t tensor = no_object;
    bool is_updated = false;
  };

  // The interval that ends with tick i.
  void write(const Interval& interval, std::size_t i) {
    const std::vector<Use> uses = uses_of(interval);
    std::set<double> cuts{0};
    for (const Use& use : uses) cuts.insert({use.begin, use.end});
    const double us = median(interval.us);
    const std::string name = i == 0 ? "begin" : name_of(ticks_[i - 1]);
    for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
      const double next = std::next(cut) == cuts.end() ? 1 : *std::next(cut);
      TraceOp op;
      op.name = name + (cut == cuts.begin() ? "" : fmt::format(" +{}", std::distance(cuts.begin(), cut)));
      op.time_us = us * std::max(next - *cut, 0.0);
      op.recomputable = false;  // nobody knows what it computes
      ops_.push_back(std::move(op));
      if (cut == cuts.begin() && i > 0 && ticks_[i - 1].is_birth) give(tensors_.of(ticks_[i - 1].role));
      for (const Use& use : uses)
        if (use.begin <= *cut && *cut <= use.end) need(use);
    }
    if (i < ticks_.size() && !ticks_[i].is_birth) need({0, 0, tensors_.of(ticks_[i].role), false});
  }

  std::vector<Use> uses_of(const Interval& interval) const {
    std::vector<Use> uses;
    for (const auto& [which, visits] : interval.visits) {
      const std::uint32_t tensor = tensors_.of(which.first);
      if (tensor == no_object) continue;
      std::vector<double> begins, ends;
      for (const Visit& visit : visits) {
        begins.push_back(visit.begin);
        ends.push_back(visit.end);
      }
      const double begin = median(std::move(begins));
      uses.push_back(
          {begin, std::max(begin, median(std::move(ends))), tensor, tensors_.is_updated(which.first)});
    }
    return uses;
  }

  // The operation that was written last makes it, or needs it.
  void give(std::uint32_t tensor) {
    if (tensor != no_object) ops_.back().outputs.push_back(tensor);
  }
  void need(const Use& use) {
    TraceOp& op = ops_.back();
    if (use.tensor == no_object) return;
    if (use.is_updated) updated_in_[use.tensor] = ops_.size() - 1;
    if (!holds(op.outputs, use.tensor) && !holds(op.inputs, use.tensor)) op.inputs.push_back(use.tensor);
  }

  const std::vector<Tick>& ticks_;
  const StepTensors& tensors_;
  std::vector<TraceOp>& ops_;
  std::map<std::uint32_t, std::size_t> updated_in_;  // the last operation that uses it
};

std::uint64_t budget_of(const Recording& recording) {
  std::vector<std::uint64_t> budgets;
  for (const MemorySample& sample : recording.samples)
    if (sample.budget_bytes != 0) budgets.push_back(sample.budget_bytes);
  return budgets.empty() ? 0 : median(std::move(budgets));
}

double moved_bytes_per_ns(const Recording& recording) {
  if (recording.samples.size() < 2) return 0;
  const MemorySample &first = recording.samples.front(), &last = recording.samples.back();
  const std::uint64_t before = first.read_bytes + first.written_bytes;
  const std::uint64_t after = last.read_bytes + last.written_bytes;
  if (last.time_ns <= first.time_ns || after < before) return 0;
  return static_cast<double>(after - before) / static_cast<double>(last.time_ns - first.time_ns);
}

void measure(const Recording& recording, const LikeSteps& like, const ComputeClock& clock, StepTrace* into) {
  std::uint64_t took_ns = 0, computed_ns = 0;
  for (const SeenStep& step : like.steps) {
    took_ns += step.ns();
    computed_ns += clock.at(step.end_ns) - clock.at(step.begin_ns);
  }
  const auto steps = static_cast<double>(like.steps.size());
  into->session = like.steps.front().session;
  into->kind = like.steps.front().kind;
  into->whole = like.whole;
  into->like = like.steps.size();
  into->mean_us = static_cast<double>(took_ns) / 1e3 / steps;
  into->mean_waited_us = static_cast<double>(took_ns - computed_ns) / 1e3 / steps;
  into->budget_bytes = budget_of(recording);
  into->moved_bytes = moved_bytes_per_ns(recording) * into->mean_us * 1e3;
}

std::string source_of(const StepTrace& step) {
  return fmt::format(
      "recorded by terrace from a running job: {} like ones of {} whole steps of kind {} of process {}; "
      "times are medians without waits; of data that stayed in DRAM only birth and death are known, no touch",
      step.like, step.whole, step.kind, step.session);
}

}  // namespace

Result<StepTrace> step_trace_of(const Recording& recording, const History& history) {
  const Roles roles(recording, history);
  const auto like = like_steps(recording, history, roles);
  if (!like) return refused<StepTrace>(like.error);
  IntervalReader reader(recording, history, roles, *like);
  StepTrace made;
  made.trace.reads_known = false;
  const StepTensors tensors(recording, history, roles, *like, &made.trace);
  OperationWriter(like->steps.front().ticks, tensors, &made.trace).write(reader.take());
  measure(recording, *like, reader.clock(), &made);
  made.trace.name = planner::text_within(recording.job);
  made.trace.source = source_of(made);
  if (const std::string limit = planner::check_limits(made.trace); !limit.empty())
    return refused<StepTrace>(
        fmt::format("{}: its step is larger than a trace can be ({}): record it with a larger --threshold, "
                    "so that fewer blocks are told of",
                    recording.job, limit));
  return ok(std::move(made));
}

}  // namespace terrace::cli
