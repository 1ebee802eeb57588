#include "daemon/planner/simulate/bound/lives.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "daemon/planner/simulate/program.h"

namespace terrace::planner {
namespace {

// Time is counted in ends of operations: 0 is the step's begin, k + 1 the end of operation k; of a step that
// repeats, n more are the same one step later. Before the begin of one that does not lies this:
using End = std::int64_t;
constexpr End before_begin = -1;

struct Naming {
  End at = 0;
  bool reads = false, writes = false;
  bool signs = false;  // reads nothing more
};

// Between two uses, both excluded.
struct Rest {
  End after = 0, before = 0;
  bool returns = true;
};

struct Life {
  End written = before_begin;
  bool copied = false;
  std::vector<Rest> rests;
};

class Namings {
 public:
  explicit Namings(const wire::Trace& trace) : of_(trace.tensors.size()) {
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
      for (const std::uint32_t t : trace.ops[op].inputs) use(t, End{op} + 1).reads = true;
      for (const std::uint32_t t : trace.ops[op].outputs) use(t, End{op} + 1).writes = true;
      for (const std::uint32_t t : trace.ops[op].sign_only) use(t, End{op} + 1).signs = true;
    }
    for (std::size_t t = 0; t < of_.size(); ++t) {
      // Its first operation only needs memory, and leaves something there.
      if (!trace.tensors[t].persistent && !of_[t].empty())
        of_[t].front() = {of_[t].front().at, false, true, false};
    }
  }

  const std::vector<Naming>& of(std::size_t tensor) const { return of_[tensor]; }

 private:
  std::vector<std::vector<Naming>> of_;

  Naming& use(std::uint32_t t, End at) {
    if (of_[t].empty() || of_[t].back().at != at) of_[t].push_back({at, false, false, false});
    return of_[t].back();
  }
};

// The contents that one tensor has in a step.
std::vector<Life> contents_of(const std::vector<Naming>& uses, bool persistent, bool repeats, End ops) {
  std::vector<Life> contents;
  std::vector<Naming> line = uses;
  if (persistent && !repeats) {
    contents.push_back({before_begin, true, {}});
    line.insert(line.begin(), {before_begin, false, false, false});
    line.push_back({ops + 1, true, false, false});
  }
  if (persistent && repeats && !uses.empty()) {
    const auto writer = std::find_if(line.begin(), line.end(), [](const Naming& u) { return u.writes; });
    if (writer == line.end()) contents.push_back({before_begin, true, {}});
    const auto begin = writer == line.end() ? line.begin() : writer;
    for (auto use = line.begin(); use < begin; ++use) use->at += ops;
    std::rotate(line.begin(), begin, line.end());
    line.push_back({line.front().at + ops, line.front().reads, false, false});
  }
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (i > 0 && line[i].reads && line[i].at > line[i - 1].at + 1)
      contents.back().rests.push_back({line[i - 1].at, line[i].at, line[i].at <= ops || repeats});
    if (line[i].writes) contents.push_back({line[i].at, false, {}});
  }
  return contents;
}

class Maker {
 public:
  Maker(const wire::Trace& trace, const LivesOptions& options)
      : trace_(trace),
        repeats_(options.repeats),
        most_(options.most_instants),
        least_shares_(options.least_shares),
        least_read_shares_(options.least_read_shares),
        uses_(trace) {}

  Lives make() {
    for (std::size_t t = 0; t < trace_.tensors.size(); ++t)
      contents_.push_back(contents_of(uses_.of(t), trace_.tensors[t].persistent, repeats_, ops()));
    weigh();
    choose();
    for (std::size_t t = 0; t < contents_.size(); ++t) {
      for (const Life& c : contents_[t]) add(static_cast<std::uint32_t>(t), c);
    }
    for (auto& [key, version] : alike_) lives_.versions.push_back(std::move(version));
    return std::move(lives_);
  }

 private:
  const wire::Trace& trace_;
  bool repeats_;
  std::uint32_t most_;
  const std::vector<double>& least_shares_;
  const std::vector<double>& least_read_shares_;
  Namings uses_;
  std::vector<std::vector<Life>> contents_;  // per tensor
  std::vector<double> named_, load_;  // bytes at each end: named by its operation, and with all that rests
  std::vector<End> ends_;             // of the instants, ascending
  std::map<std::vector<std::uint32_t>, Version> alike_;
  Lives lives_;

  End ops() const { return static_cast<End>(trace_.ops.size()); }

  void weigh() {
    load_.assign(ops() + 1, 0);
    named_.assign(ops() + 1, 0);
    for (End op = 0; op < ops(); ++op) named_[op + 1] = static_cast<double>(trace_.ops[op].workspace_bytes);
    std::vector<double> change(2 * ops() + 3, 0);
    for (std::size_t t = 0; t < contents_.size(); ++t) {
      const auto bytes = static_cast<double>(trace_.tensors[t].bytes);
      const double read_share = least_read_shares_.empty() ? 1 : least_read_shares_[t];
      for (const Naming& u : uses_.of(t)) named_[u.at] += u.signs ? bytes * read_share : bytes;
      for (const Life& c : contents_[t]) {
        for (const Rest& r : c.rests) {
          change[r.after + 1] += bytes;
          change[r.before] -= bytes;
        }
      }
    }
    double resting = 0;
    for (End end = 0; end <= 2 * ops(); ++end) {
      resting += change[end];
      load_[end <= ops() ? end : end - ops()] += resting;
    }
    for (End end = 0; end <= ops(); ++end) load_[end] += named_[end];
  }

