// What the schedule asks of the computation at a position.
#include <limits>

#include "daemon/planner/simulate/run/runner.h"

namespace terrace::planner {

using wire::Action;
using wire::ScheduleEntry;

bool Runner::obey(std::uint32_t index) {
  const ScheduleEntry& e = schedule_.entries[index];
  if (e.action == Action::redo) return redo(index);
  if (e.action == Action::wait) {
    await(e);
    return true;
  }
  bool right = content_[e.object] == Content::held ||
               fail("entries[" + std::to_string(index) + "]: " + tensor_name(e.object) +
                    " has no content at position " + std::to_string(e.at) + " that could be " +
                    (e.action == Action::out     ? "evicted"
                     : e.action == Action::in    ? "fetched"
                     : e.action == Action::stage ? "staged"
                                                 : "dropped"));
  if (right && e.action == Action::out) evict(index);
  if (right && e.action == Action::in) right = prefetch(index);
  if (right && e.action == Action::stage) right = stage(index);
  if (right && e.action == Action::drop) drop(e);
  return right;
}

// An entry that shares the run of the one before it has none of its own.
bool Runner::redo(std::uint32_t index) {
  for (std::uint32_t i = 0; i < p_.entry_runs[index]; ++i)
    if (!perform(p_.entry_run[index] + i)) return false;
  return true;
}

void Runner::evict(std::uint32_t index) {
  const ScheduleEntry& e = schedule_.entries[index];
  const TensorState& s = store_.at(e.object);
  std::uint32_t codec = p_.entry_codec[index];
  std::uint64_t stored = p_.entry_stored[index];
  const bool will_move = (s.place == Place::here || s.place == Place::coming) && !s.queued_out;
  if (store_.works_in_the_way(codec) && will_move && !store_.copies().clean_in(e.object, e.tier))
    compress(e, codec);
  const bool still_coded = store_.works_in_the_way(s.codec) && (s.coded || s.place == Place::coming);
  if (!store_.works_in_the_way(codec) && still_coded) {  // since it came: it leaves as it is
    codec = s.codec;
    stored = s.stored;
  }
  store_.evict(index, e.object, e.tier, codec, stored);
}

bool Runner::prefetch(std::uint32_t index) {
  const ScheduleEntry& e = schedule_.entries[index];
  const TensorState& s = store_.at(e.object);
  const bool far = s.place == Place::away || s.place == Place::leaving;
  if (store_.only_bits(e.object))
    return fail("entries[" + std::to_string(index) + "]: " + tensor_name(e.object) +
                " cannot come back: one bit of each value is left");
  const bool staged = s.aside || s.queued_aside;  // a stage that waits is called off: it comes from before it
  if (far && !staged && s.tier != e.tier && options_.victims == Victims::none &&
      !trace_.tensors[e.object].persistent) {
    return fail("entries[" + std::to_string(index) + "]: " + tensor_name(e.object) + " lies in tier " +
                std::to_string(s.tier) + ", not in tier " + std::to_string(e.tier));
  }
  store_.fetch(index, e.object);
  return true;
}

bool Runner::stage(std::uint32_t index) {
  const ScheduleEntry& e = schedule_.entries[index];
  if (store_.stage(e.object, e.tier)) return true;
  if (options_.victims != Victims::none || trace_.tensors[e.object].persistent) return true;
  return fail("entries[" + std::to_string(index) + "]: " + tensor_name(e.object) + " lies in tier " +
              std::to_string(store_.stage_source(e.object)) + ", from which no far route leads to tier " +
              std::to_string(e.tier));
}

void Runner::drop(const ScheduleEntry& e) {
  store_.release(e.object);
  content_[e.object] = Content::dropped;
  OpTiming at;
  at.ready_us = at.present_us = at.start_us = at.end_us = now();
  log(ExtraWork::Kind::drop, e.at, 0, {e.object}, at);
}

void Runner::await(const ScheduleEntry& e) {
  OpTiming timing;
  timing.ready_us = now();
  store_.start_ready();
  const TensorState& s = store_.at(e.object);
  for (;;) {
    const bool leaves = s.queued_out || s.place == Place::leaving;
    const bool comes = s.queued_in || s.place == Place::coming || s.queued_aside || s.aside;
    const double next = store_.next_us();
    if ((!leaves && !comes) || next == std::numeric_limits<double>::infinity()) break;
    (leaves ? timing.stalls.room_us : timing.stalls.late_prefetch_us) += next - now();
    store_.advance(next);
  }
  timing.present_us = timing.start_us = timing.end_us = now();
  add(timing.stalls);
  log(ExtraWork::Kind::wait, e.at, 0, {e.object}, timing);
}

void Runner::compress(const ScheduleEntry& e, std::uint32_t codec) {
  OpTiming timing;
  timing.ready_us = now();
  store_.start_ready();
  while (store_.at(e.object).place == Place::coming) store_.advance(store_.next_us());
  timing.present_us = timing.start_us = now();
  timing.stalls.late_prefetch_us = now() - timing.ready_us;
  add(timing.stalls);
  const TensorState& s = store_.at(e.object);
  const bool works = !s.coded || s.codec != codec;  // else it came in the form in which it leaves
  if (works) recode(e.object, codec);
  timing.end_us = now();
  log(works ? ExtraWork::Kind::compress : ExtraWork::Kind::wait, e.at, 0, {e.object}, timing);
}

void Runner::recode(std::uint32_t t, std::uint32_t codec) {
  const double speed = machine_.codecs[codec].compress_bytes_per_second;
  double work_us = static_cast<double>(store_.bytes(t)) / speed * 1e6;
  if (store_.at(t).coded) work_us += decode_us(t);
  store_.decoded(t);
  pass(now() + work_us);
  store_.copies().forget(t);
}

double Runner::decode_us(std::uint32_t t) const {
  const double speed = machine_.codecs[store_.at(t).codec].decompress_bytes_per_second;
  return static_cast<double>(store_.bytes(t)) / speed * 1e6;
}

}  // namespace terrace::planner
