// An engine's tensors in the order in which their fetches are expected: who is written first, who is read
// next, and what a caller may ask for ahead.
//
//   stored     0    1    2    3    4    5            of earlier steps
//   fetched    ◄── read next ──┤ last fetched         (no order is known)
//              write first ────────────────────►
//
// A tensor has its number for good, and a position in the step in which it was stored; its step over, it has
// none. Under the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "liballoc/gpu/offload/tensors/fetch_order.h"
#include "liballoc/gpu/offload/tensors/tensor.h"

namespace terrace::liballoc::offload {

class StepTensors {
 public:
  // Gives the tensor its number and position. It counts once confirm() is called; nothing else may enter
  // before that or withdraw(), which forgets it. Throws std::bad_alloc, and nothing has happened.
  void enter(const TensorPtr& tensor);
  void confirm();
  void withdraw() { by_position_.pop_back(); }
  // The tensor is released.
  void leave(const Tensor& tensor);
  // It is asked for.
  void fetch(const Tensor& tensor);
  bool is_fetching() const { return order_.fetching(); }

  // A new step begins; its first tensors are those that stay().
  void end_step();
  // One that is live when its step has ended.
  void stay(const TensorPtr& tensor);

  // Of those that `may` be: the one that is fetched last, then those of earlier steps; nullptr: none. The
  // search goes on where it was: what lies behind the cursor was refused already; once nothing is found it
  // begins again.
  template <typename May>
  TensorPtr last_expected(const May& may);
  // Calls visit(tensor) for those behind the one fetched last, in the order in which they are expected, until
  // that is false; for so many at most. None before the first fetch.
  template <typename Visit>
  void look_ahead(std::size_t most, const Visit& visit) const;
  // The numbers of those expected behind `id`, or from the first on (0), that nobody has asked for.
  std::size_t expect(std::uint64_t id, std::uint64_t* out, std::size_t count) const;

 private:
  FetchOrder order_;
  std::vector<TensorPtr> by_position_;         // of this step; nullptr once released
  std::vector<TensorPtr> from_earlier_steps_;  // live when their step ended
  std::uint64_t last_id_ = 0;
  std::uint64_t step_begins_ = 0;  // last_id_ when the step began: id - that - 1 is the position
  std::size_t cursor_ = FetchOrder::none;
  std::size_t last_fetched_ = FetchOrder::none;
};

template <typename May>
TensorPtr StepTensors::last_expected(const May& may) {
  bool from_cursor = cursor_ != FetchOrder::none;
  for (;;) {
    std::size_t position = from_cursor ? cursor_ : order_.last();
    while (position != FetchOrder::none && !may(by_position_[position])) position = order_.before(position);
    cursor_ = position;
    if (position != FetchOrder::none) return by_position_[position];
    if (!std::exchange(from_cursor, false)) break;
  }
  for (const TensorPtr& tensor : from_earlier_steps_)
    if (!tensor->gone && may(tensor)) return tensor;
  return nullptr;
}

template <typename Visit>
void StepTensors::look_ahead(std::size_t most, const Visit& visit) const {
  if (last_fetched_ == FetchOrder::none) return;
  std::size_t position = order_.after(last_fetched_);
  for (std::size_t i = 0; i < most && position != FetchOrder::none; ++i) {
    const TensorPtr& tensor = by_position_[position];
    position = order_.after(position);
    if (tensor != nullptr && !visit(tensor)) return;
  }
}

}  // namespace terrace::liballoc::offload
