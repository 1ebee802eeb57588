// The host memory of an engine's tensors: what it is taken from and given back to, who waits for it, and
// whose it is only as long as nobody else needs it.
//
// A tensor that the drive has as well is clean: its memory is dropped when somebody needs it, and not before.
// What was read ahead is clean, too, and is dropped for a store or an urgent read alone.
//
// Under the engine's lock. Errors are errno values.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "liballoc/gpu/offload/memory/slab.h"
#include "liballoc/gpu/offload/memory/slab_keeper.h"
#include "liballoc/gpu/offload/room/common.h"
#include "liballoc/gpu/offload/room/window.h"
#include "liballoc/gpu/offload/session/memory_demand.h"

namespace terrace::liballoc::offload {

class HostRoom {
 public:
  explicit HostRoom(Common* common)
      : common_(common), keeper_(&slab_, &common->mutex), window_(common, &slab_) {}
  HostRoom(const HostRoom&) = delete;
  HostRoom& operator=(const HostRoom&) = delete;
  // The device has passed everything.
  ~HostRoom();

  // 0 or errno with *reason.
  int open(std::uint64_t bytes, std::uint64_t read_ahead_bytes, std::string* reason);
  // Memory for a device grows beside the engine, as `wanted` says (slab_keeper.h).
  void start(std::function<std::uint64_t()> wanted);
  void stop() { keeper_.stop(); }

  Slab& slab() { return slab_; }
  const Slab& slab() const { return slab_; }
  SlabKeeper& keeper() { return keeper_; }
  Window& window() { return window_; }
  MemoryDemand& demand() { return demand_; }
  std::byte* at(const Tensor& tensor) const { return slab_.at(tensor.memory); }

  // ENOSPC: not now. What is clean is dropped for it once there is no more to be had.
  int reserve(std::uint64_t bytes, tiers::Extent* out);
  // Room for what the drive has. False: there is none, or none yet for what comes after this one; an urgent
  // one may have what was read ahead.
  bool reserve_to_read(Tensor& tensor, bool urgent);
  // Of a tensor that ends: at once, or when the device is through with it.
  void release(Tensor& tensor);
  void collect_retired();
  bool has_retired() const { return !retired_.empty(); }
  // Whether the daemon may be about to grant room for so much more.
  bool may_be_granted(std::uint64_t bytes) const;
  // Why there is no more.
  int error() const;
  // There is a window, as large as usual if that can be: from then on a tensor in pieces can always leave and
  // come back.
  bool make_window();

  // Both have it: host memory and the drive.
  void now_clean(const TensorPtr& tensor);
  std::uint64_t clean_bytes() const { return clean_bytes_; }
  // True: one was dropped.
  bool drop_clean(bool even_read_ahead);
  bool drop_if_clean(Tensor& tensor);

  // So much that is read ahead may be here at once.
  std::uint64_t read_ahead_limit_bytes() const { return read_ahead_limit_bytes_; }
  bool may_read_ahead(std::uint64_t bytes) const {
    return read_ahead_bytes_ + bytes <= read_ahead_limit_bytes_;
  }
  void begin_read_ahead(Tensor& tensor);
  // No longer what was read ahead for nothing.
  void was_asked_for(Tensor& tensor);

  // Stores wait for so many bytes.
  void await(std::uint64_t bytes) { awaited_bytes_ += bytes; }
  void await_no_longer(std::uint64_t bytes) { awaited_bytes_ -= bytes; }
  std::uint64_t awaited_bytes() const { return awaited_bytes_; }
  // A store of this step found no room, or one of the last step did: write before it happens.
  void was_short() { was_short_ = is_pressed_ = true; }
  bool is_pressed() const { return is_pressed_; }

  // What the next step may not need is given back, and what was refused in this one may be tried again.
  void end_step();
  // Also what the next step would take again.
  void trim();

 private:
  struct Retired {  // host memory that the device still reads or writes
    tiers::Extent extent;
    Event event;
  };

  void not_clean(Tensor& tensor);
  void wasted(Tensor& tensor);
  bool is_droppable(const Tensor& tensor, bool even_read_ahead) const;
  void drop(Tensor& tensor);
  void give_up_window();

  Common* common_;
  Slab slab_;
  SlabKeeper keeper_;
  MemoryDemand demand_;
  Window window_;
  std::vector<Retired> retired_;
  std::deque<TensorPtr> clean_;  // about the furthest from their fetch first
  std::uint64_t clean_bytes_ = 0;
  std::uint64_t read_ahead_limit_bytes_ = 0;
  std::uint64_t read_ahead_bytes_ = 0;
  std::uint64_t awaited_bytes_ = 0;
  std::uint64_t wanted_to_read_bytes_ = 0;  // by the last urgent read that found no room
  bool was_short_ = false;
  bool is_pressed_ = false;
};

}  // namespace terrace::liballoc::offload
