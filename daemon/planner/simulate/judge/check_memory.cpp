// Replays a timeline: what lies where at each instant, from the report alone.
//
// The computation's points (ready, present, end of each run; drops) are walked in order, and transfers are
// merged in by time: at one instant ends come first, then the computation, then begins, which is the order in
// which one lets the other happen; uses of copies come after ends, and after as many runs as they say. Lives
// are worked out again from the trace and the recomputations told. What is seen to lie in tier 0 must be what
// the report's stays tell.
#include <algorithm>
#include <limits>

#include "daemon/planner/simulate/judge/check_codecs.h"
#include "daemon/planner/simulate/judge/check_parts.h"
#include "daemon/planner/simulate/judge/seen_stays.h"

namespace terrace::planner {
namespace {

using Kind = ExtraWork::Kind;

enum class Holding : std::uint8_t { none, held, dropped };
enum class Direction : std::uint8_t { none, in, out, aside };

struct MemoryState {
  Holding content = Holding::none;
  Direction moving = Direction::none;
  bool near = false, far = false;  // memory is held there; both in transfer, or with a clean copy
  bool coded = false;              // nothing but the coded form exists in tier 0
  bool departed = false;
  std::uint32_t tier = 0;
  std::uint64_t stored = 0;
  std::uint64_t runs_left = 0;
};

struct Work {
  const OpTiming* timing = nullptr;
  const ExtraWork* extra = nullptr;  // null: an operation
  std::uint32_t op = 0;
};

struct Use {
  std::uint32_t tensor = 0;
  bool reads = false, writes = false;
  bool values = false;  // reads more than signs
};

class MemoryChecker {
 public:
  MemoryChecker(const wire::Trace& trace, const Machine& machine, const SimulationReport& report)
      : trace_(trace),
        machine_(machine),
        report_(report),
        states_(trace.tensors.size()),
        codecs_(trace, machine),
        seen_(trace.tensors.size()),
        used_(machine.tiers.size(), 0),
        peak_(used_) {}

  std::string check() {
    list_work();
    count_lives();
    place();
    order_ends();
    for (const Work& w : work_) {
      if (!wrong_.empty()) break;
      carry_out(w);
    }
    until(report_.total_us, true);
    move_to(std::numeric_limits<double>::infinity());
    if (next_copy_ != report_.copies.size()) wrong("a copy's use stands out of order");
    if (wrong_.empty()) check_kept();
    if (wrong_.empty()) check_peaks();
    if (wrong_.empty()) wrong_ = seen_.check(trace_, report_);
    return wrong_;
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  const SimulationReport& report_;
  std::vector<MemoryState> states_;
  CodecJudge codecs_;  // coded forms: compressed, and not changed since
  SeenStays seen_;
  std::vector<std::uint64_t> used_, peak_;
  std::vector<Work> work_;  // in order
  std::vector<std::uint32_t> ends_;
  std::size_t next_start_ = 0, next_end_ = 0, next_sample_ = 0, next_copy_ = 0;
  std::uint32_t runs_ended_ = 0;
  std::vector<const ExtraWork*> decoded_;
  std::vector<Use> current_;  // of the run that is ready or runs
  bool running_ = false;
  double time_us_ = -std::numeric_limits<double>::infinity();
  std::string wrong_;

  std::string name_of(std::uint32_t t) const { return "tensor " + std::to_string(trace_.tensors[t].id); }
  void wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = what + " at " + std::to_string(time_us_) + " µs";
  }

  // --- what happens, in order

  void list_work() {
    std::size_t next = 0;
    const std::vector<ExtraWork>& extra = report_.extra;
    for (std::uint32_t op = 0; op <= trace_.ops.size(); ++op) {
      for (; next < extra.size() && extra[next].position == op; ++next) {
        work_.push_back({&extra[next].timing, &extra[next], extra[next].op});
      }
      if (op < trace_.ops.size()) work_.push_back({&report_.ops[op], nullptr, op});
    }
  }

  static bool is_run(const Work& w) { return w.extra == nullptr || w.extra->kind == Kind::recompute; }

