// What is still to be placed at each section: add over a range, maximum over a range and where it is.
//
// A segment tree in an array; an addition to a whole node stays at the node, so that nothing is pushed down.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace terrace::planner::portfolio {

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

  void subtract(std::uint32_t lower, std::uint32_t upper, std::uint64_t bytes) {
    subtract(1, 0, leaves_, lower, upper, bytes);
  }

  // Of [lower, upper), which is not empty.
  Peak peak(std::uint32_t lower, std::uint32_t upper) const { return peak(1, 0, leaves_, lower, upper); }

 private:
  // In numbers modulo 2^64: `lowered` is what was taken from all below the node, already counted in `peak`.
  struct Node {
    std::uint64_t peak;
    std::uint64_t lowered;
    std::uint32_t section;
  };

  static std::size_t left_of(std::size_t n) { return n * 2; }

  void renew(std::uint32_t n) {
    const Node& left = nodes_[left_of(n)];
    const Node& right = nodes_[left_of(n) + 1];
    const Node& higher = left.peak >= right.peak ? left : right;
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
      found = left.bytes >= right.bytes ? left : right;
    }
    found.bytes -= node.lowered;
    return found;
  }

  std::uint32_t leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace terrace::planner::portfolio
