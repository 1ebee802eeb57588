// The learner's probes: which objects are followed through this period, and how far the time for it reaches.
//
// A chain is one object's: from its birth, or for what persists a whole turn of the period, its run is taken
// out after each touch as soon as another event has come. A chain that the time for probing did not reach to
// the end of goes on in the next period behind the last touch that it saw.
#include <algorithm>

#include "liballoc/base/os.h"
#include "liballoc/paging/learning/learner.h"

namespace terrace::liballoc {

// Rounds through all objects, of which one shows most uses and three nearly all. After that now and then
// another, as programs change.
void PeriodLearner::choose_rounds() {
  constexpr std::uint32_t first_rounds = 3, periods_between = 64, most_rounds = 250;
  const std::uint32_t now = phase_->table.periods();
  const bool is_early = phase_->rounds < first_rounds;
  if (!is_early && now - phase_->rounds_at < periods_between) return;
  if (phase_->rounds >= most_rounds || phase_->table.least_rounds() < phase_->rounds) return;
  ++phase_->rounds;
  phase_->rounds_at = now;
}

// A plan that comes soon is worth more than what finding it out takes, but for a few steps only.
std::uint64_t PeriodLearner::time_to_probe() const {
  constexpr std::uint32_t first_periods = 3;
  const bool is_first = phase_->table.periods() <= first_periods && !phase_->table.is_complete();
  return phase_->table.step_ns() * (is_first ? first_hundredths_ : hundredths_) / 100;
}

std::uint32_t PeriodLearner::events_to_probe() const {
  const std::uint64_t earliest = probes_.earliest();
  if (phase_ == nullptr || earliest == UINT64_MAX || !probes_.may_spend()) return 0;
  const std::uint64_t ahead = earliest - std::min(earliest, phase_->position);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(ahead, 1, phase_->table.length()));
}

bool PeriodLearner::is_to_probe(std::uint32_t object) const {
  const LearnedObject& o = phase_->table[object];
  return o.runs > 0 && o.rounds < phase_->rounds;
}

// ---- chains -----------------------------------------------------------------------------------------------

// Not before position `earliest`, nor before where the last chain of it stopped.
void PeriodLearner::begin_chain(std::uint32_t block, std::uint32_t object, std::uint64_t earliest) {
  if (!is_to_probe(object)) return;
  const LearnedObject& o = phase_->table[object];
  const std::uint32_t length = phase_->table.length();
  LiveBlock& b = live_[block];
  b.is_chained = true;
  b.is_cut = b.is_begun = false;
  b.touches = 0;
  b.chained = phase_->position;
  b.stops_at = static_cast<std::uint32_t>(phase_->position % length);
  std::uint64_t begin = earliest;
  if (o.is_cut) {
    b.stops_at = o.resume;
    begin += (o.resume + 1 + length - earliest % length) % length;
  }
  if (!probes_.add(block, begin)) cut(block);
}

void PeriodLearner::go_on_with_chain(std::uint32_t block, std::uint32_t object) {
  LiveBlock& b = live_[block];
  if (!b.is_chained || b.is_cut || b.touches == LearnedUses::most || !is_to_probe(object)) return;
  ++b.touches;
  probes_.remove(block);
  if (!probes_.add(block, phase_->position + 1)) cut(block);
}

// From now on its next touch shows. Of what persists the turn begins here.
void PeriodLearner::note_watched(std::uint32_t block, std::uint32_t object) {
  LiveBlock& b = live_[block];
  if (!b.is_begun && PeriodTable::is_persistent(object)) b.chained = phase_->position;
  b.is_begun = true;
}

// Its life or its turn is over. A life so short that its turn to be taken out never came has no pause that is
// worth a plan.
void PeriodLearner::end_chain(std::uint32_t block, std::uint32_t object) {
  constexpr std::uint32_t few = 8, share = 32;
  LiveBlock& b = live_[block];
  if (!b.is_chained) return;
  b.is_chained = false;
  probes_.remove(block);
  LearnedObject& o = phase_->table[object];
  const bool is_short = phase_->position - b.chained <= std::max(few, phase_->table.length() / share);
  if (!b.is_begun && !is_short) b.is_cut = true;
  o.is_cut = b.is_cut;
  o.resume = b.stops_at;
  if (!b.is_cut && o.rounds < UINT8_MAX) ++o.rounds;
}

void PeriodLearner::cut(std::uint32_t block) { live_[block].is_cut = live_[block].is_chained; }

// There is no time left, or no phase: what was still to be taken out is not.
void PeriodLearner::cut_all() {
  for (std::uint32_t block = 0; probes_.take_any(&block);) cut(block);
  probes_.clear();
}

