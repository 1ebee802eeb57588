#include "liballoc/lifetimes/repeats/repeats.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t most_misses = 8;           // in a row: the run has ended
constexpr std::uint32_t resync = 16;               // events that must agree behind an edit
constexpr std::uint32_t widest_edit = 4;           // events
constexpr std::uint32_t least_lag_for_edits = 64;  // a shorter turn is seen often enough without any

bool has_too_many(std::uint32_t edits, std::uint32_t run) { return edits > 8 + run / 64; }

// Whether the `resync` events before `i` equal those `lag` before them.
bool agrees_before(const History& h, std::uint32_t i, std::uint32_t lag, std::uint32_t oldest) {
  if (i - oldest < lag + resync) return false;
  for (std::uint32_t j = 1; j <= resync; ++j) {
    if (!h.equal(i - j, i - j - lag)) return false;
  }
  return true;
}

struct Spot {
  std::uint32_t i = 0;    // everything from here on has been compared
  std::uint32_t lag = 0;  // with what lies so far before it
};

// Steps over the edit that ends just before spot.i: one event is another, the later copy has some more, or
// the earlier.
bool step_over(const History& h, std::uint32_t oldest, Spot* spot) {
  if (agrees_before(h, spot->i - 1, spot->lag, oldest)) {
    --spot->i;
    return true;
  }
  for (std::uint32_t more = 1; more <= widest_edit && more < spot->lag; ++more) {
    if (agrees_before(h, spot->i - more, spot->lag - more, oldest)) {
      *spot = {spot->i - more, spot->lag - more};
      return true;
    }
    if (agrees_before(h, spot->i, spot->lag + more, oldest)) {
      spot->lag += more;
      return true;
    }
  }
  return false;
}

}  // namespace

Repeat repeat_behind(const History& h, std::uint32_t lag) {
  const std::uint32_t oldest = h.count() - h.held();
  const std::uint32_t most_run = 3 * lag + 8192;
  Repeat found{lag};
  Spot spot{h.count(), lag};
  while (spot.i - oldest > spot.lag && h.count() - spot.i < most_run) {
    if (h.equal(spot.i - 1, spot.i - 1 - spot.lag)) {
      --spot.i;
      continue;
    }
    if (lag < least_lag_for_edits || h.count() - spot.i < resync ||
        has_too_many(found.edits + 1, h.count() - spot.i))
      break;
    if (!step_over(h, oldest, &spot)) break;
    ++found.edits;
  }
  found.run = h.count() - spot.i;
  return found;
}

void RepeatFinder::roll(const History& h) {
  const std::uint32_t last = h.count() - 1;
  const auto leaving = [&](std::uint32_t tokens) { return h.held() > tokens ? h.token(last - tokens) : 0; };
  rolling_.push(h.token(last), leaving(rolling_.tokens));
  rolling_long_.push(h.token(last), leaving(rolling_long_.tokens));
  last_gram_ = h.held() >= rolling_.tokens ? rolling_.value() : 0;
}

void RepeatFinder::look_up(const History& h, RecentGrams& recent, std::uint64_t gram) {
  const std::uint32_t before = recent.exchange(gram, h.count());
  if (before != 0) suggest(h, h.count() - before);
}

void RepeatFinder::compare(const History& h) {
  const std::uint32_t last = h.count() - 1;
  for (Repeat& r : repeats_) {
    if (r.lag == 0) continue;
    if (r.lag >= h.held()) {
      r = Repeat{};
      continue;
    }
    ++r.run;
    if (h.equal(last, last - r.lag)) {
      r.misses = 0;
      if (r.run == resync && r.edits == 0) r = repeat_behind(h, r.lag);  // there may be more behind an edit
      continue;
    }
    ++r.edits;
    if (r.lag < least_lag_for_edits) r.run = r.edits = r.retry = 0;
    if (++r.misses >= most_misses || has_too_many(r.edits, r.run)) r = Repeat{};
  }
}

void RepeatFinder::suggest(const History& h, std::uint32_t lag) {
  if (lag == 0 || lag > longest_lag || lag >= h.held()) return;
  Repeat* least = repeats_;
  for (Repeat& r : repeats_) {
    if (r.lag == lag) return;
    if (r.run < least->run) least = &r;
  }
  const Repeat found = repeat_behind(h, lag);
  if (found.run >= least->run) *least = found;
}

void RepeatFinder::on_event(const History& h, RecentGrams& recent, std::uint64_t salt) {
  roll(h);
  compare(h);
  const std::uint32_t count = h.count();
  if (h.token(count - 1) == mark_token) {
    if (last_mark_ != 0) suggest(h, count - last_mark_);
    last_mark_ = count;
  }
  if (last_gram_ != 0) look_up(h, recent, mixed(last_gram_ ^ salt));
  const std::uint64_t long_gram = rolling_long_.value();
  const bool is_looked_up = h.held() >= rolling_long_.tokens && ((long_gram >> 40U) & 3U) == 0;
  if (is_looked_up) look_up(h, recent, mixed(long_gram + salt));
}

}  // namespace terrace::liballoc