  // Running statistics, in a repeated run that is not told to make them.
  bool is_left_alone(const Work& w, std::uint32_t t) const {
    const auto has = [t](const std::vector<std::uint32_t>& list) {
      return std::find(list.begin(), list.end(), t) != list.end();
    };
    return w.extra != nullptr && trace_.tensors[t].running_statistics && !has(w.extra->tensors) &&
           has(trace_.ops[w.op].inputs) && has(trace_.ops[w.op].outputs);
  }

  std::vector<Use> uses_of(const Work& w) const {
    std::vector<Use> uses;
    const auto name = [&](std::uint32_t t, bool writes) {
      auto it = std::find_if(uses.begin(), uses.end(), [&](const Use& u) { return u.tensor == t; });
      if (it == uses.end()) it = uses.insert(uses.end(), {t, false, false, false});
      (writes ? it->writes : it->reads) = true;
      const std::vector<std::uint32_t>& signs = trace_.ops[w.op].sign_only;
      it->values |= !writes && std::find(signs.begin(), signs.end(), t) == signs.end();
    };
    for (const std::uint32_t t : trace_.ops[w.op].inputs)
      if (!is_left_alone(w, t)) name(t, false);
    for (const std::uint32_t t : w.extra == nullptr ? trace_.ops[w.op].outputs : w.extra->tensors)
      name(t, true);
    return uses;
  }

  void count_lives() {
    for (const Work& w : work_) {
      if (!is_run(w)) continue;
      for (const Use& u : uses_of(w)) ++states_[u.tensor].runs_left;
    }
  }

  void place() {
    for (std::uint32_t t = 0; t < states_.size(); ++t) {
      if (trace_.tensors[t].persistent) states_[t].content = Holding::held;
    }
    for (const Residence& r : report_.start) {
      if (r.tensor >= states_.size() || r.tier >= used_.size()) {
        wrong("the start names a tensor or tier that does not exist");
        return;
      }
      MemoryState& s = states_[r.tensor];
      s.near = r.tier == 0;
      s.far = r.tier != 0;
      s.tier = r.tier;
      s.stored = r.stored_bytes;
      if (!codecs_.stored_at_start(r.tensor, r.stored_bytes))
        wrong(name_of(r.tensor) + " begins in " + std::to_string(r.stored_bytes) +
              " bytes, which no codec makes of it,");
      take(r.tier, r.tier == 0 ? trace_.tensors[r.tensor].bytes : r.stored_bytes, r.tensor);
      if (r.copy_tier != 0) place_copy(r);
    }
  }

  void place_copy(const Residence& r) {
    MemoryState& s = states_[r.tensor];
    if (r.tier != 0 || r.copy_tier >= used_.size()) {
      wrong(name_of(r.tensor) + " begins with a copy where none can be,");
      return;
    }
    if (!codecs_.stored_at_start(r.tensor, r.copy_bytes))
      wrong(name_of(r.tensor) + " begins with a copy of " + std::to_string(r.copy_bytes) +
            " bytes, which no codec makes of it,");
    s.far = true;
    s.tier = r.copy_tier;
    s.stored = r.copy_bytes;
    take(r.copy_tier, r.copy_bytes, r.tensor);
  }

  void order_ends() {
    ends_.resize(report_.transfers.size());
    for (std::uint32_t i = 0; i < ends_.size(); ++i) ends_[i] = i;
    std::stable_sort(ends_.begin(), ends_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return report_.transfers[a].end_us < report_.transfers[b].end_us;
    });
  }

  // --- memory

