// In which order a step's tensors are fetched, learned from the step before.
//
// Tensors are known by their position: how many were stored before them in the step. A training step repeats,
// so position p of this step is fetched where position p of the last one was. Before anything was learned,
// and for positions that the last step did not fetch, the order is the reverse of the stores: what backward
// does.
//
// The next fetch of a position is its rank, 0 being the soonest. Pure and not thread-safe. Costs are
// constant, but for end_step(), which is linear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace terrace::liballoc::offload {

class FetchOrder {
 public:
  static constexpr std::size_t none = ~std::size_t{0};

  // The next tensor of the step; its position.
  std::size_t store() { return stored_++; }
  // A repeated fetch counts once.
  void fetch(std::size_t position);
  // What was fetched becomes the order; a step without a fetch teaches nothing.
  void end_step();

  std::size_t stored() const { return stored_; }
  bool fetching() const { return !fetched_.empty(); }
  // Walks this step's positions from the soonest on: the first, and the one behind `position`; none at the
  // end.
  std::size_t first() const;
  std::size_t after(std::size_t position) const;
  // And from the latest on, towards the soonest.
  std::size_t last() const;
  std::size_t before(std::size_t position) const;

 private:
  bool learned(std::size_t position) const { return position < rank_.size() && rank_[position] != none; }
  std::size_t last_unlearned(std::size_t below) const;
  std::size_t first_unlearned(std::size_t from) const;
  std::size_t learned_from(std::size_t rank) const;
  std::size_t learned_down_to(std::size_t rank) const;

  std::size_t stored_ = 0;
  std::vector<std::size_t> order_;    // positions as they were fetched in the last step
  std::vector<std::size_t> rank_;     // of a position in order_; none
  std::vector<std::size_t> fetched_;  // in this step
  std::vector<bool> is_fetched_;
};

}  // namespace terrace::liballoc::offload
