// The learner's events: phases that are entered and left, births, deaths, times, touches.
#include "liballoc/paging/learning/learner.h"

#include <algorithm>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

// Whole runs inside a block.
std::uint32_t own_runs(std::uint32_t first, std::uint32_t granules) {
  const std::uint32_t begin = (first + granules_per_run - 1) / granules_per_run;
  const std::uint32_t end = (first + granules) / granules_per_run;
  return end - std::min(begin, end);
}

}  // namespace

// ---- phases -----------------------------------------------------------------------------------------------

// Without addresses for it nothing is learned; a program whose addresses are limited keeps them.
bool PeriodLearner::have_memory() {
  constexpr std::uint64_t many_addresses = std::uint64_t{1} << 36U;
  if (has_memory_ || is_refused_memory_) return has_memory_;
  is_refused_memory_ = true;
  if (os::mapping_limit() < many_addresses || live_.initialise(most_blocks_) != 0) return false;
  const std::size_t bytes = PeriodTable::bytes * most_learned_phases;
  auto* const memory = static_cast<std::byte*>(os::map_anonymous(bytes, PROT_READ | PROT_WRITE));
  if (memory == nullptr) return false;
  os::advise(memory, bytes, MADV_NOHUGEPAGE);  // objects lie far from each other
  for (std::uint32_t i = 0; i < most_learned_phases; ++i)
    phases_[i].table.use(memory + i * PeriodTable::bytes);
  has_memory_ = true;
  return true;
}

// The one that is known by that number, or a place for it: that of the phase that was not seen for longest.
LearnedPhase* PeriodLearner::phase_of(const StepPlace& place) {
  std::uint32_t oldest = 0;
  for (std::uint32_t i = 0; i < most_learned_phases; ++i) {
    const PeriodTable& table = phases_[i].table;
    if (table.phase() == place.phase && table.length() == place.length) return &phases_[i];
    if (phases_[i].last_used < phases_[oldest].last_used) oldest = i;
  }
  forget(oldest);
  phases_[oldest].table.begin(place.phase, place.length);
  return &phases_[oldest];
}

void PeriodLearner::forget(std::uint32_t slot) {
  LearnedPhase& phase = phases_[slot];
  offers_.forget(phase);
  if (phase.table.phase() == 0) return;
  for (std::uint32_t object = PeriodTable::most_events; object < phase.table.persistent_end(); ++object)
    if (phase.table[object].block != 0) live_[phase.table[object].block].persistent[slot] = 0;
  const PeriodTable table = phase.table;
  phase = LearnedPhase{};
  phase.table = table;
  phase.table.clear();
}

void PeriodLearner::enter(const StepPlace& place) {
  leave();
  if (place.length == 0 || place.length > PeriodTable::most_events || !have_memory()) return;
  phase_ = phase_of(place);
  slot_ = static_cast<std::uint32_t>(phase_ - phases_);
  ++claim_;
  phase_->last_used = claim_;
  // No position comes twice, so that what was seen in another claim was seen in another period.
  const std::uint64_t length = place.length;
  phase_->position = (phase_->position / length + 2) * length + (place.claimed ? place.ordinal : 0);
  event_ns_ = period_ns_ = 0;
  fixed_at_ = phase_->position;
  queue_->want_times(true);
  probes_.begin_period(0);
}

void PeriodLearner::leave() {
  if (phase_ == nullptr) return;
  end_all_turns();
  parts_.placement.end_probes();
  phase_ = nullptr;
  queue_->want_times(false);
}

void PeriodLearner::want(bool wanted) {
  if (wanted == is_wanted_) return;
  is_wanted_ = wanted;
  if (wanted) return;
  leave();
  for (LearnedPhase& phase : phases_) phase.sent = {};
  offers_.drop();
}

void PeriodLearner::offer(PeriodSink& sink, std::uint64_t now_ns) {
  want(sink.wants_periods());
  if (is_wanted_) offers_.offer(sink, phase_, slot_, now_ns);
}

// ---- events -----------------------------------------------------------------------------------------------

