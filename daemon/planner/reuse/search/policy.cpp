// The policy `exact`: the smallest placement that the exact search finds.
//
// Every partition begins with the best of a few skylines. Then the one that is highest is searched: at the
// goal (the caller's capacity, or the largest sum of bytes alive), and if that is not found, by bisection
// between what has been shown infeasible and what has been found, in rounds of a growing number of nodes. It
// ends at the goal, at a proof, at the caller's stop, or after `most_nodes`. MiniMalloc bisects from 0 and
// waits for each answer; from above there is always a placement to return.
#include <algorithm>
#include <numeric>
#include <utility>

#include "daemon/planner/reuse/families.h"
#include "daemon/planner/reuse/search/first_path.h"
#include "daemon/planner/reuse/search/partition_search.h"

namespace terrace::planner {
namespace search {
namespace {

constexpr std::uint64_t most_nodes = std::uint64_t{1} << 23;   // per partition: seconds to minutes
constexpr std::uint64_t first_nodes = std::uint64_t{1} << 14;  // per capacity tried, in the first round
constexpr const char* skyline_orders[] = {"WAT", "TAW", "TWA", "ZW", "AZ"};

// One partition and the best placement of it so far.
struct Part {
  Problem problem;
  std::vector<std::int64_t> offsets;
  std::int64_t height = 0;
};

std::int64_t height_of(const Problem& problem, const std::vector<std::int64_t>& offsets) {
  std::int64_t height = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i)
    height = std::max(height, offsets[i] + problem.items[i].bytes);
  return height;
}

Part first_placement(Problem problem, std::uint64_t seed) {
  Part part{std::move(problem), {}, std::numeric_limits<std::int64_t>::max()};
  const Activity none(part.problem.items.size());
  for (const char* keys : skyline_orders) {
    std::vector<std::int64_t> offsets = first_path(part.problem, order_by(part.problem, keys, none, seed));
    const std::int64_t height = height_of(part.problem, offsets);
    if (height >= part.height) continue;
    part.height = height;
    part.offsets = std::move(offsets);
  }
  return part;
}

class Minimiser {
 public:
  Minimiser(const Instance& instance, const SearchControl& control) : instance_(instance), control_(control) {
    for (Problem& problem : partitions(instance)) {
      bound_ = std::max(bound_, problem.bound);
      parts_.push_back(first_placement(std::move(problem), control.seed));
    }
    goal_ = std::max(bound_, static_cast<std::int64_t>(std::min(control.capacity_bytes, max_instance_bytes)));
  }

  Placement run() {
    report();
    while (height() > goal_ && !stopped_) {
      Part& highest = *std::max_element(parts_.begin(), parts_.end(),
                                        [](const Part& a, const Part& b) { return a.height < b.height; });
      const std::int64_t before = highest.height;
      minimise(highest);
      if (highest.height == before) break;  // and no other part can help
    }
    return placement();
  }

 private:
  // Bisection towards the goal; what has not been decided counts as infeasible until the next round.
  void minimise(Part& part) {
    if (part.problem.items.size() > most_buffers) return;
    std::int64_t proven = std::max(goal_, part.problem.bound) - 1;  // not feasible, or not wanted below
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

  Verdict attempt(Part& part, std::int64_t capacity, std::uint64_t nodes, std::uint64_t& left) {
    const SearchLimits limits{nodes, control_.stop, control_.seed};
    PartitionSearch search(part.problem, capacity, limits);
    const Verdict verdict = search.run();
    left -= std::max<std::uint64_t>(search.nodes(), 1);
    stopped_ = search.asked_to_stop();
    if (verdict != Verdict::found) return verdict;
    part.offsets = search.offsets();
    part.height = height_of(part.problem, part.offsets);
    report();
    return verdict;
  }

  std::int64_t height() const {
    std::int64_t height = 0;
    for (const Part& part : parts_) height = std::max(height, part.height);
    return height;
  }

  void report() {
    if (std::exchange(reported_, height()) == height() || !control_.progress) return;
    control_.progress(static_cast<std::uint64_t>(height()), static_cast<std::uint64_t>(bound_));
  }

  Placement placement() const {
    Placement placement{std::vector<std::uint64_t>(instance_.buffers.size()),
                        static_cast<std::uint64_t>(height())};
    for (const Part& part : parts_)
      for (std::size_t i = 0; i < part.offsets.size(); ++i)
        placement.offsets[part.problem.items[i].buffer] = static_cast<std::uint64_t>(part.offsets[i]);
    return placement;
  }

  const Instance& instance_;
  const SearchControl& control_;
  std::vector<Part> parts_;
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