  // Their sum is 1: mostly time, and a little for each operation, so that those without a time count.
  std::vector<double> weights_of_ends() const {
    double total_us = 0;
    for (const wire::TraceOp& op : trace_.ops) total_us += op.time_us;
    const double by_time = total_us > 0 ? 0.9 / total_us : 0;
    std::vector<double> weights(ops() + 1, 0);
    double sum = 0;
    for (End end = 1; end <= ops(); ++end) {
      weights[end] = trace_.ops[end - 1].time_us * by_time + 0.1 / static_cast<double>(ops());
      sum += weights[end];
    }
    for (double& w : weights) w /= sum;
    return weights;
  }

  // One instant for each equal share of the computing, the fullest of it, and the last of all.
  void choose() {
    if (!repeats_) ends_.push_back(0);
    const std::vector<double> weights = weights_of_ends();
    double past = 0;
    std::uint32_t part = 0;
    End best = 0;
    for (End end = 1; end <= ops(); ++end) {
      past += weights[end];
      const auto now = std::min(most_ - 1, static_cast<std::uint32_t>(past * most_));
      if (best != 0 && now != part) {
        ends_.push_back(best);
        best = 0;
      }
      part = now;
      if (best == 0 || load_[end] > load_[best]) best = end;
    }
    if (best != 0) ends_.push_back(best);
    if (ends_.empty() || ends_.back() != ops()) ends_.push_back(ops());
    measure();
  }

  void measure() {
    End op = 0;
    for (const End end : ends_) {
      Instant instant{0, named_[end]};
      for (; op < end; ++op) instant.window_us += trace_.ops[op].time_us;
      lives_.instants.push_back(instant);
    }
  }

  // The first instant after an end, counted on into the next step.
  std::uint32_t after(End end) const {
    const End steps = repeats_ && end > ops() ? 1 : 0;
    const auto at = std::upper_bound(ends_.begin(), ends_.end(), end - steps * ops());
    return static_cast<std::uint32_t>(at - ends_.begin() + steps * static_cast<End>(ends_.size()));
  }

  static bool has(const std::vector<std::uint32_t>& list, std::uint32_t tensor) {
    return std::find(list.begin(), list.end(), tensor) != list.end();
  }

  // Whether the operations up to `last` that made the content can run again: from one that wrote the tensor
  // whole, over updates in place. What is from before the step cannot be made.
  bool can_be_made_again(std::uint32_t tensor, End last) const {
    const std::vector<Naming>& uses = uses_.of(tensor);
    auto use = std::upper_bound(uses.begin(), uses.end(), last,
                                [](End at, const Naming& naming) { return at < naming.at; });
    for (std::size_t updates = 0; use != uses.begin() && updates < most_updates_again;) {
      if (!(--use)->writes) continue;
      const wire::TraceOp& op = trace_.ops[use->at - 1];
      if (!op.recomputable || !has(op.outputs, tensor)) return false;
      if (!has(op.inputs, tensor)) return true;
      ++updates;
    }
    return false;
  }

  // What making it again takes at least: its last operation's time over all that this would make.
  double again_us_per_byte(std::uint32_t tensor, const Life& content) const {
    if (content.copied || ops() == 0) return never_again;
    const End last = (content.written - 1) % ops() + 1;
    if (!can_be_made_again(tensor, last)) return never_again;
    const wire::TraceOp& op = trace_.ops[last - 1];
    std::vector<std::uint32_t> made = op.outputs;
    std::sort(made.begin(), made.end());
    made.erase(std::unique(made.begin(), made.end()), made.end());
    double bytes = 0;
    for (const std::uint32_t t : made) bytes += static_cast<double>(trace_.tensors[t].bytes);
    return op.time_us / bytes;
  }

  void add(std::uint32_t tensor, const Life& content) {
    const auto bytes = static_cast<double>(trace_.tensors[tensor].bytes);
    if (bytes == 0) return;
    const double share = least_shares_.empty() ? 1 : least_shares_[tensor];
    Version v{content.copied ? 0 : after(content.written), content.copied, bytes, share, never_again, {}};
    const auto share_bits = std::bit_cast<std::uint64_t>(share);
    std::vector<std::uint32_t> key{v.born, v.copied ? 1U : 0U, static_cast<std::uint32_t>(share_bits),
                                   static_cast<std::uint32_t>(share_bits >> 32)};
    for (const Rest& r : content.rests) {
      const std::uint32_t first = after(r.after);
      const std::uint32_t end = after(r.before - 1);  // the first one at which it is named again, or later
      if (first >= end) continue;
      if (!r.returns && v.copied) continue;  // it may lie outside for nothing
      v.gaps.push_back({first, end - 1, r.returns});
      key.insert(key.end(), {first, end - 1, r.returns ? 1U : 0U});
    }
    if (v.gaps.empty()) return;
    v.again_us_per_byte = again_us_per_byte(tensor, content);
    const auto [it, fresh] = alike_.emplace(std::move(key), v);
    if (fresh) return;
    it->second.bytes += bytes;
    it->second.again_us_per_byte = std::min(it->second.again_us_per_byte, v.again_us_per_byte);
  }
};

}  // namespace

Lives lives_of(const wire::Trace& trace, const LivesOptions& options) { return Maker(trace, options).make(); }

}  // namespace terrace::planner
