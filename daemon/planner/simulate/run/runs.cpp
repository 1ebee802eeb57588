// Operations and recomputations: what they name is asked for, waited for, held while they run, and let go.
#include <algorithm>
#include <limits>

#include "daemon/planner/simulate/run/runner.h"

namespace terrace::planner {

bool Runner::perform(std::uint32_t index) {
  const Run& run = p_.runs[index];
  OpTiming timing;
  timing.ready_us = now();
  missing_.clear();
  taken_.clear();
  claim_ = run.extra_bytes;
  for (const Named& n : p_.names_of(index)) {
    if (!prepare(run, n)) return false;
  }
  store_.room().reserve(claim_);
  if (!wait(index, &timing)) return false;
  for (const std::uint32_t t : taken_) store_.take(t);
  for (const Named& n : p_.names_of(index)) {
    if (n.writes) store_.copies().forget(n.tensor);
  }
  take_extra(run);
  store_.room().reserve_none();
  store_.start_ready();
  compute(index, &timing);
  finish(index);
  note(run, timing);
  return true;
}

bool Runner::prepare(const Run& run, const Named& n) {
  const std::uint32_t t = n.tensor;
  const bool overwritten = n.writes && !n.reads;
  if (n.reads && content_[t] == Content::dropped) {
    return fail(run_name(run) + " reads " + tensor_name(t) + ", which was dropped and not recomputed");
  }
  // What is updated in place again was made again just before: its runs follow each other.
  if (run.again && overwritten && content_[t] == Content::held) {
    return fail(run_name(run) + " at position " + std::to_string(run.position) + ": " + tensor_name(t) +
                " still has its content; drop it first");
  }
  store_.pin(t, n.writes);
  if (n.reads && store_.only_bits(t))
    return !n.values || fail(run_name(run) + " needs the values of " + tensor_name(t) +
                             ", of which one bit each is left; encode it in another way");
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
    store_.fetch_on_demand(t);
    store_.need(t);
    missing_.push_back(t);
  }
  return true;
}

bool Runner::outdated_by(const Named& n) const {
  const TensorState& s = store_.at(n.tensor);
  return store_.works_in_the_way(s.asked_codec) && (n.writes || s.coded || s.place == Place::coming);
}

bool Runner::wait(std::uint32_t index, OpTiming* timing) {
  for (;;) {
    if (options_.victims != Victims::none && !make_room(index)) return false;
    store_.start_ready();
    std::erase_if(missing_, [&](std::uint32_t t) { return store_.at(t).place == Place::here; });
    if (missing_.empty() && store_.room().free_bytes() >= claim_) break;
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

// The workspace, and each output that nobody keeps, by itself: they need not lie in a row.
void Runner::take_extra(const Run& run) {
  std::uint64_t workspace_bytes = run.extra_bytes;
  for (const std::uint64_t bytes : run.unkept_bytes) {
    store_.room().take(0, bytes, Stay::of_a_run);
    workspace_bytes -= bytes;
  }
  store_.room().take(0, workspace_bytes, Stay::of_a_run);
}

double& Runner::cause_of_wait(Stalls* stalls) const {
  bool on_demand = false;
  bool no_room = store_.room().free_bytes() < claim_;
  for (const std::uint32_t t : missing_) {
    const TensorState& s = store_.at(t);
    if (s.place == Place::coming) {
      on_demand |= s.on_demand;
    } else {
      on_demand |= s.asked_on_demand;
      no_room |= s.place == Place::away && store_.room().free_bytes() < store_.bytes(t);
    }
  }
  if (no_room) return stalls->room_us;
  return on_demand ? stalls->fetch_us : stalls->late_prefetch_us;
}

bool Runner::make_room(std::uint32_t index) {
  std::uint64_t stuck_bytes = 0;  // on its way out, but its memory stays in use as long as this run
  for (const Named& n : p_.names_of(index)) {
    const TensorState& s = store_.at(n.tensor);
    if (s.queued_out || (s.place == Place::leaving && !n.writes)) stuck_bytes += store_.frees(n.tensor);
  }
  while (store_.room().short_of_reserved(store_.room().leaving_bytes() - stuck_bytes) &&
         !store_.victims().empty()) {
    const std::uint32_t t = store_.victims().top();
    const TensorState& s = store_.at(t);
    const std::uint64_t stored = s.coded ? s.stored : store_.bytes(t);
    const std::uint32_t tier = s.copied ? s.tier : store_.tier_with_room(stored);
    if (tier == 0) {
      return fail(run_name(p_.runs[index]) + " needs room, but no other tier has room for " +
                  std::to_string(stored) + " bytes of " + tensor_name(t));
    }
    store_.evict_on_demand(t, tier, s.coded ? s.codec : no_codec, stored);
  }
  return true;
}

bool Runner::stuck(std::uint32_t index) {
  const Run& run = p_.runs[index];
  std::uint64_t bytes = run.extra_bytes;
  for (const Named& n : p_.names_of(index)) bytes += store_.bytes(n.tensor);
  std::string why = run_name(run) + " names " + std::to_string(bytes) + " bytes; of tier 0 ('" +
                    machine_.tiers[0].name + "', " + std::to_string(machine_.tiers[0].capacity_bytes) +
                    " bytes) " + std::to_string(store_.room().used(0)) +
                    " are in use, and the operation waits for " + std::to_string(claim_) + " more";
  for (const std::uint32_t t : missing_) why += " and for " + tensor_name(t);
  return fail(
      why +
      ", and nothing on its way frees room: evict more before this operation, or use a policy with victims");
}

void Runner::compute(std::uint32_t index, OpTiming* timing) {
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

double Runner::decompress(std::uint32_t index) {
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

void Runner::pass(double until_us) {
  while (store_.next_us() <= until_us) store_.advance(store_.next_us());
  store_.advance(until_us);
}

void Runner::finish(std::uint32_t index) {
  store_.room().give(0, p_.runs[index].extra_bytes, Stay::of_a_run);
  store_.recording().run_ended();
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

}  // namespace terrace::planner
