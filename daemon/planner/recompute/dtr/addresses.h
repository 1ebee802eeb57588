// Memory as addresses: blocks in a row without gaps, each free or in use.
//
//     | 0 |  free  | 3 |1| free |        blocks in the order of addresses; two free ones never stand
//     0                           n      beside each other
//
// What is counted in bytes alone fits wherever enough bytes are free. What needs them in a row does not:
// that is what Coop is about (coop.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "daemon/planner/recompute/step.h"

namespace terrace::planner::recompute {

enum class End : std::uint8_t { low, high };

class Addresses {
 public:
  static constexpr std::uint32_t free_block = nothing;
  static constexpr std::uint32_t no_storage = nothing - 1;  // in use, by what cannot be evicted

  explicit Addresses(std::uint64_t bytes);

  // At that end of the smallest free block that is large enough, of equal ones the lowest. Answers where the
  // block begins, or nothing where no free block is large enough. `bytes` is not 0. O(blocks).
  std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint32_t owner, End end);
  // The block must be in use.
  void give_back(std::uint64_t begin);
  [[nodiscard]] std::uint64_t largest_free_bytes() const;

  // Of all blocks in a row that have `bytes` together, the row that costs least; answers its storages in
  // order of addresses, none where there is no such row. Free blocks cost nothing; `cost` answers nothing for
  // a storage that cannot go, and is asked once for each. Of equal rows the lowest. Each row is added up
  // anew: O(blocks) times the longest row.
  using Cost = std::function<std::optional<double>(std::uint32_t storage)>;
  [[nodiscard]] std::vector<std::uint32_t> cheapest_row(std::uint64_t bytes, const Cost& cost) const;

 private:
  struct Block {
    std::uint64_t bytes = 0;
    std::uint32_t owner = free_block;
  };
  std::map<std::uint64_t, Block> blocks_;  // by begin
};

}  // namespace terrace::planner::recompute