  void take(std::uint32_t tier, std::uint64_t bytes, std::uint32_t tensor) {
    if (machine_.tiers[tier].inside) use(0, bytes);
    use(tier, bytes);
    if (tier == 0 || machine_.tiers[tier].inside) seen_.comes(tensor, tier != 0, bytes, time_us_);
  }
  void use(std::uint32_t tier, std::uint64_t bytes) {
    used_[tier] += bytes;
    peak_[tier] = std::max(peak_[tier], used_[tier]);
    if (used_[tier] > machine_.tiers[tier].capacity_bytes) {
      wrong("tier '" + machine_.tiers[tier].name + "' holds " + std::to_string(used_[tier]) +
            " bytes, more than it has,");
    }
  }
  void give(std::uint32_t tier, std::uint64_t bytes, std::uint32_t tensor) {
    used_[tier] -= bytes;
    if (machine_.tiers[tier].inside) used_[0] -= bytes;
    if (tier == 0 || machine_.tiers[tier].inside) seen_.goes(tensor, tier != 0, time_us_);
  }

  static bool has_copy(const MemoryState& s) { return s.near && s.far && s.moving == Direction::none; }

  void lose_copy(std::uint32_t t) {
    MemoryState& s = states_[t];
    if (!has_copy(s)) return;
    give(s.tier, s.stored, t);
    s.far = false;
  }

  void forget(std::uint32_t t, Holding left) {
    MemoryState& s = states_[t];
    if (s.near || s.departed) give(0, trace_.tensors[t].bytes, t);
    if (s.far) give(s.tier, s.stored, t);
    const std::uint64_t runs_left = s.runs_left;
    if (s.moving != Direction::none) wrong(name_of(t) + " dies in a transfer that goes on");
    codecs_.written(t);
    s = {};
    s.content = left;
    s.runs_left = runs_left;
  }

  // --- transfers

  // To `time`: ends up to and with it, begins before it, or with it at the very end.
  void until(double time_us, bool with_starts) {
    const std::vector<Transfer>& all = report_.transfers;
    while (wrong_.empty()) {
      const bool start = next_start_ < all.size() && (all[next_start_].start_us < time_us ||
                                                      (with_starts && all[next_start_].start_us == time_us));
      const bool end = next_end_ < all.size() && all[ends_[next_end_]].end_us <= time_us;
      if (copy_is_next(time_us, start, end)) {
        use(report_.copies[next_copy_++]);
        continue;
      }
      if (!start && !end) break;
      const bool start_first = start && (!end || all[next_start_].start_us < all[ends_[next_end_]].end_us);
      if (start_first || (end && !begun(ends_[next_end_]))) {
        begin(all[next_start_++]);
      } else {
        finish(all[ends_[next_end_++]]);
      }
    }
  }

  bool copy_is_next(double time_us, bool start, bool end) const {
    if (next_copy_ == report_.copies.size()) return false;
    const CopyUse& c = report_.copies[next_copy_];
    if (c.time_us > time_us || c.runs_ended != runs_ended_) return false;
    const std::vector<Transfer>& all = report_.transfers;
    return (!start || c.time_us <= all[next_start_].start_us) &&
           (!end || c.time_us < all[ends_[next_end_]].end_us);
  }

  // The tensor must lie in tier 0 with a copy, and no run may be using it.
  void use(const CopyUse& c) {
    move_to(c.time_us);
    if (c.tensor >= states_.size()) {
      wrong("a copy is of a tensor that does not exist");
      return;
    }
    MemoryState& s = states_[c.tensor];
    if (s.content != Holding::held || !has_copy(s)) wrong(name_of(c.tensor) + " has no valid copy");
    if (!wrong_.empty()) return;
    if (c.kind == CopyUse::Kind::gave_way) {
      lose_copy(c.tensor);
      return;
    }
    const auto names_it = [&](const Use& u) { return u.tensor == c.tensor; };
    if (running_ && std::any_of(current_.begin(), current_.end(), names_it))
      wrong(name_of(c.tensor) + " leaves to its copy while an operation uses it");
    give(0, trace_.tensors[c.tensor].bytes, c.tensor);
    s.near = s.coded = false;
  }

  bool begun(std::uint32_t transfer) const { return transfer < next_start_; }

  // Time goes on: what was reached at the last instant must be what the samples say of it.
  void move_to(double time_us) {
    if (time_us == time_us_) return;
    if (time_us < time_us_) wrong("the computation goes back in time");
    compare_sample();
    time_us_ = time_us;
  }

