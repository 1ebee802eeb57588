#include "liballoc/gpu/heap/scratch.h"

namespace terrace::liballoc::gpu {

int Scratch::open(std::span<const tiers::gpu::Frame> frames) {
  bytes_ = frames.size() * device_.frame_bytes();
  if (const int error = device_.reserve_address(bytes_, &base_); error != 0) return error;
  const int error = device_.map(base_, frames);
  mapped_ = error == 0;
  return error;
}

int Scratch::close() {
  if (base_ == nullptr) return 0;
  if (mapped_) {
    if (const int error = device_.unmap(base_, bytes_); error != 0) return error;
    mapped_ = false;
  }
  const int error = device_.release_address(base_, bytes_);
  if (error == 0) base_ = nullptr;
  return error;
}

}  // namespace terrace::liballoc::gpu
