#include "liballoc/gpu/offload/memory/held_extent.h"

#include <cerrno>

namespace terrace::liballoc::offload {

void HeldExtent::give_up() {
  slab_->forget_withheld(std::exchange(withheld_bytes_, 0));
  if (is_here()) slab_->release(std::exchange(extent_, {}));
}

bool HeldExtent::move_below_limit() {
  if (!is_here() || !slab_->is_beyond_limit(extent_)) return true;
  tiers::Extent moved{};
  if (slab_->reserve(extent_.bytes, &moved) != 0) return false;
  slab_->release(std::exchange(extent_, moved));
  return true;
}

void HeldExtent::withhold() {
  if (!is_here()) return;
  withheld_bytes_ = extent_.bytes;
  slab_->withhold(std::exchange(extent_, {}));
}

void HeldExtent::spare() {
  if (slab_->may_withhold(extent_.bytes)) withhold();
}

int HeldExtent::hand_out() {
  if (is_here()) return 0;
  if (withheld_bytes_ == 0) return ENOENT;
  const int error = slab_->hand_out_withheld(withheld_bytes_, &extent_);
  if (error == 0) withheld_bytes_ = 0;
  return error;
}

void HeldExtent::come_back() {
  if (withheld_bytes_ != 0 && slab_->has_room_for_withheld(withheld_bytes_)) hand_out();
}

}  // namespace terrace::liballoc::offload
