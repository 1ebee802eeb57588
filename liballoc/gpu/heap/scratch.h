// Frames mapped at an address of their own for a while, so that bytes can be copied into them before they are
// mapped where they belong.
#pragma once

#include <span>

#include "tiers/gpu/device.h"

namespace terrace::liballoc::gpu {

class Scratch {
 public:
  explicit Scratch(tiers::gpu::Device& device) : device_(device) {}
  ~Scratch() { close(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Once. ENOMEM, or the device's error.
  int open(std::span<const tiers::gpu::Frame> frames) {
    bytes_ = frames.size() * device_.frame_bytes();
    if (const int error = device_.reserve_address(bytes_, &base_); error != 0) return error;
    const int error = device_.map(base_, frames);
    mapped_ = error == 0;
    return error;
  }
  // The frames are nobody's again; what uses the address has passed.
  int close() {
    if (base_ == nullptr) return 0;
    if (mapped_) {
      if (const int error = device_.unmap(base_, bytes_); error != 0) return error;
      mapped_ = false;
    }
    const int error = device_.release_address(base_, bytes_);
    if (error == 0) base_ = nullptr;
    return error;
  }
  [[nodiscard]] std::byte* data() const { return base_; }

 private:
  tiers::gpu::Device& device_;
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool mapped_ = false;
};

}  // namespace terrace::liballoc::gpu