  void compare_sample() {
    const std::vector<MemorySample>& samples = report_.memory;
    if (time_us_ < 0 || time_us_ > report_.total_us) return;
    while (next_sample_ + 1 < samples.size() && samples[next_sample_ + 1].time_us <= time_us_) ++next_sample_;
    if (samples.empty() || samples[next_sample_].time_us > time_us_) {
      wrong("there is no sample of the memory");
    } else if (samples[next_sample_].tier_bytes != used_) {
      wrong("the sampled memory is not what lies there");
    }
  }

  // Between two far tiers: the content is away, and has a place in both until the transfer ends.
  void begin_aside(const Transfer& t) {
    MemoryState& s = states_[t.tensor];
    const bool there = s.far && !s.near && s.moving == Direction::none && s.tier == t.from;
    if (s.content != Holding::held || !there || s.stored != t.stored_bytes)
      wrong(name_of(t.tensor) + " is not where its transfer between far tiers begins");
    s.moving = Direction::aside;
    take(t.tier, t.stored_bytes, t.tensor);
  }

  void end_aside(const Transfer& t) {
    MemoryState& s = states_[t.tensor];
    if (s.moving != Direction::aside) wrong(name_of(t.tensor) + " ends a transfer that it is not in");
    s.moving = Direction::none;
    give(t.aborted ? t.tier : t.from, t.stored_bytes, t.tensor);
    if (!t.aborted) s.tier = t.tier;
  }

  void begin(const Transfer& t) {
    move_to(t.start_us);
    if (t.from != 0) return begin_aside(t);
    MemoryState& s = states_[t.tensor];
    if (!t.in) lose_copy(t.tensor);  // of another tier
    const bool here = s.near && !s.far && s.moving == Direction::none;
    const bool there =
        s.far && !s.near && s.moving == Direction::none && s.tier == t.tier && s.stored == t.stored_bytes;
    if (s.content != Holding::held) wrong(name_of(t.tensor) + " is moved without content");
    if (!(t.in ? there : here)) wrong(name_of(t.tensor) + " is not where its transfer begins");
    if (!t.in && running_ && is_written(t.tensor)) wrong(name_of(t.tensor) + " leaves while it is written");
    if (!t.in) check_sent(t);
    const bool as_form = t.in && t.stored_bytes != trace_.tensors[t.tensor].bytes;
    if (as_form && !codecs_.values_needed(t.tensor))
      wrong(name_of(t.tensor) + " comes back, of which one bit of each value is left,");
    s.moving = t.in ? Direction::in : Direction::out;
    s.tier = t.tier;
    s.stored = t.stored_bytes;
    s.near = s.far = true;
    if (t.in) {
      take(0, trace_.tensors[t.tensor].bytes, t.tensor);
    } else {
      take(t.tier, t.stored_bytes, t.tensor);
    }
  }

  void check_sent(const Transfer& t) {
    const bool had_form = codecs_.has_form(t.tensor);
    if (codecs_.sent(t.tensor, t.stored_bytes, machine_.tiers[t.tier].inside)) return;
    if (!had_form) wrong(name_of(t.tensor) + " is sent compressed, but was not");
    wrong(name_of(t.tensor) + " is sent in " + std::to_string(t.stored_bytes) +
          " bytes, which its codec does not make of it,");
  }

  void finish(const Transfer& t) {
    move_to(t.end_us);
    if (t.from != 0) return end_aside(t);
    MemoryState& s = states_[t.tensor];
    if (s.moving != (t.in ? Direction::in : Direction::out)) {
      wrong(name_of(t.tensor) + " ends a transfer that it is not in");
      return;
    }
    s.moving = Direction::none;
    if (!t.aborted && !codecs_.moved(t)) wrong(name_of(t.tensor) + " moves faster than its codec works");
    if (t.in || t.aborted) {
      arrive(t, &s);
    } else {
      leave(t, &s);
    }
  }

