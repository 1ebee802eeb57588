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
  int open(std::span<const tiers::gpu::Frame> frames);
  // The frames are nobody's again; what uses the address has passed.
  int close();
  [[nodiscard]] std::byte* data() const { return base_; }

 private:
  tiers::gpu::Device& device_;
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool mapped_ = false;
};

}  // namespace terrace::liballoc::gpu
