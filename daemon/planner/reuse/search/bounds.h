// What is known of the buffers that are not placed yet: how low each may lie, and because of what.
//
// Two lower bounds per buffer. `floor` is the height of what has been placed beneath it; with the set of
// buffers left it is the whole state of the search, and is hashed. `low` >= floor is a stronger one: the
// search has shown that the buffer must lie higher. Each has a reason, the set of placed buffers that it
// rests on: as long as those lie where they lie, the bound holds. Changes go through a trail and are undone
// in reverse.
//
// Buffers are named by rank here, their position in the order of this run. Two with the same sections, size
// and alignment are twins: they can be exchanged, so the later one has to lie above the earlier.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/planner/reuse/search/bit_rows.h"
#include "daemon/planner/reuse/search/failed_states.h"
#include "daemon/planner/reuse/search/problem.h"

namespace terrace::planner::search {

using Rank = std::uint32_t;
inline constexpr Rank no_rank = 0xffffffffU;

struct Cell {
  std::int64_t bytes = 0;
  std::int64_t low = 0;
  std::int64_t floor = 0;
  std::int64_t alignment = 1;
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::uint32_t item = 0;
  Rank twin = no_rank;  // the one before it
};

inline bool overlap(const Cell& a, const Cell& b) { return a.first <= b.last && b.first <= a.last; }

class Bounds {
 public:
  using Word = BitRows::Word;

  // Rows of reasons take 2 * n^2 / 8 bytes, and as much again and more on the trail; without `learn`, none.
  Bounds(const Problem& problem, std::span<const std::uint32_t> order, bool learn);

  std::size_t size() const { return cells_.size(); }
  std::size_t words() const { return low_why_.words(); }
  const Cell& operator[](Rank r) const { return cells_[r]; }
  const Word* low_why(Rank r) const { return low_why_.row(r); }
  const Word* floor_why(Rank r) const { return floor_why_.row(r); }

  // `r` lies at `low` or above, because of `why`.
  void raise(Rank r, std::int64_t low, const Word* why);
  // `base` has been placed at `offset` beneath `r`: r's floor is at least its top.
  void stack(Rank r, Rank base, std::int64_t offset);
  // Forgets that `low` was more than `floor`: the start of a problem of its own.
  void restart(Rank r);

  std::size_t mark() const { return trail_.size(); }
  void undo(std::size_t mark);

  // The hash of the buffers left, maintained by add, remove, and every change of a floor.
  const StateHash& hash() const { return hash_; }
  void set_hash(const StateHash& hash) { hash_ = hash; }
  void add_to_hash(Rank r) { add(hash_, hash_of(cells_[r].item, cells_[r].floor)); }
  void remove_from_hash(Rank r) { subtract(hash_, hash_of(cells_[r].item, cells_[r].floor)); }

 private:
  struct Change {
    Rank rank;
    std::int64_t low;
    std::int64_t floor;
  };
  void save(Rank r);
  void set_floor(Rank r, std::int64_t floor);

  std::vector<Cell> cells_;
  BitRows low_why_;
  BitRows floor_why_;
  std::vector<Change> trail_;
  std::vector<Word> saved_why_;  // two rows for each change
  StateHash hash_;
};

}  // namespace terrace::planner::search
