// The way between a device and the slab: two streams of the engine's own, one each way, and events for what
// goes through them. Nothing here waits for the host or the device.
//
// A copy out waits for what was in the caller's stream; the caller's stream waits for a copy out only where
// it is told to (Engine::leave()), so that the source can be used again in its order. Copies go in pieces
// that end where the slab's chunks do. Any thread may call anything.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "liballoc/gpu/offload/memory/slab.h"
#include "tiers/gpu/device.h"

namespace terrace::liballoc::offload {

using tiers::gpu::Event;
using tiers::gpu::Stream;

class DeviceLink {
 public:
  DeviceLink() = default;
  DeviceLink(const DeviceLink&) = delete;
  DeviceLink& operator=(const DeviceLink&) = delete;
  ~DeviceLink();

  // 0 or errno with *reason.
  int open(std::unique_ptr<tiers::gpu::Device> device, std::string* reason);

  tiers::gpu::Device& device() { return *device_; }
  Stream out() const { return out_; }
  Stream in() const { return in_; }

  // Events come from a pool and go back to it; nullptr is allowed in give_event(). 0 or errno.
  int take_event(Event* out);
  void give_event(Event event);

  // Where `stream` is now. 0 or errno; *event is made first if it is nullptr.
  int mark(Stream stream, Event* event);

  struct Move {
    const Slab* slab;
    std::uint64_t offset;  // in the slab
    std::byte* device;     // the other side
    std::uint64_t bytes;
  };
  // Queue the copy behind `after` (nullptr: at once) and mark its end. Also one that fails half-way is
  // marked: its first pieces are under way, and whoever failed must leave both sides alone until *done has
  // passed. (A device that no longer records either has ended its work.)
  int copy_out(const Move& move, Event after, Event* done);
  int copy_in(const Move& move, Event after, Event* done);
  // From the device's memory to the device's memory, behind both.
  int copy_across(std::byte* to, const std::byte* from, std::uint64_t bytes, Event to_free, Event from_ready,
                  Event* done);

 private:
  int create(tiers::gpu::Stream* stream, std::string* reason);
  int queue(Stream stream, std::initializer_list<Event> after, Event* done, const std::function<int()>& copy);
  int copy_pieces(Stream stream, const Move& move, tiers::gpu::Way way);

  std::unique_ptr<tiers::gpu::Device> device_;
  Stream out_ = nullptr;
  Stream in_ = nullptr;
  std::mutex mutex_;
  std::vector<Event> events_;  // not in use
};

}  // namespace terrace::liballoc::offload