void PeriodLearner::on_step_event(const BlockEvent& event, std::uint32_t granules, const StepPlace& place) {
  if (place.departed || place.phase == 0) leave();
  const bool is_other = phase_ == nullptr || phase_->table.phase() != place.phase;
  if (is_wanted_ && place.phase != 0 && (place.claim_began || is_other)) enter(place);
  if (!has_memory_ || !live_.has(event.block)) return;
  if (phase_ != nullptr && place.claimed && advance(place)) note_time(event, place.ordinal);
  if (phase_ != nullptr && place.period_began) begin_period(event);
  switch (event.change) {
    case BlockChange::allocated:
      return on_birth(event, place);
    case BlockChange::grown:
      return on_growth(event, granules, place);
    case BlockChange::freed:
      return on_death(event, place);
    case BlockChange::marked:
      if (phase_ != nullptr && place.claimed) phase_->table.note_mark(place.ordinal);
  }
}

// Events of several threads are not in the order in which they were learned: one that is late does not turn
// the clock back. True: this one was the next.
bool PeriodLearner::advance(const StepPlace& place) {
  const std::uint32_t length = phase_->table.length();
  const auto now = static_cast<std::uint32_t>(phase_->position % length);
  const std::uint32_t ahead = (place.ordinal + length - now) % length;
  if (place.period_began && ahead >= length / 2)
    phase_->position = (phase_->position / length + 1) * length + place.ordinal;
  else if (ahead < (length + 1) / 2)
    phase_->position += ahead;
  return ahead == 1 || length == 1;
}

// The interval before it has ended. What a thread waited for is no computing.
void PeriodLearner::note_time(const BlockEvent& event, std::uint32_t ordinal) {
  const std::uint64_t waited_ns = parts_.accounts.waited_ns();
  if (event_ns_ != 0 && event.time_ns > event_ns_) {
    const std::uint64_t ns = event.time_ns - event_ns_;
    const std::uint32_t length = phase_->table.length();
    phase_->table.note_computing((ordinal + length - 1) % length,
                                 ns - std::min(ns, waited_ns - event_waited_ns_));
  }
  event_ns_ = event.time_ns;
  event_waited_ns_ = waited_ns;
}

void PeriodLearner::begin_period(const BlockEvent& event) {
  const std::uint64_t waited_ns = parts_.accounts.waited_ns();
  if (period_ns_ != 0 && event.time_ns > period_ns_)
    phase_->table.note_period(event.time_ns - period_ns_, waited_ns - period_waited_ns_);
  period_ns_ = event.time_ns;
  period_waited_ns_ = waited_ns;
  offers_.note_period();
  find_persistent();
  if (phase_->fixed_now != 0) phase_->fixed_pages = phase_->fixed_now;
  phase_->fixed_now = 0;
  end_turns();
  choose_rounds();
  probes_.begin_period(time_to_probe());
  begin_turns();
}

// What has lived through a whole period and was born in none. A block that was born in the period before the
// last one, and lives, was born once only.
void PeriodLearner::find_persistent() {
  const std::uint32_t period = position().period;
  std::uint32_t before = 0;
  for (std::uint32_t n = 0; n < parts_.runs.top(); ++n) {
    const std::uint32_t id = parts_.runs[n].block;
    if (id == before || id == 0 || !live_.has(id)) continue;
    before = id;
    LiveBlock& b = live_[id];
    if (b.met_claim != claim_) {
      b.met_claim = claim_;
      b.met_period = period;
      continue;
    }
    const bool is_of_period = b.claim == claim_ && b.born != 0;
    if (b.persistent[slot_] != 0 || period - b.met_period < (is_of_period ? 2U : 1U)) continue;
    const KnownBlock& known = parts_.blocks[id];
    const std::uint32_t object = phase_->table.add_persistent(id, own_runs(known.first, known.granules));
    if (object == PeriodTable::none) return;
    b.born = 0;
    b.persistent[slot_] = static_cast<std::uint16_t>(object - PeriodTable::most_events + 1);
  }
}

std::uint32_t PeriodLearner::object_of(std::uint32_t block) {
  if (phase_ == nullptr || block == 0 || !live_.has(block)) return PeriodTable::none;
  const LiveBlock& b = live_[block];
  if (b.claim == claim_ && b.born != 0) return b.born - 1;
  const std::uint16_t number = b.persistent[slot_];
  return number != 0 ? PeriodTable::most_events + number - 1 : PeriodTable::none;
}

