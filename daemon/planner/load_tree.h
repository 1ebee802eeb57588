// Bytes at each of many sections (of time, of a step's operations): add over a range, maximum over a range
// and where it is, the last section above a limit. O(log n) each.
//
// A segment tree in an array; an addition to a whole node stays at the node, so that nothing is pushed down.
// Loads stay within ±2^62.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

namespace terrace::planner {

class LoadTree {
 public:
  struct Peak {
    std::uint64_t bytes;
    std::uint32_t section;  // the first where it is reached
  };

  void reset(const std::vector<std::uint64_t>& loads) {
    const auto count = static_cast<std::uint32_t>(loads.size());
    leaves_ = std::bit_ceil(std::max(count, 1U));
    nodes_.assign(std::size_t{leaves_} * 2, {0, 0, 0});
    for (std::uint32_t s = 0; s < count; ++s) nodes_[leaves_ + s].peak = loads[s];
    for (std::uint32_t s = 0; s < leaves_; ++s) nodes_[leaves_ + s].section = s;
    for (std::uint32_t n = leaves_ - 1; n > 0; --n) renew(n);
  }

  // Of [lower, upper), which may be empty.
  void subtract(std::uint32_t lower, std::uint32_t upper, std::uint64_t bytes) {
    if (lower < upper) subtract(1, 0, leaves_, lower, upper, bytes);
  }
  void add(std::uint32_t lower, std::uint32_t upper, std::uint64_t bytes) {
    subtract(lower, upper, std::uint64_t{0} - bytes);
  }

  // Of [lower, upper), which is not empty.
  Peak peak(std::uint32_t lower, std::uint32_t upper) const { return peak(1, 0, leaves_, lower, upper); }
  std::uint64_t peak_bytes() const { return nodes_.empty() ? 0 : nodes_[1].peak; }  // of all sections

  // The last section of [lower, upper) whose load is above `limit`.
  std::optional<std::uint32_t> last_above(std::uint32_t lower, std::uint32_t upper,
                                          std::uint64_t limit) const {
    if (lower >= upper) return std::nullopt;
    return last_above(1, 0, leaves_, {lower, upper, limit}, 0);
  }

 private:
  // In numbers modulo 2^64: `lowered` is what was taken from all below the node, already counted in `peak`. A
  // child's peak lacks what its parents were given, so it may be below zero.
  struct Node {
    std::uint64_t peak;
    std::uint64_t lowered;
    std::uint32_t section;
  };
  static bool at_least(std::uint64_t left, std::uint64_t right) {
    return static_cast<std::int64_t>(left) >= static_cast<std::int64_t>(right);
  }

  struct Above {
    std::uint32_t lower, upper;
    std::uint64_t limit;
  };

  static std::size_t left_of(std::size_t n) { return n * 2; }

  void renew(std::uint32_t n) {
    const Node& left = nodes_[left_of(n)];
    const Node& right = nodes_[left_of(n) + 1];
    const Node& higher = at_least(left.peak, right.peak) ? left : right;
    nodes_[n].peak = higher.peak - nodes_[n].lowered;
    nodes_[n].section = higher.section;
  }

  void subtract(std::uint32_t n, std::uint32_t begin, std::uint32_t end, std::uint32_t lower,
                std::uint32_t upper, std::uint64_t bytes) {
    if (lower <= begin && end <= upper) {
      nodes_[n].peak -= bytes;
      nodes_[n].lowered += bytes;
      return;
    }
    const std::uint32_t middle = (begin + end) / 2;
    if (lower < middle) subtract(n * 2, begin, middle, lower, upper, bytes);
    if (upper > middle) subtract(n * 2 + 1, middle, end, lower, upper, bytes);
    renew(n);
  }

  Peak peak(std::uint32_t n, std::uint32_t begin, std::uint32_t end, std::uint32_t lower,
            std::uint32_t upper) const {
    const Node& node = nodes_[n];
    if (lower <= begin && end <= upper) return {node.peak, node.section};
    const std::uint32_t middle = (begin + end) / 2;
    Peak found{};
    if (upper <= middle) {
      found = peak(n * 2, begin, middle, lower, upper);
    } else if (lower >= middle) {
      found = peak(n * 2 + 1, middle, end, lower, upper);
    } else {
      const Peak left = peak(n * 2, begin, middle, lower, upper);
      const Peak right = peak(n * 2 + 1, middle, end, lower, upper);
      found = at_least(left.bytes, right.bytes) ? left : right;
    }
    found.bytes -= node.lowered;
    return found;
  }

  // `lowered`: by all nodes above this one.
  std::optional<std::uint32_t> last_above(std::uint32_t n, std::uint32_t begin, std::uint32_t end,
                                          const Above& wanted, std::uint64_t lowered) const {
    const Node& node = nodes_[n];
    if (wanted.upper <= begin || end <= wanted.lower || at_least(wanted.limit, node.peak - lowered))
      return std::nullopt;
    if (end - begin == 1) return begin;
    const std::uint32_t middle = (begin + end) / 2;
    lowered += node.lowered;
    const auto right = last_above(n * 2 + 1, middle, end, wanted, lowered);
    return right ? right : last_above(n * 2, begin, middle, wanted, lowered);
  }

  std::uint32_t leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace terrace::planner
