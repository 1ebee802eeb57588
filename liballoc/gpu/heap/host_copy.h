// A block's bytes in host memory, pinned where the system allows it, with their checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tiers/gpu/device.h"

namespace terrace::liballoc::gpu {

class HostCopy {
 public:
  // ENOMEM. Memory that may not be locked (EPERM, EAGAIN) is used unpinned: slower, correct.
  static int create(tiers::gpu::Device& device, std::uint64_t bytes, std::shared_ptr<HostCopy>* out);
  ~HostCopy();
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  // Queues the way out of `from` behind what is in the stream, then the checksum, then the event. On failure
  // the event is where the stream may still write here.
  int queue_out(tiers::gpu::Stream stream, const void* from);
  // Queues the way back and the event.
  int queue_back(tiers::gpu::Stream stream, void* to);
  // The latest of both has passed: 0, EBUSY or the device's error.
  int query() { return device_.query(event_); }
  // Work in the stream from now on runs behind it.
  int order(tiers::gpu::Stream stream) { return device_.wait(stream, event_); }
  int wait() { return device_.synchronize(event_); }

  // Whether the bytes are those that arrived here (XXH3-64). Once query() is 0.
  [[nodiscard]] bool intact() const;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  HostCopy(tiers::gpu::Device& device, std::uint64_t bytes) : device_(device), bytes_(bytes) {}

  tiers::gpu::Device& device_;
  std::uint64_t bytes_;
  std::byte* data_ = nullptr;
  bool pinned_ = false;
  tiers::gpu::Event event_ = nullptr;
  std::uint64_t checksum_ = 0;
};

}  // namespace terrace::liballoc::gpu