// Of what is born in the period: uses that are still ahead in its life.
std::uint32_t PeriodLearner::events_to_use(std::uint32_t block) {
  const std::uint32_t object = object_of(block);
  if (object == PeriodTable::none) return unknown;
  const PeriodTable& table = phase_->table;
  const LearnedObject& o = table[object];
  if (o.rounds == 0 && o.uses.size() == 0) return unknown;
  const std::uint32_t length = table.length(), born = table.frame_of(object).born;
  const std::uint32_t now = position().interval, age = (now + length - born) % length;
  std::uint32_t next = PeriodTable::is_persistent(object) ? length : ends_before;
  for (std::uint32_t i = 0; i < o.uses.size(); ++i) {
    const LearnedUse& use = o.uses[i];
    const std::uint32_t age_then = (use.interval + length - born) % length;
    const bool is_ahead = PeriodTable::is_persistent(object) || age_then >= age;
    if (use.counts() && is_ahead) next = std::min(next, (use.interval + length - now) % length);
  }
  return next;
}

void PeriodLearner::on_birth(const BlockEvent& event, const StepPlace& place) {
  LiveBlock& b = live_[event.block];
  b = LiveBlock{};
  if (phase_ == nullptr || !place.claimed) return;
  const std::uint32_t runs = own_runs(event.first, event.granules);
  phase_->table.note_birth(place.ordinal, event.granules, runs);
  b.born = place.ordinal + 1;
  b.claim = claim_;
  if (runs > 0) begin_chain(event.block, place.ordinal, phase_->position + 1);
}

void PeriodLearner::on_growth(const BlockEvent& event, std::uint32_t granules, const StepPlace& place) {
  if (phase_ == nullptr || !place.claimed) return;
  const std::uint32_t first = event.first + event.granules - granules;
  phase_->table.note_growth(place.ordinal, object_of(event.block), event.granules, own_runs(first, granules));
}

void PeriodLearner::on_death(const BlockEvent& event, const StepPlace& place) {
  LiveBlock& b = live_[event.block];
  if (const std::uint32_t object = object_of(event.block); object != PeriodTable::none) {
    if (is_watched(b)) note_idle(b, object);
    end_chain(event.block, object);
  }
  if (phase_ != nullptr && place.claimed) phase_->table.note_death(place.ordinal, place.born_at);
  for (std::uint32_t i = 0; i < most_learned_phases; ++i)
    if (b.persistent[i] != 0)
      phases_[i].table.drop_persistent(PeriodTable::most_events + b.persistent[i] - 1);
  b = LiveBlock{};
}

// ---- touches ----------------------------------------------------------------------------------------------

// Events that were noted and not read yet may have come before it left.
void PeriodLearner::on_left(std::uint32_t n) {
  const std::uint32_t id = parts_.runs[n].block;
  if (object_of(id) == PeriodTable::none || is_watched(live_[id])) return;
  LiveBlock& b = live_[id];
  b.away = n + 1;
  b.away_claim = claim_;
  b.left = phase_->position + queue_->waiting();
}

// Nobody has asked for it until now.
void PeriodLearner::note_idle(const LiveBlock& b, std::uint32_t object) {
  if (b.left < phase_->position)
    phase_->table.note_idle(object, PeriodPosition::of_number(b.left, phase_->table.length()), position());
}

void PeriodLearner::on_touched(std::uint32_t n) {
  const std::uint32_t id = parts_.runs[n].block;
  const std::uint32_t object = object_of(id);
  touch_ns_ = parts_.runs[n].probed ? os::now_ns() : 0;
  if (object == PeriodTable::none) return;
  LiveBlock& b = live_[id];
  phase_->table.note_touch(object, position());
  if (b.away == n + 1) {
    if (is_watched(b)) note_idle(b, object);
    b.away = 0;
  }
  b.stops_at = position().interval;
  go_on_with_chain(id, object);
}

// Nobody asked for it: when it is touched next will not show.
void PeriodLearner::on_returned(std::uint32_t n) {
  // How long a fault takes to the agent and back to its thread, beside what the agent does.
  constexpr std::uint64_t way_ns = 20'000;
  if (touch_ns_ != 0) {
    const std::uint64_t ns = os::now_ns() - touch_ns_ + way_ns;
    parts_.accounts.counts.probe_ns += ns;
    probes_.spend(ns);
    touch_ns_ = 0;
  }
  const std::uint32_t id = parts_.runs[n].block;
  if (!has_memory_ || id == 0 || !live_.has(id) || live_[id].away != n + 1) return;
  live_[id].away = 0;
  cut(id);
}

}  // namespace terrace::liballoc
