#include "daemon/planner/reuse/search/skyline.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <utility>

namespace terrace::planner::search {
namespace {

// Heights of sections that only rise. In a node, `covering` is a height that holds for its whole range,
// `highest` the largest anywhere in it.
class Skyline {
 public:
  explicit Skyline(std::int32_t sections)
      : leaves_(static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(sections)))),
        nodes_(static_cast<std::size_t>(leaves_) * 2) {}

  std::int64_t highest(const Item& item) const { return highest(1, 0, leaves_ - 1, item); }
  void raise(const Item& item, std::int64_t height) { raise(1, 0, leaves_ - 1, item, height); }

 private:
  struct Node {
    std::int64_t covering = 0;
    std::int64_t highest = 0;
  };

  std::int64_t highest(std::size_t n, std::int32_t from, std::int32_t to, const Item& item) const {
    if (item.last < from || to < item.first) return 0;
    if (item.first <= from && to <= item.last) return nodes_[n].highest;
    const std::int32_t half = from + (to - from) / 2;
    const std::int64_t below =
        std::max(highest(n * 2, from, half, item), highest(n * 2 + 1, half + 1, to, item));
    return std::max(nodes_[n].covering, below);
  }

  void raise(std::size_t n, std::int32_t from, std::int32_t to, const Item& item, std::int64_t height) {
    if (item.last < from || to < item.first) return;
    nodes_[n].highest = std::max(nodes_[n].highest, height);
    if (item.first <= from && to <= item.last) {
      nodes_[n].covering = std::max(nodes_[n].covering, height);
      return;
    }
    const std::int32_t half = from + (to - from) / 2;
    raise(n * 2, from, half, item, height);
    raise(n * 2 + 1, half + 1, to, item, height);
  }

  std::int32_t leaves_;
  std::vector<Node> nodes_;
};

}  // namespace

std::vector<std::int64_t> skyline_offsets(const Problem& problem, std::span<const std::uint32_t> order) {
  using Place = std::pair<std::int64_t, std::uint32_t>;  // offset, rank
  std::priority_queue<Place, std::vector<Place>, std::greater<>> queue;
  for (std::uint32_t rank = 0; rank < order.size(); ++rank) queue.emplace(0, rank);
  Skyline skyline(problem.sections);
  std::vector<std::int64_t> offsets(order.size());
  while (!queue.empty()) {
    const auto [offset, rank] = queue.top();
    queue.pop();
    const Item& item = problem.items[order[rank]];
    const std::int64_t lowest = aligned(skyline.highest(item), item.alignment);
    if (lowest > offset) {
      queue.emplace(lowest, rank);
      continue;
    }
    offsets[order[rank]] = offset;
    skyline.raise(item, offset + item.bytes);
  }
  return offsets;
}

}  // namespace terrace::planner::search
