#include "liballoc/lifetimes/repeats/evidence.h"

#include <algorithm>

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t least_run = 64;
constexpr std::uint32_t usual_tokens = 8;
constexpr std::uint32_t run_times_tokens_squared = 8192;
constexpr std::uint32_t run_per_edit = 64;
constexpr std::int64_t balance_share = 64;  // of what a turn holds at most beyond what it began with

}  // namespace

std::uint32_t run_needed(const History& h, const Repeat& r, bool has_mark) {
  if (has_mark) return r.lag + r.edits * run_per_edit;
  const std::uint32_t tokens = distinct_tokens(h, r.lag, usual_tokens);
  const std::uint32_t by_tokens =
      tokens < usual_tokens ? run_times_tokens_squared / (tokens * tokens) : least_run;
  const std::uint32_t turns = r.edits > 0 ? 2 * r.lag : r.lag + (r.lag + 3) / 4;
  return std::max(turns, by_tokens + r.edits * run_per_edit);
}

LoopTurn turn_of(const History& h, std::uint32_t length) {
  LoopTurn turn;
  const std::uint32_t end = h.count();  // the event before the turn is held, too: a repeat is longer
  std::int64_t least = 0, most = 0, live = 0;
  for (std::uint32_t i = end - length; i != end; ++i) {
    const auto change = static_cast<std::int32_t>(h.live_kib(i) - h.live_kib(i - 1));
    if (change > 0) turn.allocated_kib += static_cast<std::uint64_t>(change);
    live += change;
    least = std::min(least, live);
    most = std::max(most, live);
    turn.has_mark = turn.has_mark || h.token(i) == mark_token;
  }
  turn.is_balanced = (live < 0 ? -live : live) * balance_share <= most - least;
  return turn;
}

}  // namespace terrace::liballoc
