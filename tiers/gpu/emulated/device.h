// The emulated device of device.h, put together: memory (memory.h), streams (stream.h), one
// link each way (link.h), and host memory that is really locked (host_pins.h).
//
// What differs from a GPU: the host may touch mapped memory; a copy may read and write any memory; kernels
// take the CPU's time, one thread for each stream. An address inside a reserved range where nothing is mapped
// ends the stream's work with EIO when a copy reaches it, as an illegal address does on a GPU.
//
// The default stream is the program's, whose work the program does itself on the host: CPU tensors play the
// device's. Without a lag that stream is never behind, as if every operation were synchronous. With lag=TIME
// it is behind by that much, as a GPU is behind a host that has queued what it is to do: events recorded in
// it pass TIME later, copies that wait for them start then, and read their source as it is then. The program
// may give a source away once the default stream waits for the copy (stream.h), and not before.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "tiers/gpu/device.h"
#include "tiers/gpu/emulated/link.h"
#include "tiers/gpu/emulated/memory.h"
#include "tiers/gpu/emulated/stream.h"
#include "tiers/gpu/host_pins.h"

namespace terrace::tiers::gpu {

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(const DeviceSpec& spec) noexcept;
  ~EmulatedDevice() override = default;
  int open(std::uint64_t capacity_bytes) noexcept;  // once, before anything else

  Kind kind() const noexcept override { return Kind::emulated; }
  std::string_view name() const noexcept override { return "emulated"; }
  std::uint64_t frame_bytes() const noexcept override;
  Memory memory() const noexcept override { return memory_.memory(); }
  bool orders_programs_work() const noexcept override { return lag_ns_ != 0; }

  int reserve_address(std::uint64_t bytes, std::byte** out) noexcept override;
  int release_address(std::byte* base, std::uint64_t bytes) noexcept override;
  int create_frame(Place place, Frame* out) noexcept override;
  int destroy_frame(Frame frame) noexcept override;
  int map(std::byte* at, std::span<const Frame> frames) noexcept override;
  int unmap(std::byte* at, std::uint64_t bytes) noexcept override;

  int pin(void* host, std::uint64_t bytes) noexcept override;
  int unpin(void* host) noexcept override;

  int create_stream(Stream* out) noexcept override;
  int destroy_stream(Stream stream) noexcept override;
  int create_event(Event* out) noexcept override;
  int destroy_event(Event event) noexcept override;
  int record(Event event, Stream stream) noexcept override;
  int wait(Stream stream, Event event) noexcept override;
  int query(Event event) noexcept override;
  int synchronize(Event event) noexcept override;

  int copy(Stream stream, void* to, const void* from, std::uint64_t bytes, Way way) noexcept override;
  int launch(Stream stream, const Kernel& kernel) noexcept override;
  int call_host(Stream stream, void (*function)(void*), void* argument) noexcept override;

  const char* error_text() const noexcept override;

  // Bytes that copies of that way have moved so far.
  std::uint64_t moved_bytes(Way way) const noexcept;

 private:
  StreamObject* find(Stream stream) noexcept;  // null: never given out
  EventObject* find(Event event) noexcept;
  EmulatedLink& link(Way way) noexcept;
  int push(Stream stream, StreamObject::Task task, bool is_brief, Ahead ahead) noexcept;
  int run_copy(void* to, const void* from, std::uint64_t bytes, Way way, Part part) noexcept;

  const std::uint64_t lag_ns_;
  EmulatedMemory memory_;
  HostPins pins_;
  EmulatedLink to_host_;
  EmulatedLink to_device_;
  EmulatedLink on_device_{0, 0};
  std::mutex mutex_;  // guards the two tables, not what is in them
  std::unordered_map<const EventObject*, std::unique_ptr<EventObject>> events_;
  // Last: streams finish their work, which uses the rest, before the rest goes. The key nullptr is the
  // default one.
  std::unordered_map<const StreamObject*, std::shared_ptr<StreamObject>> streams_;
};

// open_device() for the emulated kind: EINVAL for a capacity that parse_device() would refuse.
int open_emulated_device(const DeviceSpec& spec, std::unique_ptr<Device>* out, std::string* reason);

}  // namespace terrace::tiers::gpu
