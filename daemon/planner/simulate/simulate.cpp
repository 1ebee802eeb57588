// The computation's way through the program: it asks the store for what each run names, waits, runs, lets go.
//
// Only the computation decides; transfers just end. So there is no queue of events: time moves to the next
// end of a transfer while the computation waits or runs, and from item to item otherwise.
#include <algorithm>
#include <limits>

#include "daemon/planner/simulate/program.h"
#include "daemon/planner/simulate/simulator.h"
#include "daemon/planner/simulate/store.h"

namespace terrace::planner {
namespace {

using wire::Action;
using wire::ScheduleEntry;

enum class Content : std::uint8_t { none, held, dropped };

class Runner {
 public:
  Runner(const wire::Trace& trace, const Machine& machine, const wire::Schedule& schedule,
         const SimulationOptions& options, const Program& program)
      : trace_(trace),
        machine_(machine),
        schedule_(schedule),
        options_(options),
        p_(program),
        store_(trace, machine, program, options.victims),
        content_(trace.tensors.size(), Content::none),
        cursor_(trace.tensors.size(), 0) {}

  Result<SimulationReport> run() {
    bool going = place_persistent();
    for (step_ = 0; going && step_ < options_.steps; ++step_) going = step();
    if (!going) return refused<SimulationReport>(error_);
    report_.total_us = now() - base_us_;
    report_.stall_rule = options_.stall_rule;
    report_.bounds = lower_bounds(trace_, machine_);
    store_.end_report(&report_);
    return ok(std::move(report_));
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  const wire::Schedule& schedule_;
  const SimulationOptions& options_;
  const Program& p_;
  Store store_;
  std::vector<Content> content_;
  std::vector<std::uint32_t> cursor_;   // per tensor: uses of this step that are past
  std::vector<std::uint32_t> missing_;  // what the current run waits for
  std::vector<std::uint32_t> taken_;    // what it gives memory to
  std::uint64_t claim_ = 0;             // those and its extra bytes
  std::uint32_t step_ = 0;
  bool recording_ = false;
  double base_us_ = 0;
  SimulationReport report_;
  std::string error_;

  double now() const { return store_.now_us(); }
  bool fail(std::string why) {
    error_ = std::move(why);
    return false;
  }
  std::string tensor_name(std::uint32_t t) const { return "tensor " + std::to_string(trace_.tensors[t].id); }
  std::string run_name(const Run& run) const {
    return (run.again ? "recomputing operation " : "operation ") + std::to_string(run.op) + " ('" +
           trace_.ops[run.op].name + "')";
  }

  // --- begin and end of a step

  bool place_persistent() {
    for (std::uint32_t t = 0; t < trace_.tensors.size(); ++t) {
      if (!trace_.tensors[t].persistent) continue;
      content_[t] = Content::held;
      const std::uint32_t tier = store_.bytes(t) == 0 ? 0 : first_tier_for(store_.bytes(t));
      if (tier == machine_.tiers.size()) {
        return fail("persistent " + tensor_name(t) + " of " + std::to_string(store_.bytes(t)) +
                    " bytes finds room in no tier from " + std::to_string(options_.initial_tier) + " on");
      }
      store_.place_at_start(t, tier);
      store_.touch(t, belady_key(t, 0));
    }
    return true;
  }

  std::uint32_t first_tier_for(std::uint64_t bytes) const {
    std::uint32_t tier = options_.initial_tier;
    for (; tier < machine_.tiers.size(); ++tier) {
      const bool reachable = tier == 0 || p_.route_of_tier[tier] != no_run;
      const std::uint64_t used = store_.used_bytes(tier);
      const std::uint64_t capacity = machine_.tiers[tier].capacity_bytes;
      if (reachable && used <= capacity && bytes <= capacity - used) break;
    }
    return tier;
  }

  bool step() {
    if (step_ + 1 == options_.steps) begin_report();
    std::fill(cursor_.begin(), cursor_.end(), 0);
    for (const Item& item : p_.items) {
      if (!(item.kind == Item::Kind::run ? perform(item.index) : obey(item.index))) return false;
    }
    for (std::uint32_t t = 0; t < trace_.tensors.size(); ++t) {
      if (trace_.tensors[t].persistent && content_[t] != Content::held) {
        return fail("persistent " + tensor_name(t) + " was dropped and is lost to the next step");
      }
    }
    return true;
  }

  void begin_report() {
    base_us_ = now();
    recording_ = options_.record_timeline;
    store_.begin_report(recording_);
  }

  // The order of Belady's rule: what is named again last is the smallest.
  std::int64_t belady_key(std::uint32_t t, std::uint32_t past_uses) const {
    const std::span<const std::uint32_t> uses = p_.uses_of(t);
    if (uses.empty()) return std::numeric_limits<std::int64_t>::min();
    const bool later = past_uses < uses.size();
    const std::int64_t runs = static_cast<std::int64_t>(p_.runs.size());
    return -(runs * (step_ + (later ? 0 : 1)) + uses[later ? past_uses : 0]);
  }

  // --- entries of the schedule

  bool obey(std::uint32_t index) {
    const ScheduleEntry& e = schedule_.entries[index];
    bool right = content_[e.tensor] == Content::held ||
                 fail("entries[" + std::to_string(index) + "]: " + tensor_name(e.tensor) +
                      " has no content at position " + std::to_string(e.position) + " that could be " +
                      (e.action == Action::evict      ? "evicted"
                       : e.action == Action::prefetch ? "fetched"
                                                      : "dropped"));
    if (right && e.action == Action::evict) evict(index);
    if (right && e.action == Action::prefetch) right = prefetch(index);
    if (right && e.action == Action::drop) drop(e);
    return right;
  }

  void evict(std::uint32_t index) {
    const ScheduleEntry& e = schedule_.entries[index];
    const TensorState& s = store_.at(e.tensor);
    std::uint32_t codec = p_.entry_codec[index];
    std::uint64_t stored = p_.entry_stored[index];
    const bool will_move = (s.place == Place::here || s.place == Place::coming) && !s.queued_out;
    if (codec != no_codec && will_move) compress(e, codec);
    if (codec == no_codec && s.codec != no_codec && (s.coded || s.place == Place::coming)) {
      codec = s.codec;  // still coded since it came: it leaves as it is
      stored = s.stored;
    }
    store_.evict(e.tensor, e.tier, codec, stored, false);
  }

  bool prefetch(std::uint32_t index) {
    const ScheduleEntry& e = schedule_.entries[index];
    const TensorState& s = store_.at(e.tensor);
    const bool far = s.place == Place::away || s.place == Place::leaving;
    if (far && s.tier != e.tier && options_.victims == Victims::none &&
        !trace_.tensors[e.tensor].persistent) {
      return fail("entries[" + std::to_string(index) + "]: " + tensor_name(e.tensor) + " lies in tier " +
                  std::to_string(s.tier) + ", not in tier " + std::to_string(e.tier));
    }
    store_.fetch(e.tensor, false);
    return true;
  }

  void drop(const ScheduleEntry& e) {
    store_.release(e.tensor);
    content_[e.tensor] = Content::dropped;
    OpTiming at;
    at.ready_us = at.present_us = at.start_us = at.end_us = now();
    log(ExtraWork::Kind::drop, e.position, 0, {e.tensor}, at);
  }

  // Holds the computation up: for the arrival if it is still coming, then for the codec.
  void compress(const ScheduleEntry& e, std::uint32_t codec) {
    OpTiming timing;
    timing.ready_us = now();
    store_.start_ready();
    while (store_.at(e.tensor).place == Place::coming) store_.advance(store_.next_us());
    timing.present_us = timing.start_us = now();
    timing.stalls.late_prefetch_us = now() - timing.ready_us;
    add(timing.stalls);
    const TensorState& s = store_.at(e.tensor);
    if (!s.coded || s.codec != codec) recode(e.tensor, codec);
    timing.end_us = now();
    log(ExtraWork::Kind::compress, e.position, 0, {e.tensor}, timing);
  }

  void recode(std::uint32_t t, std::uint32_t codec) {
    const double speed = machine_.codecs[codec].compress_bytes_per_second;
    double work_us = static_cast<double>(store_.bytes(t)) / speed * 1e6;
    if (store_.at(t).coded) work_us += decode_us(t);
    store_.decoded(t);
    pass(now() + work_us);
  }

  double decode_us(std::uint32_t t) const {
    const double speed = machine_.codecs[store_.at(t).codec].decompress_bytes_per_second;
    return static_cast<double>(store_.bytes(t)) / speed * 1e6;
  }

  // --- runs

  bool perform(std::uint32_t index) {
    const Run& run = p_.runs[index];
    OpTiming timing;
    timing.ready_us = now();
    missing_.clear();
    taken_.clear();
    claim_ = run.extra_bytes;
    for (const Named& n : p_.names_of(index)) {
      if (!prepare(run, n)) return false;
    }
    store_.reserve(claim_);
    if (!wait(index, &timing)) return false;
    for (const std::uint32_t t : taken_) store_.take(t);
    store_.take_bytes(run.extra_bytes);
    store_.reserve_none();
    store_.start_ready();
    compute(index, &timing);
    finish(index);
    note(run, timing);
    return true;
  }

  // Asks for what the run names, so that in the end it lies here; notes what has to be waited for.
  bool prepare(const Run& run, const Named& n) {
    const std::uint32_t t = n.tensor;
    const bool overwritten = n.writes && !n.reads;
    if (n.reads && content_[t] == Content::dropped) {
      return fail(run_name(run) + " reads " + tensor_name(t) + ", which was dropped and not computed again");
    }
    if (run.again && n.writes && content_[t] == Content::held) {
      return fail(run_name(run) + " at position " + std::to_string(run.position) + ": " + tensor_name(t) +
                  " still has its content; drop it first");
    }
    store_.pin(t, n.writes);
    const TensorState& s = store_.at(t);
    if (s.queued_out && (s.asked_on_demand || outdated_by(n))) store_.call_off(t);
    if (overwritten && s.place == Place::leaving) store_.stay(t);
    if (overwritten && s.place == Place::away) store_.release(t);
    if (s.place == Place::nowhere) {
      claim_ += store_.bytes(t);
      taken_.push_back(t);
    }
    if (s.place == Place::coming) missing_.push_back(t);
    if (s.place == Place::away || (s.place == Place::leaving && n.writes)) {
      store_.fetch(t, true);
      store_.need(t);
      missing_.push_back(t);
    }
    return true;
  }

  // The eviction that waits would send a coded form that the run changes, or decodes.
  bool outdated_by(const Named& n) const {
    const TensorState& s = store_.at(n.tensor);
    return s.asked_codec != no_codec && (n.writes || s.coded || s.place == Place::coming);
  }

  bool wait(std::uint32_t index, OpTiming* timing) {
    for (;;) {
      if (options_.victims != Victims::none && !make_room(index)) return false;
      store_.start_ready();
      std::erase_if(missing_, [&](std::uint32_t t) { return store_.at(t).place == Place::here; });
      if (missing_.empty() && store_.free_bytes() >= claim_) break;
      const double next = store_.next_us();
      if (next == std::numeric_limits<double>::infinity()) {
        // Evictions that the schedule sends where there is no room: the victims' rule finds them another
        // tier.
        if (options_.victims != Victims::none && store_.call_off_blocked()) continue;
        return stuck(index);
      }
      double& cause = cause_of_wait(&timing->stalls);
      const double from = options_.stall_rule == StallRule::strict
                              ? now()
                              : std::max(now(), timing->ready_us + p_.runs[index].time_us);
      cause += std::max(0.0, next - from);
      store_.advance(next);
    }
    timing->present_us = now();
    return true;
  }

  double& cause_of_wait(Stalls* stalls) const {
    bool on_demand = false;
    bool no_room = store_.free_bytes() < claim_;
    for (const std::uint32_t t : missing_) {
      const TensorState& s = store_.at(t);
      if (s.place == Place::coming) {
        on_demand |= s.on_demand;
      } else {
        on_demand |= s.asked_on_demand;
        no_room |= s.place == Place::away && store_.free_bytes() < store_.bytes(t);
      }
    }
    if (no_room) return stalls->room_us;
    return on_demand ? stalls->fetch_us : stalls->late_prefetch_us;
  }

  // Asks for evictions until what is reserved will have room.
  bool make_room(std::uint32_t index) {
    std::uint64_t stuck_bytes = 0;  // on its way out, but its memory stays in use as long as this run
    for (const Named& n : p_.names_of(index)) {
      const TensorState& s = store_.at(n.tensor);
      if (s.queued_out || (s.place == Place::leaving && !n.writes)) stuck_bytes += store_.bytes(n.tensor);
    }
    while (store_.short_of_room(stuck_bytes) && !store_.victims().empty()) {
      const std::uint32_t t = store_.victims().top();
      const TensorState& s = store_.at(t);
      const std::uint64_t stored = s.coded ? s.stored : store_.bytes(t);
      const std::uint32_t tier = store_.tier_with_room(stored);
      if (tier == 0) {
        return fail(run_name(p_.runs[index]) + " needs room, but no other tier has any for " +
                    std::to_string(stored) + " bytes of " + tensor_name(t));
      }
      store_.evict(t, tier, s.coded ? s.codec : no_codec, stored, true);
    }
    return true;
  }

  bool stuck(std::uint32_t index) {
    const Run& run = p_.runs[index];
    std::uint64_t bytes = run.extra_bytes;
    for (const Named& n : p_.names_of(index)) bytes += store_.bytes(n.tensor);
    std::string why = run_name(run) + " names " + std::to_string(bytes) + " bytes; of tier 0 ('" +
                      machine_.tiers[0].name + "', " + std::to_string(machine_.tiers[0].capacity_bytes) +
                      " bytes) " + std::to_string(store_.used_bytes(0)) + " are in use, it waits for " +
                      std::to_string(claim_) + " more";
    for (const std::uint32_t t : missing_) why += " and for " + tensor_name(t);
    return fail(why +
                ", and nothing under way frees any: evict more before it, or use a policy with victims");
  }

  // From "everything is here" to the end.
  void compute(std::uint32_t index, OpTiming* timing) {
    const Run& run = p_.runs[index];
    const double codec_us = decompress(index);
    if (options_.stall_rule == StallRule::strict) {
      timing->start_us = timing->present_us + codec_us;
      timing->end_us = timing->start_us + run.time_us;
    } else {
      timing->start_us = timing->ready_us;
      timing->end_us = std::max(timing->ready_us + run.time_us, timing->present_us) + codec_us;
    }
    pass(timing->end_us);
  }

  // What it takes, all before the run; the tensors count as decoded.
  double decompress(std::uint32_t index) {
    double sum_us = 0;
    for (const Named& n : p_.names_of(index)) {
      if (!store_.at(n.tensor).coded) continue;
      if (n.reads) {
        OpTiming timing;
        timing.ready_us = timing.present_us = timing.start_us = now() + sum_us;
        sum_us += decode_us(n.tensor);
        timing.end_us = now() + sum_us;
        log(ExtraWork::Kind::decompress, p_.runs[index].position, p_.runs[index].op, {n.tensor}, timing);
      }
      store_.decoded(n.tensor);
    }
    return sum_us;
  }

  // Lets time pass while the computation is busy.
  void pass(double until_us) {
    while (store_.next_us() <= until_us) store_.advance(store_.next_us());
    store_.advance(until_us);
  }

  void finish(std::uint32_t index) {
    store_.give_bytes(p_.runs[index].extra_bytes);
    for (const Named& n : p_.names_of(index)) {
      const std::uint32_t t = n.tensor;
      store_.unpin(t);
      content_[t] = Content::held;
      ++cursor_[t];
      if (!trace_.tensors[t].persistent && cursor_[t] == p_.uses_of(t).size()) {
        store_.release(t);
        content_[t] = Content::none;
      } else {
        store_.touch(t, belady_key(t, cursor_[t]));
      }
    }
  }

  // --- the report

  void add(const Stalls& stalls) {
    if (step_ + 1 != options_.steps) return;
    report_.stalls.late_prefetch_us += stalls.late_prefetch_us;
    report_.stalls.fetch_us += stalls.fetch_us;
    report_.stalls.room_us += stalls.room_us;
  }

  void note(const Run& run, OpTiming timing) {
    if (step_ + 1 != options_.steps) return;
    add(timing.stalls);
    if (run.again) {
      std::vector<std::uint32_t> kept;
      for (const Named& n : p_.names_of(static_cast<std::uint32_t>(&run - p_.runs.data()))) {
        if (n.writes) kept.push_back(n.tensor);
      }
      report_.recompute_us += run.time_us;
      log(ExtraWork::Kind::recompute, run.position, run.op, std::move(kept), timing);
      return;
    }
    report_.compute_us += run.time_us;
    if (recording_) report_.ops.push_back(rebased(timing));
  }

  void log(ExtraWork::Kind kind, std::uint32_t position, std::uint32_t op, std::vector<std::uint32_t> tensors,
           const OpTiming& timing) {
    if (step_ + 1 != options_.steps) return;
    if (kind == ExtraWork::Kind::compress || kind == ExtraWork::Kind::decompress) {
      report_.codec_us += timing.end_us - timing.start_us;
    }
    if (recording_) report_.extra.push_back({kind, position, op, std::move(tensors), rebased(timing)});
  }

  OpTiming rebased(OpTiming timing) const {
    for (double* t : {&timing.ready_us, &timing.present_us, &timing.start_us, &timing.end_us}) *t -= base_us_;
    return timing;
  }
};

std::string check_inputs(const wire::Trace& trace, const Machine& machine, const wire::Schedule& schedule,
                         const SimulationOptions& options) {
  if (std::string wrong = check_machine(machine); !wrong.empty()) return wrong;
  if (std::string wrong = check_trace(trace); !wrong.empty()) return wrong;
  if (std::string wrong = check_entries(trace, machine, schedule); !wrong.empty()) return wrong;
  if (options.steps == 0) return "there is no step to simulate; ask for at least one";
  if (options.initial_tier >= machine.tiers.size()) return "the initial tier does not exist";
  return {};
}

}  // namespace

Result<SimulationReport> simulate(const wire::Trace& trace, const Machine& machine,
                                  const wire::Schedule& schedule, const SimulationOptions& options) {
  if (std::string wrong = check_inputs(trace, machine, schedule, options); !wrong.empty()) {
    return refused<SimulationReport>(std::move(wrong));
  }
  const Result<Program> program = make_program(trace, machine, schedule);
  if (!program) return refused<SimulationReport>(program.error);
  return Runner(trace, machine, schedule, options, *program).run();
}

}  // namespace terrace::planner
