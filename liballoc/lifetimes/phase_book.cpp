#include "liballoc/lifetimes/phase_book.h"

#include <algorithm>

#include "liballoc/lifetimes/repeats/repeats.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t most_anchors = 2048;         // of a phase
constexpr std::uint64_t most_comparisons = 1 << 20;  // of one search

std::uint64_t anchor_key(const KnownPhase& phase, std::uint64_t gram) {
  return mixed(gram + phase.id * 0xD1B54A32D192ED03ULL);
}

}  // namespace

void PhaseBook::use(std::byte* memory) {
  for (std::uint32_t i = 0; i < most; ++i) phases_[i].use(memory + i * KnownPhase::bytes);
  anchors_ = reinterpret_cast<Anchor*>(memory + most * KnownPhase::bytes);
}

std::uint32_t PhaseBook::take(std::uint32_t claimed, std::uint32_t id) {
  std::uint32_t oldest = claimed == 0 ? 1 : 0;
  for (std::uint32_t i = 0; i < most; ++i) {
    if (i == claimed) continue;
    if (phases_[i].id == 0) {
      oldest = i;
      break;
    }
    if (phases_[i].last_seen < phases_[oldest].last_seen) oldest = i;
  }
  phases_[oldest].begin(id);
  trials_[oldest] = Trial{};
  return oldest;
}

std::uint32_t PhaseBook::known() const {
  return static_cast<std::uint32_t>(
      std::count_if(phases_, phases_ + most, [](const KnownPhase& p) { return p.id != 0; }));
}

// ---- anchors --------------------------------------------------------------------------------------------

void PhaseBook::learned(std::uint32_t slot) {
  const KnownPhase& phase = phases_[slot];
  const std::uint32_t events = phase.lead().events;
  const std::uint32_t one_in = (events + most_anchors - 1) / most_anchors;
  GramHash hash;
  std::uint32_t ahead = phase.lead().first, behind = ahead;
  for (std::uint32_t i = 0; i < events + GramHash::tokens - 1; ++i) {
    hash.push(phase.token(ahead), i < GramHash::tokens ? 0 : phase.token(behind));
    if (i >= GramHash::tokens) behind = phase.next(behind);
    const bool is_full = i + 1 >= GramHash::tokens;
    if (is_full && (hash.value() >> 20U) % one_in == 0) add_anchor(phase, hash.value(), ahead);
    ahead = phase.next(ahead);
  }
}

void PhaseBook::add_anchor(const KnownPhase& phase, std::uint64_t gram, std::uint32_t ordinal) {
  const std::uint64_t key = anchor_key(phase, gram);
  const auto tag = static_cast<std::uint32_t>(key >> 32U);
  Anchor& a = anchor_of(key);
  a = {tag, static_cast<std::uint16_t>(ordinal), static_cast<std::uint16_t>(a.tag == tag ? 1 : 0)};
}

std::uint32_t PhaseBook::find_anchor(const KnownPhase& phase, std::uint64_t gram) const {
  const std::uint64_t key = anchor_key(phase, gram);
  const Anchor& a = anchor_of(key);
  const bool is_it = a.tag == static_cast<std::uint32_t>(key >> 32U) && a.is_ambiguous == 0;
  return is_it && a.ordinal < phase.length ? a.ordinal : no_ordinal;
}

// ---- tries ----------------------------------------------------------------------------------------------

// Events in a row that make a phase claimed again: an eighth of it.
std::uint32_t PhaseBook::needed(const KnownPhase& phase) {
  return std::clamp(phase.lead().events / 8, 8U, 24U);
}

void PhaseBook::try_one(const KnownPhase& phase, std::uint32_t token, std::uint64_t gram,
                        Trial* trial) const {
  if (trial->run > 0 && phase.token(trial->expected) == token) {
    ++trial->run;
    trial->expected = phase.next(trial->expected);
  } else {
    trial->run = 0;
    for (const std::uint32_t start : {phase.entry, phase.lead().first}) {
      if (phase.token(start) != token) continue;
      *trial = {phase.next(start), 1, start};
      break;
    }
  }
  if (gram == 0 || trial->run >= GramHash::tokens) return;
  const std::uint32_t found = find_anchor(phase, gram);
  if (found != no_ordinal && phase.token(found) == token)
    *trial = {phase.next(found), GramHash::tokens, no_ordinal};
}

