#include "liballoc/gpu/offload/room/host_room.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "liballoc/base/os.h"

namespace terrace::liballoc::offload {

HostRoom::~HostRoom() {
  for (const Retired& retired : retired_) {
    common_->device().synchronize(retired.event);
    common_->link->give_event(retired.event);
  }
}

int HostRoom::open(std::uint64_t bytes, std::uint64_t read_ahead_bytes, std::string* reason) {
  read_ahead_limit_bytes_ = read_ahead_bytes;
  return slab_.open(bytes, common_->on_host() ? nullptr : &common_->device(), reason);
}

void HostRoom::start(std::function<std::uint64_t()> wanted) {
  if (common_->on_host()) return;
  keeper_.start({.begin = [this] { common_->begin_thread(); },
                 .wanted =
                     [this, wanted = std::move(wanted)] {
                       const std::uint64_t to_read = std::exchange(wanted_to_read_bytes_, 0);
                       return to_read != 0 && keeper_.may_grow_aside(to_read) ? to_read : wanted();
                     },
                 .changed =
                     [this] {
                       common_->changed.notify_all();
                       common_->stir();
                     }});
}

bool HostRoom::may_be_granted(std::uint64_t bytes) const {
  const std::uint64_t capacity = slab_.capacity_bytes();
  return slab_.limit_bytes() < capacity && bytes <= capacity - std::min(capacity, slab_.used_bytes()) &&
         demand_.awaits_answer(os::now_ns());
}

int HostRoom::error() const { return keeper_.error() != 0 ? keeper_.error() : ENOSPC; }

int HostRoom::reserve(std::uint64_t bytes, tiers::Extent* out) {
  for (;;) {
    const int error = slab_.reserve(bytes, out);
    if (error != ENOSPC) return error;
    if (keeper_.grow_now(bytes)) continue;
    if (keeper_.may_grow_aside(bytes) || !drop_clean(true)) return ENOSPC;
  }
}

bool HostRoom::reserve_to_read(Tensor& tensor, bool urgent) {
  const std::uint64_t bytes = tensor.disk.bytes;
  do {
    if (slab_.reserve(bytes, &tensor.memory) == 0) return true;
  } while (keeper_.grow_now(bytes) || drop_clean(urgent));
  if (urgent && keeper_.may_grow_aside(bytes)) {
    wanted_to_read_bytes_ = bytes;
    keeper_.wake();
  }
  return false;
}

// A copy out that was refused half-way still writes to it, one back may still read from it.
void HostRoom::release(Tensor& tensor) {
  not_clean(tensor);
  if (tensor.read_ahead) wasted(tensor);
  const tiers::Extent memory = std::exchange(tensor.memory, {});
  if (memory.bytes == 0) return;
  Event& under_way = common_->is_pending(tensor.departed) ? tensor.departed : tensor.arrived;
  if (common_->is_pending(under_way))
    retired_.push_back({memory, std::exchange(under_way, nullptr)});
  else
    slab_.release(memory);
}

void HostRoom::collect_retired() {
  std::erase_if(retired_, [this](const Retired& retired) {
    if (common_->is_pending(retired.event)) return false;
    slab_.release(retired.extent);
    common_->link->give_event(retired.event);
    return true;
  });
}

bool HostRoom::make_window() {
  tiers::Extent made{};
  if (window_.bytes() >= window_.usual_bytes()) return true;
  if (!window_.is_busy() && reserve(window_.usual_bytes(), &made) == 0) window_.hold(made);
  return window_.is_usable();
}

void HostRoom::now_clean(const TensorPtr& tensor) {
  tensor->clean = true;
  clean_bytes_ += tensor->memory.bytes;
  clean_.push_back(tensor);
}

void HostRoom::not_clean(Tensor& tensor) {
  if (!std::exchange(tensor.clean, false)) return;
  clean_bytes_ -= tensor.memory.bytes;
}

// Nobody uses it, and it can be brought back through the window.
bool HostRoom::is_droppable(const Tensor& tensor, bool even_read_ahead) const {
  if (tensor.users != 0 || tensor.is_moving() || common_->is_pending(tensor.arrived)) return false;
  return window_.may_grow_for(tensor) && (even_read_ahead || !tensor.read_ahead);
}

bool HostRoom::drop_clean(bool even_read_ahead) {
  std::erase_if(clean_, [](const TensorPtr& tensor) { return !tensor->clean; });
  for (const TensorPtr& tensor : clean_) {
    if (!is_droppable(*tensor, even_read_ahead)) continue;
    drop(*tensor);
    return true;
  }
  return false;
}

bool HostRoom::drop_if_clean(Tensor& tensor) {
  const bool drops = tensor.clean && is_droppable(tensor, true);
  if (drops) drop(tensor);
  return drops;
}

void HostRoom::drop(Tensor& tensor) {
  not_clean(tensor);
  if (tensor.read_ahead) wasted(tensor);
  tensor.memory_filled = false;
  window_.inherit(&tensor);
}

void HostRoom::begin_read_ahead(Tensor& tensor) {
  tensor.read_ahead = true;
  read_ahead_bytes_ += tensor.disk.bytes;
}

void HostRoom::was_asked_for(Tensor& tensor) {
  if (!std::exchange(tensor.read_ahead, false)) return;
  read_ahead_bytes_ -= tensor.disk.bytes;
  if (!tensor.gone && tensor.to != nullptr) ++common_->counts.read_ahead_hits;
}

void HostRoom::wasted(Tensor& tensor) {
  ++common_->counts.read_ahead_wasted;
  tensor.read_ahead = false;
  read_ahead_bytes_ -= tensor.disk.bytes;
}

void HostRoom::end_step() {
  demand_.end_step();
  collect_retired();
  is_pressed_ = std::exchange(was_short_, false);
  std::erase_if(clean_, [](const TensorPtr& tensor) { return !tensor->clean; });
  give_up_window();
  keeper_.end_step();
}

// What others have stored meanwhile keeps it.
void HostRoom::give_up_window() {
  const auto& live = common_->live;
  const bool needed = std::any_of(live.begin(), live.end(), [](const auto& entry) {
    return entry.second->in_pieces || (entry.second->disk_filled && !entry.second->memory_filled);
  });
  if (!needed && !window_.is_busy()) window_.held().give_up();
}

void HostRoom::trim() {
  collect_retired();
  give_up_window();
  if (!window_.is_busy()) window_.held().spare();
  keeper_.trim();
}

}  // namespace terrace::liballoc::offload