// Of what persists: those that were followed through a whole turn.
void PeriodLearner::end_turns() {
  PeriodTable& table = phase_->table;
  for (std::uint32_t object = PeriodTable::most_events; object < table.persistent_end(); ++object) {
    const std::uint32_t block = table[object].block;
    if (block == 0 || !live_[block].is_chained) continue;
    const LiveBlock& b = live_[block];
    if (b.is_cut || (b.is_begun && phase_->position - b.chained >= table.length())) end_chain(block, object);
  }
  next_turn_ = PeriodTable::most_events;
}

// The program leaves the phase: what was followed until here goes on when it returns.
void PeriodLearner::end_all_turns() {
  cut_all();
  const PeriodTable& table = phase_->table;
  for (std::uint32_t object = PeriodTable::most_events; object < table.persistent_end(); ++object) {
    const std::uint32_t block = table[object].block;
    if (block == 0 || !live_[block].is_chained) continue;
    live_[block].is_cut = true;
    end_chain(block, object);
  }
}

// As many as find room.
void PeriodLearner::begin_turns() {
  const PeriodTable& table = phase_->table;
  for (; next_turn_ < table.persistent_end() && probes_.has_room() && probes_.may_spend(); ++next_turn_) {
    const std::uint32_t block = table[next_turn_].block;
    if (block != 0 && !live_[block].is_chained) begin_chain(block, next_turn_, phase_->position + 1);
  }
}

// ---- taking out -------------------------------------------------------------------------------------------

// Its first run, and every other time its last.
std::uint32_t PeriodLearner::run_to_probe(std::uint32_t block, std::uint32_t object) const {
  const KnownBlock& b = parts_.blocks[block];
  const std::uint32_t first = (b.first + granules_per_run - 1) / granules_per_run;
  const std::uint32_t last = b.end() / granules_per_run - 1;
  return phase_->table[object].rounds % 2 == 0 ? first : last;
}

void PeriodLearner::probe(std::uint32_t block) {
  const std::uint32_t object = object_of(block);
  if (object == PeriodTable::none) return;
  if (is_watched(live_[block])) return note_watched(block, object);
  const std::uint32_t n = run_to_probe(block, object);
  if (n >= parts_.runs.top() || parts_.runs[n].block != block) return cut(block);
  const Pages& pages = parts_.runs.pages(n);
  if (pages.in_place.is_empty() && !pages.are_nowhere()) {  // since before the phase began
    on_left(n);
    return note_watched(block, object);
  }
  const std::uint64_t began_ns = os::now_ns();
  const bool is_out = parts_.placement.probe(n);
  const std::uint64_t ns = os::now_ns() - began_ns;
  probes_.spend(ns);
  parts_.accounts.counts.probe_ns += ns;
  if (!is_out) return cut(block);
  ++parts_.accounts.counts.probes;
  note_watched(block, object);
}

bool PeriodLearner::probe_some() {
  constexpr std::uint32_t most_at_once = 8, few_out = 16, share_out = 4, most_share_out = 4;
  if (phase_ == nullptr || parts_.standing.mode != PagerMode::paging || !parts_.standing.evicts())
    return false;
  count_fixed();
  begin_turns();
  if (!probes_.may_spend()) cut_all();
  const std::uint32_t budget = parts_.budget.runs();
  const std::uint32_t most_out = std::max(budget / share_out, std::min(few_out, budget / most_share_out));
  std::uint32_t block = 0;
  for (std::uint32_t i = 0; i < most_at_once; ++i) {
    if (parts_.budget.is_over() || parts_.runs.lists().probed.size() >= most_out) return false;
    if (!probes_.take_due(phase_->position, &block)) return false;
    probe(block);
  }
  return true;
}

// ---- memory beside the objects ----------------------------------------------------------------------------

// Some times in a period, while its objects are being found and now and then later.
void PeriodLearner::count_fixed() {
  constexpr std::uint32_t times = 8, early_periods = 8, periods_between = 16;
  const std::uint32_t length = phase_->table.length();
  if (phase_->position < fixed_at_ || phase_->table.periods() == 0) return;
  fixed_at_ = phase_->position + std::max(length / times, 1U);
  if (phase_->table.periods() > early_periods && phase_->table.periods() % periods_between != 0) return;
  const std::uint64_t began_ns = os::now_ns();
  std::uint64_t pages = 0;
  std::uint32_t before = 0;
  bool is_planned = false;
  for (std::uint32_t n = 0; n < parts_.runs.top(); ++n) {
    const Run& r = parts_.runs[n];
    if (r.live == 0) continue;
    if (r.block != before) {
      before = r.block;
      const std::uint32_t object = object_of(r.block);
      is_planned = object != PeriodTable::none && phase_->table.is_planned(object);
    }
    const Pages& p = parts_.runs.pages(n);
    if (r.block == 0 || !is_planned) pages += p.in_place.count() + p.in_frame.count();
  }
  phase_->fixed_now = std::max(phase_->fixed_now, pages);
  const std::uint64_t ns = os::now_ns() - began_ns;
  parts_.accounts.counts.probe_ns += ns;
  probes_.spend(ns);
}

}  // namespace terrace::liballoc