  // Also an aborted one: out, it stays; in, it is lost. What came in leaves a copy behind, outside tier 0.
  void arrive(const Transfer& t, MemoryState* s) {
    if (!t.in || t.aborted || machine_.tiers[t.tier].inside) {
      s->far = false;
      give(t.tier, t.stored_bytes, t.tensor);
    }
    if (t.in && t.aborted) {
      s->near = false;
      give(0, trace_.tensors[t.tensor].bytes, t.tensor);
    }
    const bool coded = t.stored_bytes != trace_.tensors[t.tensor].bytes;
    if (t.in) s->coded = coded && codecs_.waits_for_decoding(t.tensor);
  }

  void leave(const Transfer& t, MemoryState* s) {
    s->near = false;
    s->coded = false;
    s->departed = std::any_of(current_.begin(), current_.end(),
                              [&](const Use& u) { return u.tensor == t.tensor && !u.writes; });
    if (!s->departed) give(0, trace_.tensors[t.tensor].bytes, t.tensor);
  }

  bool is_written(std::uint32_t tensor) const {
    return std::any_of(current_.begin(), current_.end(),
                       [&](const Use& u) { return u.tensor == tensor && u.writes; });
  }

  // --- the computation

  void reach(double time_us) {
    until(time_us, false);
    move_to(time_us);
  }

  void carry_out(const Work& w) {
    if (is_run(w)) {
      run(w);
      return;
    }
    const std::uint32_t t = w.extra->tensors[0];
    MemoryState& s = states_[t];
    if (w.extra->kind == Kind::decompress) {
      decoded_.push_back(w.extra);  // by the run that comes next
      return;
    }
    reach(w.timing->end_us);
    if (w.extra->kind == Kind::wait) {
      if (s.moving != Direction::none) wrong(name_of(t) + " was waited for and is still on its way");
      return;
    }
    if (s.content != Holding::held) wrong(name_of(t) + " has no content to drop or to code");
    if (w.extra->kind == Kind::drop) {
      forget(t, Holding::dropped);
    } else {
      if (!s.near) wrong(name_of(t) + " is compressed where it does not lie");
      if (!codecs_.compressed(t, *w.timing, s.coded))
        wrong(name_of(t) + " was compressed in a time that no codec takes");
      s.coded = false;
      lose_copy(t);
    }
  }

  void run(const Work& w) {
    const std::vector<Use> uses = uses_of(w);
    reach(w.timing->ready_us);
    current_ = uses;
    for (const Use& u : uses) give_way(u);
    reach(w.timing->present_us);
    for (const ExtraWork* d : decoded_) check_decoded(*d);
    for (const Use& u : uses) check_use(u);
    decoded_.clear();
    running_ = true;
    const std::uint64_t extra_bytes = extra_of(w);
    take(0, extra_bytes, Stay::of_a_run);
    reach(w.timing->end_us);
    give(0, extra_bytes, Stay::of_a_run);
    current_.clear();
    running_ = false;
    for (const Use& u : uses) let_go(u);
    ++runs_ended_;
  }

  // A far copy that will be written over is forgotten as soon as the run is next.
  void give_way(const Use& u) {
    MemoryState& s = states_[u.tensor];
    if (u.reads || s.near || !s.far || s.moving != Direction::none || starts_now(u.tensor)) return;
    give(s.tier, s.stored, u.tensor);
    s.far = false;
  }

  // It was on its way before the run was next; at one instant that is seen only here.
  bool starts_now(std::uint32_t tensor) const {
    const std::vector<Transfer>& all = report_.transfers;
    for (std::size_t i = next_start_; i < all.size() && all[i].start_us == time_us_; ++i) {
      if (all[i].tensor == tensor) return all[i].in;
    }
    return false;
  }

