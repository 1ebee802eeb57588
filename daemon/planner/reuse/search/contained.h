// Which buffer, first in an order, lives within a range of sections?
//
// A static tree over the buffers sorted by first section. Each node holds its buffers sorted by last section,
// and over them a tree of minima of rank. A question visits O(log n) nodes, in each one prefix: O(log^2 n).
// Taking a buffer out updates the nodes above it. Memory O(n log n).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "daemon/planner/reuse/search/problem.h"

namespace terrace::planner::search {

class Contained {
 public:
  static constexpr std::uint32_t none = 0xffffffffU;

  Contained(const Problem& problem, std::span<const std::uint32_t> order);

  // The smallest rank of a buffer left with first <= its first section and its last section <= last.
  std::uint32_t first_within(std::int32_t first, std::int32_t last) const;
  void remove(std::uint32_t rank);

 private:
  struct Node {
    std::vector<std::pair<std::int32_t, std::uint32_t>> entries;  // last section and rank, rising
    std::vector<std::uint32_t>
        least;  // [k + count]: the rank of entry k or none; above that, minima of pairs
  };

  void fill(std::size_t node, std::span<const std::uint32_t> ranks);
  static std::uint32_t least_of_prefix(const Node& node, std::int32_t last);
  void remove_from(Node& node, std::uint32_t rank) const;

  std::vector<std::int32_t> first_of_;      // per rank
  std::vector<std::int32_t> last_of_;       // per rank
  std::vector<std::uint32_t> position_;     // per rank: where in the order of first sections
  std::vector<std::int32_t> sorted_first_;  // per position
  std::size_t leaves_;
  std::vector<Node> nodes_;
};

}  // namespace terrace::planner::search
