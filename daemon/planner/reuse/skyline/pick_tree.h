// The blocks that wait: which of those that begin in a range, and end in a range, comes first.
//
// A segment tree over the blocks in the order of their begins. A node knows the earliest and latest end below
// it and the block of the highest priority, which bounds the search: it visits few nodes beside the path.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/planner/reuse/skyline/part.h"

namespace terrace::planner::skyline {

inline constexpr std::uint32_t no_block = 0xffffffffU;

class PickTree {
 public:
  // `priority` must outlive the tree's use.
  void reset(std::span<const Block> blocks, std::span<const float> priority) {
    priority_ = priority;
    const auto count = static_cast<std::uint32_t>(blocks.size());
    leaves_ = std::bit_ceil(std::max(count, 1U));
    nodes_.assign(std::size_t{leaves_} * 2, {});
    for (std::uint32_t i = 0; i < count; ++i) nodes_[leaves_ + i] = {blocks[i].upper, blocks[i].upper, i};
    for (std::uint32_t n = leaves_ - 1; n > 0; --n) renew(n);
  }

  void remove(std::uint32_t block) {
    std::uint32_t n = leaves_ + block;
    nodes_[n] = {};
    for (n /= 2; n > 0; n /= 2) renew(n);
  }

  // Ends in (after, until]; blocks of the indices [begin, end). no_block if there is none.
  struct Range {
    std::uint32_t begin;
    std::uint32_t end;
    std::uint32_t after;
    std::uint32_t until;
  };
  std::uint32_t first(const Range& range) const {
    std::uint32_t best = no_block;
    search(1, 0, leaves_, range, &best);
    return best;
  }

 private:
  struct Node {
    std::uint32_t earliest = 0xffffffffU;
    std::uint32_t latest = 0;
    std::uint32_t best = no_block;
  };

  bool before(std::uint32_t a, std::uint32_t b) const {  // equal priority: the earlier begin
    if (a == no_block || b == no_block) return a != no_block;
    return priority_[a] != priority_[b] ? priority_[a] > priority_[b] : a < b;
  }

  static std::size_t left_of(std::size_t n) { return n * 2; }

  void renew(std::uint32_t n) {
    const Node& left = nodes_[left_of(n)];
    const Node& right = nodes_[left_of(n) + 1];
    nodes_[n] = {std::min(left.earliest, right.earliest), std::max(left.latest, right.latest),
                 before(left.best, right.best) ? left.best : right.best};
  }

  void search(std::uint32_t n, std::uint32_t begin, std::uint32_t end, const Range& range,
              std::uint32_t* best) const {
    const Node& node = nodes_[n];
    if (end <= range.begin || begin >= range.end || !before(node.best, *best)) return;
    if (node.earliest > range.until || node.latest <= range.after) return;
    const bool inside = range.begin <= begin && end <= range.end;
    if (inside && node.earliest > range.after && node.latest <= range.until) {
      *best = node.best;
      return;
    }
    const std::uint32_t middle = (begin + end) / 2;
    const bool right_first = nodes_[left_of(n) + 1].best == node.best;
    if (right_first) search(n * 2 + 1, middle, end, range, best);
    search(n * 2, begin, middle, range, best);
    if (!right_first) search(n * 2 + 1, middle, end, range, best);
  }

  std::span<const float> priority_;
  std::uint32_t leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace terrace::planner::skyline
