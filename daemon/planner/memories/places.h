// One place for each tensor, for all of its life: what a static plan is, and how one is made of wishes.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/memories/residence.h"

namespace terrace::planner::memories {

class Places {
 public:
  // Everything is in the slow memory. The step must outlive it.
  explicit Places(const Step& step);

  // Puts into the fast memory what has room there, in the order of wishes (per tensor, higher first), then of
  // time that its accesses gain for its bytes and the operations that it lives through.
  void fill(const std::vector<double>& wishes);
  // Puts what is slow instead of what is fast, one for one, as long as that gains; then fills again.
  void improve();

  bool is_fast(std::uint32_t tensor) const { return fast_[tensor]; }
  double slow_us() const { return slow_us_; }  // of all operations beyond their times
  Residence residence() const;

 private:
  const Step& step_;
  std::vector<bool> fast_;
  std::vector<double> extra_us_;  // per operation, of what it names in the slow memory
  double slow_us_ = 0;
  Room room_;

  double gain_us(std::uint32_t tensor) const;  // of putting it into the other memory
  double density(std::uint32_t tensor) const;
  void put(std::uint32_t tensor, bool fast);
  bool replaces_one(std::uint32_t tensor, const std::vector<std::uint32_t>& fast_ones);
};

}  // namespace terrace::planner::memories
