// The policy `exact`: the smallest placement that the exact search finds.
//
// Every part begins with the best of a few skylines. Then the one that is highest is searched: at the
// goal (the caller's capacity, or the largest sum of bytes alive), and if that is not found, by bisection
// between what has been shown infeasible and what has been found, in rounds of a growing number of nodes. It
// ends at the goal, at a proof, at the caller's stop, or after `most_nodes`. MiniMalloc bisects from 0 and
// waits for each answer; from above there is always a placement to return.
#include <algorithm>
#include <numeric>
#include <utility>

#include "daemon/planner/reuse/families.h"
#include "daemon/planner/reuse/search/first_path.h"
#include "daemon/planner/reuse/search/part_search.h"
#include "daemon/planner/reuse/skyline/cut.h"

namespace terrace::planner {
namespace search {
namespace {

constexpr std::uint64_t most_nodes = std::uint64_t{1} << 23;   // per part: seconds to minutes
constexpr std::uint64_t first_nodes = std::uint64_t{1} << 14;  // per capacity tried, in the first round
constexpr const char* skyline_orders[] = {"WAT", "TAW", "TWA", "ZW", "AZ"};

// One part and the best placement of it so far.
struct Placed {
  skyline::Part part;
  Problem problem;
  std::int64_t floor = 0;             // all offsets and capacities of the problem count from here
  std::vector<std::int64_t> offsets;  // by item
  std::int64_t height = 0;            // from 0 on

  void place(std::vector<std::int64_t> at) {
    offsets = std::move(at);
    height = height_of(offsets);
  }
  std::int64_t height_of(const std::vector<std::int64_t>& at) const {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < at.size(); ++i) most = std::max(most, at[i] + problem.items[i].bytes);
    return floor + most;
  }
};

Placed first_placement(skyline::Part part, std::uint64_t seed) {
  Problem problem = problem_of(part);
  const auto floor = static_cast<std::int64_t>(skyline::first_offset(part));
  Placed placed{std::move(part), std::move(problem), floor, {}, std::numeric_limits<std::int64_t>::max()};
  const Activity none(placed.problem.items.size());
  for (const char* keys : skyline_orders) {
    std::vector<std::int64_t> offsets =
        first_path(placed.problem, order_by(placed.problem, keys, none, seed));
    if (placed.height_of(offsets) < placed.height) placed.place(std::move(offsets));
  }
  return placed;
}

class Minimiser {
 public:
  Minimiser(const Instance& instance, const SearchControl& control)
      : control_(control), cut_(skyline::cut(instance)) {
    bound_ = static_cast<std::int64_t>(cut_.settled_bytes);
    for (skyline::Part& part : cut_.parts) {
      parts_.push_back(first_placement(std::move(part), control.seed));
      bound_ = std::max(bound_, parts_.back().floor + parts_.back().problem.bound);
    }
    goal_ = std::max(bound_, static_cast<std::int64_t>(std::min(control.capacity_bytes, max_instance_bytes)));
  }

  Placement run() {
    report();
    while (height() > goal_ && !stopped_) {
      Placed& highest = *std::max_element(
          parts_.begin(), parts_.end(), [](const Placed& a, const Placed& b) { return a.height < b.height; });
      const std::int64_t before = highest.height;
      minimise(highest);
      if (highest.height == before) break;  // and no other part can help
    }
    return placement();
  }

 private:
  // Bisection towards the goal; what has not been decided counts as infeasible until the next round.
  void minimise(Placed& part) {
    if (part.problem.items.size() > most_buffers) return;
    std::int64_t proven =
        std::max(goal_, part.floor + part.problem.bound) - 1;  // not feasible, or not wanted below
    std::uint64_t left = most_nodes;
    for (std::uint64_t nodes = first_nodes; left > 0 && part.height > proven + 1 && !stopped_; nodes *= 2) {
      std::int64_t low = proven;
      for (std::int64_t capacity = proven + 1; capacity < part.height && left > 0 && !stopped_;
           capacity = low + (part.height - low) / 2) {
        if (capacity <= low) break;
        const Verdict verdict = attempt(part, capacity, std::min(nodes, left), left);
        if (verdict != Verdict::found) low = capacity;
        if (verdict == Verdict::infeasible) proven = std::max(proven, capacity);
      }
    }
  }

  Verdict attempt(Placed& part, std::int64_t capacity, std::uint64_t nodes, std::uint64_t& left) {
    const SearchLimits limits{nodes, control_.stop, control_.seed};
    PartSearch search(part.problem, capacity - part.floor, limits);
    const Verdict verdict = search.run();
    left -= std::max<std::uint64_t>(search.nodes(), 1);
    stopped_ = search.asked_to_stop();
    if (verdict != Verdict::found) return verdict;
    part.place(search.offsets());
    report();
    return verdict;
  }

  std::int64_t height() const {
    auto height = static_cast<std::int64_t>(cut_.settled_bytes);
    for (const Placed& part : parts_) height = std::max(height, part.height);
    return height;
  }

  void report() {
    if (std::exchange(reported_, height()) == height() || !control_.progress) return;
    control_.progress(static_cast<std::uint64_t>(height()), static_cast<std::uint64_t>(bound_));
  }

  Placement placement() const {
    Placement placement{cut_.offsets, static_cast<std::uint64_t>(height())};
    for (const Placed& placed : parts_) {
      for (std::size_t i = 0; i < placed.offsets.size(); ++i) {
        const skyline::Block& b = placed.part.blocks[placed.problem.items[i].block];
        placement.offsets[b.buffer] = static_cast<std::uint64_t>(placed.floor + placed.offsets[i]);
      }
    }
    return placement;
  }

  const SearchControl& control_;
  skyline::Parts cut_;  // its parts are in parts_
  std::vector<Placed> parts_;
  std::int64_t bound_ = 0;
  std::int64_t goal_ = 0;
  std::int64_t reported_ = 0;
  bool stopped_ = false;
};

Result<Placement> place_exact(const Instance& instance, const SearchControl& control) {
  return ok(Minimiser(instance, control).run());
}

}  // namespace
}  // namespace search

std::vector<ReusePolicy> search_policies() {
  return {{"exact", "search", "Moffitt, MiniMalloc (ASPLOS'23 vol 4), with learning; google/minimalloc",
           search::place_exact}};
}

}  // namespace terrace::planner
