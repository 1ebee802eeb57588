// The storages that may be evicted now: there, not locked, no constants.
//
// Which of several with the same value goes is part of a heuristic's result where many are alike (h_size), so
// it is fixed, as simrd's list has it: the one that entered last; of those that cost nothing, the one that
// entered first.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/recompute/dtr/heuristic.h"

namespace terrace::planner::recompute {

class EvictionPool {
 public:
  explicit EvictionPool(std::size_t storages) : places_(storages, nothing) {}

  [[nodiscard]] bool empty() const { return members_.empty(); }
  [[nodiscard]] bool has(std::uint32_t storage) const { return places_[storage] != nothing; }
  void add(std::uint32_t storage);
  void remove(std::uint32_t storage);  // nothing happens if it is not a member
  // Asks for the value of every member. The pool must not be empty.
  std::uint32_t choose(Heuristic* heuristic) const;

 private:
  struct Member {
    std::uint32_t storage = 0;
    std::uint64_t entry = 0;  // counts up
  };
  std::vector<Member> members_;
  std::vector<std::uint32_t> places_;  // in members_, per storage
  std::uint64_t entries_ = 0;
};

}  // namespace terrace::planner::recompute
