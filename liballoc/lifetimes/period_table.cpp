#include "liballoc/lifetimes/period_table.h"

#include <algorithm>

#include "liballoc/base/os.h"
#include "liballoc/lifetimes/repeats/tokens.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint8_t enough_deaths = 2;
constexpr std::uint8_t most_deaths = 8;

}  // namespace

const std::size_t PeriodTable::bytes =
    std::size_t{most_events} * (sizeof(Event) + sizeof(RecentTimes)) + most_objects * sizeof(LearnedObject);

void PeriodTable::use(std::byte* memory) {
  events_ = reinterpret_cast<Event*>(memory);
  times_ = reinterpret_cast<RecentTimes*>(memory + most_events * sizeof(Event));
  objects_ = reinterpret_cast<LearnedObject*>(memory + most_events * (sizeof(Event) + sizeof(RecentTimes)));
}

// Zeroes by the kernel, which takes the memory meanwhile.
void PeriodTable::clear() {
  os::advise(events_, bytes, MADV_DONTNEED);
  begin(0, 0);
}

void PeriodTable::begin(std::uint32_t phase, std::uint32_t length) {
  phase_ = phase;
  length_ = std::min(length, most_events);
  persistent_ = 0;
  free_ = none;
  periods_ = 0;
  changes_ = 0;
  step_ = waited_ = RecentTimes{};
}

// ---- what happens -----------------------------------------------------------------------------------------

void PeriodTable::note_birth(std::uint32_t ordinal, std::uint32_t granules, std::uint32_t runs) {
  events_[ordinal] = {granules, Kind::allocated};
  objects_[ordinal].runs = runs;
}

void PeriodTable::note_growth(std::uint32_t ordinal, std::uint32_t object, std::uint32_t granules,
                              std::uint32_t runs) {
  events_[ordinal] = {granules, Kind::grown};
  if (object != none) objects_[object].runs = runs;
}

void PeriodTable::note_death(std::uint32_t ordinal, std::uint32_t born_at) {
  events_[ordinal] = {0, Kind::freed};
  if (born_at == no_ordinal) return;
  LearnedObject& o = objects_[born_at];
  if (o.deaths == 0 || o.death != ordinal) {
    if (o.deaths >= enough_deaths) ++changes_;
    o.death = ordinal;
    o.deaths = 1;
  } else if (o.deaths < most_deaths) {
    ++o.deaths;
  }
}

void PeriodTable::note_mark(std::uint32_t ordinal) { events_[ordinal] = {0, Kind::marked}; }

std::uint32_t PeriodTable::add_persistent(std::uint32_t block, std::uint32_t runs) {
  std::uint32_t object = free_;
  if (object != none)
    free_ = objects_[object].death;
  else if (persistent_ < most_persistent)
    object = most_events + persistent_++;
  else
    return none;
  objects_[object] = LearnedObject{};
  objects_[object].block = block;
  objects_[object].runs = runs;
  ++changes_;
  return object;
}

void PeriodTable::drop_persistent(std::uint32_t object) {
  objects_[object] = LearnedObject{};
  objects_[object].death = free_;
  free_ = object;
  ++changes_;
}

void PeriodTable::note_touch(std::uint32_t object, PeriodPosition at) {
  changes_ += objects_[object].uses.note_touch(frame_of(object), at) ? 1 : 0;
}

void PeriodTable::note_idle(std::uint32_t object, PeriodPosition from, PeriodPosition to) {
  changes_ += objects_[object].uses.note_idle(frame_of(object), from, to) ? 1 : 0;
}

void PeriodTable::note_computing(std::uint32_t interval, std::uint64_t ns) { times_[interval].note(ns); }

void PeriodTable::note_period(std::uint64_t ns, std::uint64_t waited_ns) {
  step_.note(ns);
  waited_.note(waited_ns);
  ++periods_;
}

// ---- what is known ----------------------------------------------------------------------------------------

bool PeriodTable::is_planned(std::uint32_t object) const {
  const LearnedObject& o = objects_[object];
  return o.runs > 0 && (is_persistent(object) ? o.block != 0 : o.deaths >= enough_deaths);
}

bool PeriodTable::is_alive_in(std::uint32_t object, std::uint32_t interval) const {
  if (is_persistent(object)) return true;
  const auto since_birth = [&](std::uint32_t at) { return (at + length_ - object) % length_; };
  const std::uint32_t life = since_birth(objects_[object].death);
  return since_birth(interval) < (life == 0 ? length_ : life);
}

template <typename Visit>
bool PeriodTable::each_planned(Visit visit) const {
  for (std::uint32_t object = 0; object < length_; ++object)
    if (is_planned(object) && !visit(objects_[object])) return false;
  for (std::uint32_t object = most_events; object < persistent_end(); ++object)
    if (is_planned(object) && !visit(objects_[object])) return false;
  return true;
}

bool PeriodTable::is_complete() const {
  constexpr std::uint32_t enough_periods = 2, patient_periods = 3, most_periods = 4;
  if (periods_ < enough_periods) return false;
  std::uint32_t unseen = 0;
  for (std::uint32_t k = 0; k < length_; ++k) unseen += events_[k].kind == Kind::unseen ? 1 : 0;
  if (unseen > length_ / 32) return false;
  std::uint64_t runs = 0, known_runs = 0;
  each_planned([&](const LearnedObject& o) {
    runs += o.runs;
    const bool is_known = o.rounds > 0 || (periods_ >= patient_periods && o.uses.size() > 0);
    known_runs += is_known || periods_ >= most_periods ? o.runs : 0;
    return true;
  });
  return runs > 0 && runs - known_runs <= runs / 32;  // what is not known stays where it is
}

std::uint32_t PeriodTable::least_rounds() const {
  std::uint32_t least = UINT8_MAX;
  each_planned([&](const LearnedObject& o) {
    least = std::min<std::uint32_t>(least, o.rounds);
    return least > 0;
  });
  return least;
}

std::uint64_t PeriodTable::hash() const {
  std::uint64_t hash = length_;
  for (std::uint32_t k = 0; k < length_; ++k)
    hash = mixed(hash ^
                 ((std::uint64_t{events_[k].granules} << 8U) | static_cast<std::uint64_t>(events_[k].kind)));
  return hash;
}

void PeriodTable::fill_computing(std::uint64_t* out) const {
  std::uint64_t sum = 0;
  std::uint32_t unmeasured = 0;
  for (std::uint32_t k = 0; k < length_; ++k) {
    out[k] = times_[k].median_ns();
    sum += out[k];
    unmeasured += times_[k].is_empty() ? 1 : 0;
  }
  const std::uint64_t computing = step_ns() - std::min(step_ns(), waited_ns());
  if (unmeasured == 0 || sum >= computing) return;
  for (std::uint32_t k = 0; k < length_; ++k)
    if (times_[k].is_empty()) out[k] = (computing - sum) / unmeasured;
}

}  // namespace terrace::liballoc
