// The policy `terrace`: our portfolio for static memory reuse (portfolio.h). Where a small instance is left
// above the bound, every other policy is asked as well: they can still win the last bytes, those below one
// alignment.
#include <algorithm>
#include <string_view>

#include "daemon/planner/reuse/families.h"
#include "daemon/planner/reuse/portfolio/portfolio.h"

namespace terrace::planner {
namespace {

// The others are asked up to this size, where all of them together take a moment.
constexpr std::size_t most_buffers_for_others = 256;
// The exact search as a policy ends only when told to; it asks every 1,024 nodes, some milliseconds.
constexpr int asks_for_search = 16;

void ask_others(const Instance& instance, const SearchControl& given, Placement* best) {
  const std::uint64_t live_bytes = max_live_bytes(instance.buffers);
  SearchControl control{given.seed, 0, given.stop, {}, given.steps};
  SearchControl brief = control;
  int asked = 0;
  brief.stop = [&] { return ++asked > asks_for_search || (control.stop && control.stop()); };
  for (const ReusePolicy& other : reuse_policies()) {
    if (best->total_bytes <= std::max(live_bytes, given.capacity_bytes)) return;
    if (control.stop && control.stop()) return;
    const std::string_view family = other.family;
    if (family == "terrace") continue;
    Result<Placement> placed = other.solve(instance, family == "search" ? brief : control);
    if (!placed || placed->total_bytes >= best->total_bytes) continue;
    if (!check_placement(instance, *placed).empty()) continue;
    *best = std::move(*placed);
    if (given.progress) given.progress(best->total_bytes, live_bytes);
  }
}

Result<Placement> place_terrace(const Instance& instance, const SearchControl& control) {
  Placement best = portfolio::place(instance, control);
  if (instance.buffers.size() <= most_buffers_for_others) ask_others(instance, control, &best);
  return ok(std::move(best));
}

}  // namespace

std::vector<ReusePolicy> terrace_policies() {
  return {{"terrace", "terrace",
           "daemon/planner/reuse/portfolio: skyline with lookahead, orders, exact search", place_terrace}};
}

}  // namespace terrace::planner
