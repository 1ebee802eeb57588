// From a profile's events to operations and tensors.
//
// Memory events are put in order by (time, "Ev Idx") and matched by address: a release belongs to the latest
// allocation there. Both are part of the innermost operator that runs on their thread at that time. Operators
// are too coarse for lives, though: one that releases a block and then allocates another never held both. So
// an operator becomes several operations of the trace, cut where an allocation follows a release:
//
//   log      | conv: +A +B -A +C | relu: +D -B |
//   trace    | conv  A B | conv  C | relu  B D |        A: [0,0]  B: [0,2]  C: [1,…]  D: [2,…]
//
// Positions only grow, and what is allocated after a release stands in a later operation than it: two
// tensors overlap in the trace exactly if they did in the log, and the largest sum of live bytes is the
// log's.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "daemon/planner/trace_limits.h"
#include "tools/import/import.h"
#include "tools/import/kineto_events.h"

namespace terrace::import {

using planner::check_limits;
using planner::most_tensors;

namespace {

using kineto::Launch;
using kineto::MemoryEvent;
using kineto::Operator;
using kineto::Profile;

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

// Which operator runs on a thread at a time: operators of one thread nest.
class Nesting {
 public:
  explicit Nesting(const std::vector<Operator>& operators);
  [[nodiscard]] std::uint32_t innermost(std::uint32_t thread, double time_us) const;
  [[nodiscard]] const std::vector<double>& own_us() const { return own_us_; }

 private:
  [[nodiscard]] double end(std::uint32_t op) const {
    return operators_[op].begin_us + operators_[op].duration_us;
  }

  void set_parent(std::uint32_t op, std::uint32_t parent);

  const std::vector<Operator>& operators_;
  std::vector<std::uint32_t> order_;  // by thread, begin, and outer before inner
  std::vector<std::uint32_t> parent_;
  // An ancestor far above, an outermost one's itself: O(log depth) steps lead to any ancestor (Myers, "An
  // applicative random-access stack", 1983).
  std::vector<std::uint32_t> jump_;
  std::vector<std::uint32_t> depth_;
  std::vector<double> own_us_;  // without the operators inside
};

Nesting::Nesting(const std::vector<Operator>& operators)
    : operators_(operators),
      order_(operators.size()),
      parent_(operators.size(), none),
      jump_(operators.size()),
      depth_(operators.size()) {
  for (std::uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
  std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const Operator& x = operators[a];
    const Operator& y = operators[b];
    if (x.thread != y.thread) return x.thread < y.thread;
    return x.begin_us != y.begin_us ? x.begin_us < y.begin_us : x.duration_us > y.duration_us;
  });
  for (const Operator& op : operators) own_us_.push_back(op.duration_us);
  std::vector<std::uint32_t> open;
  for (const std::uint32_t i : order_) {
    const auto over = [&](std::uint32_t outer) {
      return operators[outer].thread != operators[i].thread || end(outer) < end(i) ||
             end(outer) <= operators[i].begin_us;
    };
    while (!open.empty() && over(open.back())) open.pop_back();
    set_parent(i, open.empty() ? none : open.back());
    if (!open.empty()) {
      own_us_[open.back()] = std::max(0.0, own_us_[open.back()] - operators[i].duration_us);
    }
    open.push_back(i);
  }
}

void Nesting::set_parent(std::uint32_t op, std::uint32_t parent) {
  parent_[op] = parent;
  jump_[op] = op;
  if (parent == none) return;
  depth_[op] = depth_[parent] + 1;
  const std::uint32_t once = jump_[parent];
  const std::uint32_t twice = jump_[once];
  jump_[op] = depth_[parent] - depth_[once] == depth_[once] - depth_[twice] ? twice : parent;
}

// Callers end no sooner than their callees, so that the ends grow from ancestor to ancestor.
std::uint32_t Nesting::innermost(std::uint32_t thread, double time_us) const {
  const auto after = std::partition_point(order_.begin(), order_.end(), [&](std::uint32_t i) {
    const Operator& op = operators_[i];
    return op.thread != thread ? op.thread < thread : op.begin_us <= time_us;
  });
  if (after == order_.begin() || operators_[*(after - 1)].thread != thread) return none;
  std::uint32_t op = *(after - 1);
  while (op != none && end(op) < time_us) {
    const std::uint32_t far = jump_[op];
    op = far != op && end(far) < time_us ? far : parent_[op];
  }
  return op;
}

class Builder {
 public:
  explicit Builder(Profile profile) : profile_(std::move(profile)), nesting_(profile_.operators) {}
  Result<Imported> build();