void PhaseBook::try_all(std::uint32_t thread, std::uint32_t token, std::uint64_t gram,
                        std::uint32_t claimed) {
  for (std::uint32_t i = 0; i < most; ++i) {
    const KnownPhase& phase = phases_[i];
    if (phase.id == 0 || i == claimed || phase.lead().thread != thread) continue;
    try_one(phase, token, gram, &trials_[i]);
  }
}

std::uint32_t PhaseBook::returned(std::uint32_t thread, std::uint32_t claimed) const {
  std::uint32_t best = none;
  bool is_doubtful = false;
  for (std::uint32_t i = 0; i < most; ++i) {
    const KnownPhase& phase = phases_[i];
    if (phase.id == 0 || i == claimed || phase.lead().thread != thread || trials_[i].run == 0) continue;
    if (best != none && trials_[i].run == trials_[best].run) is_doubtful = true;
    if (best != none && trials_[i].run <= trials_[best].run) continue;
    if (best != none) is_doubtful = false;
    best = i;
  }
  if (best == none) return none;
  const std::uint32_t enough = needed(phases_[best]);
  // Two phases that begin alike: until they differ, or for half of the first one found.
  const bool is_enough =
      trials_[best].run >= (is_doubtful ? enough + phases_[best].lead().events / 2 : enough);
  return is_enough ? best : none;
}

void PhaseBook::end_trials() { std::fill_n(trials_, most, Trial{}); }

// Behind eight tokens the run is longer than the try: the phase was entered behind the last event of a period
// that is another in the history.
void PhaseBook::note_entry(std::uint32_t slot, const History& h) {
  KnownPhase& phase = phases_[slot];
  const Trial& trial = trials_[slot];
  if (trial.start != no_ordinal) {
    phase.entry = trial.start;
    return;
  }
  const std::uint32_t events =
      2 * phase.lead().events;  // a try may have begun at the end of the first period
  if (h.held() < events) return;
  std::uint32_t ordinal = trial.expected;
  for (std::uint32_t i = h.count() - events; i != h.count(); ++i) {
    const bool is_same = phase.token(ordinal) == h.token(i);
    ordinal = phase.next(ordinal);
    if (!is_same) phase.entry = ordinal;
  }
}

// ---- searches -------------------------------------------------------------------------------------------

std::uint32_t PhaseBook::find_in(std::uint32_t slot, const History& h, std::uint32_t from,
                                 std::uint32_t length) const {
  const KnownPhase& phase = phases_[slot];
  std::uint64_t comparisons = 0;
  std::uint32_t start = phase.lead().first;
  for (std::uint32_t n = 0; n < phase.lead().events && comparisons < most_comparisons; ++n) {
    std::uint32_t at = start, differ = 0, i = 0;
    for (; i < length; ++i, ++comparisons, at = phase.next(at)) {
      if (phase.token(at) == h.token(from + i)) continue;
      if (i < GramHash::tokens || ++differ > length / 32) break;
    }
    if (i == length) return start;
    start = phase.next(start);
  }
  return no_ordinal;
}

bool PhaseBook::occurs_in(std::uint32_t slot, const History& h, std::uint32_t from,
                          std::uint32_t length) const {
  const KnownPhase& phase = phases_[slot];
  const std::uint32_t events = phase.lead().events;
  std::uint64_t comparisons = 0;
  for (std::uint32_t begin = from; events <= length && begin - from <= length - events; ++begin) {
    std::uint32_t at = phase.lead().first, i = 0;
    for (; i < events && phase.token(at) == h.token(begin + i); ++i, at = phase.next(at))
      ;
    comparisons += i + 1;
    if (i == events) return true;
    if (comparisons > most_comparisons) return false;
  }
  return false;
}

}  // namespace terrace::liballoc
