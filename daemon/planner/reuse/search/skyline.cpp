#include "daemon/planner/reuse/search/skyline.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "daemon/planner/reuse/search/contained.h"

namespace terrace::planner::search {
namespace {

constexpr std::int64_t wall = std::numeric_limits<std::int64_t>::max();

class Skyline {
 public:
  struct Segment {
    std::int32_t last;  // section, inclusive
    std::int64_t height;
  };
  using Segments = std::map<std::int32_t, Segment>;  // by first section

  explicit Skyline(std::int32_t sections) { add(0, {sections - 1, 0}); }

  Segments::const_iterator lowest() const { return segments_.find(by_height_.begin()->second); }

  // Part of a segment gets a new height.
  void place(Segments::const_iterator at, const Item& item, std::int64_t height) {
    const auto [first, segment] = *at;
    remove(at);
    if (first < item.first) add(first, {item.first - 1, segment.height});
    add(item.first, {item.last, height});
    if (item.last < segment.last) add(item.last + 1, {segment.last, segment.height});
  }

  // To the lower neighbour's height, as one segment with all neighbours of that height.
  void lift(Segments::const_iterator at) {
    std::int32_t first = at->first;
    Segment segment = at->second;
    const auto left = at == segments_.begin() ? segments_.end() : std::prev(at);
    const auto right = std::next(at);
    const std::int64_t left_height = left == segments_.end() ? wall : left->second.height;
    const std::int64_t right_height = right == segments_.end() ? wall : right->second.height;
    segment.height = std::min(left_height, right_height);
    remove(at);
    if (left_height == segment.height) {
      first = left->first;
      remove(left);
    }
    if (right_height == segment.height) {
      segment.last = right->second.last;
      remove(right);
    }
    add(first, segment);
  }

 private:
  void add(std::int32_t first, Segment segment) {
    segments_.emplace(first, segment);
    by_height_.emplace(segment.height, first);
  }

  void remove(Segments::const_iterator at) {
    by_height_.erase({at->second.height, at->first});
    segments_.erase(at);
  }

  Segments segments_;
  std::set<std::pair<std::int64_t, std::int32_t>> by_height_;
};

}  // namespace

std::vector<std::int64_t> skyline_offsets(const Problem& problem, std::span<const std::uint32_t> order) {
  Contained left(problem, order);
  Skyline skyline(problem.sections);
  std::vector<std::int64_t> offsets(order.size());
  for (std::size_t placed = 0; placed < order.size();) {
    const auto segment = skyline.lowest();
    const std::uint32_t rank = left.first_within(segment->first, segment->second.last);
    if (rank == Contained::none) {
      skyline.lift(segment);
      continue;
    }
    const Item& item = problem.items[order[rank]];
    offsets[order[rank]] = align_up(segment->second.height, item.alignment);
    skyline.place(segment, item, offsets[order[rank]] + item.bytes);
    left.remove(rank);
    ++placed;
  }
  return offsets;
}

}  // namespace terrace::planner::search