 private:
  void choose_device();
  void take_times();
  void merge();
  void memory(const MemoryEvent& event);
  void begin_segment(std::uint32_t op);
  std::uint32_t new_tensor(std::uint64_t bytes);
  void release(const MemoryEvent& event);
  void close();
  void before_the_trace();
  void note();

  Profile profile_;
  Nesting nesting_;
  std::vector<MemoryEvent> events_;  // of the chosen device, in order
  std::vector<double> time_us_;      // per operator
  std::vector<bool> emitted_;        // per operator: its time is in the trace
  bool by_kernels_ = false;
  double lost_us_ = 0;  // of kernels that no operator launched

  Imported out_;
  std::uint32_t current_ = none;  // operator of the last operation
  bool released_in_segment_ = false;
  std::unordered_map<std::uint64_t, std::uint32_t> live_;  // address -> tensor
  std::vector<std::size_t> made_in_;                       // tensor -> operation; none: before the profile
  std::size_t matched_ = 0;
  std::size_t unmatched_ = 0;
  std::size_t replaced_ = 0;
  std::uint64_t unmatched_bytes_ = 0;
};

void Builder::choose_device() {
  std::vector<std::uint64_t> bytes(profile_.devices.size());
  for (const MemoryEvent& e : profile_.memory) {
    if (e.bytes > 0) bytes[e.device] += static_cast<std::uint64_t>(e.bytes);
  }
  const auto chosen = static_cast<std::size_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
  for (const MemoryEvent& e : profile_.memory) {
    if (e.device == chosen && e.bytes != 0) events_.push_back(e);
  }
  std::stable_sort(events_.begin(), events_.end(), [](const MemoryEvent& a, const MemoryEvent& b) {
    return a.time_us != b.time_us ? a.time_us < b.time_us : a.order < b.order;
  });
  out_.trace.source = "Kineto profile, " + profile_.devices[chosen];
  if (profile_.memory.size() > events_.size()) {
    out_.notes.push_back(std::to_string(profile_.memory.size() - events_.size()) +
                         " memory events were left out, which are of other devices or of 0 bytes");
  }
}

void Builder::take_times() {
  by_kernels_ = !profile_.kernels.empty();
  time_us_ = by_kernels_ ? std::vector<double>(profile_.operators.size()) : nesting_.own_us();
  emitted_.resize(profile_.operators.size());
  std::unordered_map<std::uint64_t, const Launch*> launch_of;
  for (const Launch& launch : profile_.launches) launch_of.emplace(launch.correlation, &launch);
  for (const kineto::Kernel& kernel : profile_.kernels) {
    const auto found = launch_of.find(kernel.correlation);
    const std::uint32_t op =
        found == launch_of.end() ? none : nesting_.innermost(found->second->thread, found->second->begin_us);
    (op == none ? lost_us_ : time_us_[op]) += kernel.duration_us;
  }
}

void Builder::begin_segment(std::uint32_t op) {
  current_ = op;
  released_in_segment_ = false;
  wire::TraceOp segment;
  segment.name = op == none ? "outside operators" : profile_.operators[op].name;
  segment.recomputable = false;  // what it reads is not known
  if (op != none && !emitted_[op]) {
    segment.time_us = time_us_[op];
    emitted_[op] = true;
  }
  out_.trace.ops.push_back(std::move(segment));
}

std::uint32_t Builder::new_tensor(std::uint64_t bytes) {
  const auto index = static_cast<std::uint32_t>(out_.trace.tensors.size());
  out_.trace.tensors.push_back({index, bytes, wire::TensorKind::other, false, {}, {}, {}});
  made_in_.push_back(none);
  return index;
}

void Builder::release(const MemoryEvent& event) {
  released_in_segment_ = true;
  const auto found = live_.find(event.address);
  if (found != live_.end()) {
    ++matched_;
    wire::TraceOp& op = out_.trace.ops.back();
    if (made_in_[found->second] + 1 != out_.trace.ops.size()) {
      op.inputs.push_back(found->second);
    }
    live_.erase(found);
    return;
  }
  // Allocated before the profile began: it lives from the first operation on.
  const auto bytes = static_cast<std::uint64_t>(-event.bytes);
  const std::uint32_t tensor = new_tensor(bytes);
  out_.trace.ops.front().inputs.push_back(tensor);
  if (out_.trace.ops.size() > 1) out_.trace.ops.back().inputs.push_back(tensor);
  ++unmatched_;
  unmatched_bytes_ += bytes;
}

void Builder::memory(const MemoryEvent& event) {
  const std::uint32_t op = nesting_.innermost(event.thread, event.time_us);
  const bool cut = event.bytes > 0 && released_in_segment_;
  if (out_.trace.ops.empty() || op != current_ || cut) begin_segment(op);
  if (event.bytes < 0) return release(event);
  const std::uint32_t tensor = new_tensor(static_cast<std::uint64_t>(event.bytes));
  out_.trace.ops.back().outputs.push_back(tensor);
  made_in_[tensor] = out_.trace.ops.size() - 1;
  const auto [place, free_address] = live_.emplace(event.address, tensor);
  if (free_address) return;
  ++replaced_;  // the profile lost the release: what was there ends here
  out_.trace.ops.back().inputs.push_back(place->second);
  place->second = tensor;
}

// Operators with a time and memory events, in order of time; where both are at once the operator comes first.
void Builder::merge() {
  std::vector<std::uint32_t> timed;
  for (std::uint32_t i = 0; i < time_us_.size(); ++i) {
    if (time_us_[i] > 0) timed.push_back(i);
  }
  std::stable_sort(timed.begin(), timed.end(), [&](std::uint32_t a, std::uint32_t b) {
    return profile_.operators[a].begin_us < profile_.operators[b].begin_us;
  });
  std::size_t next = 0;
  const auto operators_until = [&](double time_us) {
    for (; next < timed.size() && profile_.operators[timed[next]].begin_us <= time_us; ++next) {
      if (!emitted_[timed[next]]) begin_segment(timed[next]);
    }
  };
  for (const MemoryEvent& event : events_) {
    operators_until(event.time_us);
    memory(event);
  }
  operators_until(std::numeric_limits<double>::infinity());
}

// What the log never released lives to the end.
void Builder::close() {
  std::vector<std::uint32_t> kept;
  for (const auto& [address, tensor] : live_) kept.push_back(tensor);
  std::sort(kept.begin(), kept.end());
  wire::TraceOp& last = out_.trace.ops.back();
  last.inputs.insert(last.inputs.end(), kept.begin(), kept.end());
  if (!kept.empty()) out_.notes.push_back(std::to_string(kept.size()) + " blocks were never released");
}

// The first event tells how much was allocated before it: weights and whatever else the step begins with.
void Builder::before_the_trace() {
  const MemoryEvent& first = events_.front();
  const auto change = static_cast<std::int64_t>(first.allocated_bytes) - first.bytes;
  const auto initial = static_cast<std::uint64_t>(std::max<std::int64_t>(change, 0));
  if (first.allocated_bytes == 0 || initial <= unmatched_bytes_) return;
  const std::uint32_t tensor = new_tensor(initial - unmatched_bytes_);
  out_.trace.tensors[tensor].persistent = true;
  out_.notes.push_back("tensor " + std::to_string(tensor) + " stands for the " +
                       std::to_string(initial - unmatched_bytes_) +
                       " bytes that were allocated before the profile began and stayed");
}

void Builder::note() {
  out_.notes.push_back(std::to_string(matched_) + " allocations were matched to their releases, " +
                       std::to_string(unmatched_) + " releases had no allocation in the profile");
  out_.notes.emplace_back(reads_unknown_note);
  if (replaced_ > 0) {
    out_.notes.push_back(std::to_string(replaced_) + " blocks were allocated again without a release");
  }
  if (lost_us_ > 0) {
    out_.notes.push_back(std::to_string(lost_us_) + " us of kernels were launched outside any operator");
  }
}

Result<Imported> Builder::build() {
  if (profile_.memory.empty()) {
    return refused<Imported>("the profile has no [memory] events; record it with profile_memory=True");
  }
  choose_device();
  if (events_.empty()) return refused<Imported>("the profile's memory events are all of 0 bytes");
  if (events_.size() > most_tensors) return refused<Imported>("more memory events than a trace can hold");
  out_.trace.name = profile_.name;
  out_.trace.reads_known = false;
  take_times();
  merge();
  close();
  before_the_trace();
  note();
  if (std::string wrong = check_limits(out_.trace); !wrong.empty()) return refused<Imported>(wrong);
  return ok(std::move(out_));
}

}  // namespace

Result<Imported> import_kineto(std::string_view text) {
  Result<Profile> profile = kineto::read_profile(text);
  if (!profile) return refused<Imported>(std::move(profile.error));
  return Builder(std::move(*profile)).build();
}

}  // namespace terrace::import
