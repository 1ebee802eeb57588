#include "daemon/planner/memories/branching.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

namespace terrace::planner::memories {
namespace {

constexpr double whole_enough = 1e-6;

struct Node {
  std::vector<std::pair<std::uint32_t, bool>> fixed;
  double bound = 0;  // of the node that it is a branch of
  bool operator<(const Node& other) const { return bound > other.bound; }  // the lowest bound comes first
};

class Branching {
 public:
  Branching(LinearProgramme* programme, const std::vector<std::uint32_t>& whole,
            const std::function<double(const std::vector<double>&)>& round, const BranchOptions& options)
      : programme_(*programme), whole_(whole), round_(round), options_(options) {}

  Branched run() {
    open_.push({{}, -without_limit});
    while (!open_.empty() && nodes_ < options_.most_nodes && !is_good_enough(open_.top().bound)) {
      Node node = open_.top();
      open_.pop();
      ++nodes_;
      look_at(std::move(node));
    }
    const double open_bound = open_.empty() ? best_ : open_.top().bound;
    return {std::min({best_, closed_bound_, open_bound}), nodes_};
  }

 private:
  LinearProgramme& programme_;
  const std::vector<std::uint32_t>& whole_;
  const std::function<double(const std::vector<double>&)>& round_;
  const BranchOptions& options_;
  std::priority_queue<Node> open_;
  double best_ = without_limit;
  double closed_bound_ = without_limit;  // of nodes that were not looked into further
  std::uint32_t nodes_ = 0;

  bool is_good_enough(double bound) const {
    return std::isfinite(best_) && bound >= best_ - options_.gap * std::abs(best_);
  }

  void look_at(Node node) {
    for (const auto& [column, one] : node.fixed) programme_.limit(column, one ? 1 : 0, one ? 1 : 0);
    const bool possible = programme_.may_have_solution();
    std::vector<double> multipliers, values;
    const bool solved = possible && programme_.solve(options_.most_iterations, &multipliers, &values);
    if (possible) node.bound = std::max(node.bound, programme_.lagrangian(multipliers));
    for (const auto& [column, one] : node.fixed) programme_.limit(column, 0, 1);
    if (!possible) return;
    // Stopped early or without a solution: the values say nothing, the bound still holds.
    best_ = std::min(best_, round_(values));
    const std::uint32_t column = solved ? least_whole(values) : no_column;
    if (column == no_column || is_good_enough(node.bound)) {
      closed_bound_ = std::min(closed_bound_, node.bound);
      return;
    }
    for (const bool one : {false, true}) {
      Node next = node;
      next.fixed.emplace_back(column, one);
      open_.push(std::move(next));
    }
  }

  static constexpr std::uint32_t no_column = ~std::uint32_t{0};

  std::uint32_t least_whole(const std::vector<double>& values) const {
    std::uint32_t found = no_column;
    double most = whole_enough;
    for (const std::uint32_t c : whole_) {
      const double part = std::abs(values[c] - std::round(values[c]));
      if (part <= most) continue;
      most = part;
      found = c;
    }
    return found;
  }
};

}  // namespace

Branched branch(LinearProgramme programme, const std::vector<std::uint32_t>& whole,
                const std::function<double(const std::vector<double>&)>& round,
                const BranchOptions& options) {
  return Branching(&programme, whole, round, options).run();
}

}  // namespace terrace::planner::memories