  void check_use(const Use& u) {
    MemoryState& s = states_[u.tensor];
    if (u.reads && s.content == Holding::dropped) wrong(name_of(u.tensor) + " is read, but was dropped,");
    const bool first = s.content == Holding::none && !trace_.tensors[u.tensor].persistent;
    if (is_read_as_bits(u)) {
      if (!codecs_.signs_read(u.tensor)) wrong(name_of(u.tensor) + " is read where its form has no signs");
      return;
    }
    if (!s.near && !s.departed) {
      if (s.far || (u.reads && !first)) {
        wrong(name_of(u.tensor) + " is not in tier 0 when it is needed");
      }
      s.near = true;
      take(0, trace_.tensors[u.tensor].bytes, u.tensor);
    }
    if (s.moving == Direction::in) wrong(name_of(u.tensor) + " has not arrived when it is needed");
    if (s.moving == Direction::out && u.writes) wrong(name_of(u.tensor) + " is written while it leaves");
    const auto is_it = [&](const ExtraWork* d) { return d->tensors[0] == u.tensor; };
    if (u.reads && s.coded && std::none_of(decoded_.begin(), decoded_.end(), is_it)) {
      wrong(name_of(u.tensor) + " is read while it is compressed");
    }
    s.coded = false;
    if (!u.writes) return;
    lose_copy(u.tensor);
    codecs_.written(u.tensor);
  }

  // Where its form lies, which nothing moves.
  bool is_read_as_bits(const Use& u) const {
    const MemoryState& s = states_[u.tensor];
    return u.reads && !u.values && !u.writes && s.content == Holding::held && !s.near && !s.departed &&
           s.far && machine_.tiers[s.tier].inside && s.moving == Direction::none;
  }

  void check_decoded(const ExtraWork& work) {
    if (!codecs_.decompressed(work.tensors[0], work.timing))
      wrong(name_of(work.tensors[0]) + " was decompressed in a time that its codec does not take");
  }

  void let_go(const Use& u) {
    MemoryState& s = states_[u.tensor];
    if (s.departed) give(0, trace_.tensors[u.tensor].bytes, u.tensor);
    s.departed = false;
    s.content = Holding::held;
    --s.runs_left;
    if (s.runs_left == 0 && !trace_.tensors[u.tensor].persistent) forget(u.tensor, Holding::none);
  }

  // Workspace, and outputs of a recomputation that it does not keep.
  std::uint64_t extra_of(const Work& w) const {
    std::uint64_t bytes = trace_.ops[w.op].workspace_bytes;
    if (w.extra == nullptr) return bytes;
    std::vector<std::uint32_t> others;
    for (const std::uint32_t t : trace_.ops[w.op].outputs) {
      const auto is = [&](std::uint32_t o) { return o == t; };
      if (std::any_of(w.extra->tensors.begin(), w.extra->tensors.end(), is) ||
          std::any_of(others.begin(), others.end(), is) || is_left_alone(w, t)) {
        continue;
      }
      others.push_back(t);
      bytes += trace_.tensors[t].bytes;
    }
    return bytes;
  }

  // What is persistent begins the next step as this one left it.
  void check_kept() {
    for (std::uint32_t t = 0; t < states_.size(); ++t) {
      if (!trace_.tensors[t].persistent) continue;
      const MemoryState& s = states_[t];
      const bool somewhere = s.near || s.far || trace_.tensors[t].bytes == 0;
      if (s.content != Holding::held || !somewhere)
        wrong("persistent " + name_of(t) + " is lost to the next step");
      const bool as_form = !s.near && s.far && s.stored != trace_.tensors[t].bytes;
      if (as_form && !codecs_.values_needed(t))
        wrong("of persistent " + name_of(t) + " one bit a value is left");
    }
  }

  void check_peaks() {
    if (report_.tier_peak_bytes.size() != peak_.size()) {
      wrong("the report is of another machine");
      return;
    }
    for (std::size_t tier = 0; tier < peak_.size(); ++tier) {
      const std::uint64_t told = report_.tier_peak_bytes[tier];
      if (peak_[tier] > told || told > machine_.tiers[tier].capacity_bytes) {
        wrong("the peak of tier '" + machine_.tiers[tier].name + "' is not what was reached");
      }
    }
  }
};

}  // namespace

std::string check_memory(const wire::Trace& trace, const Machine& machine, const SimulationReport& report) {
  return MemoryChecker(trace, machine, report).check();
}

}  // namespace terrace::planner
