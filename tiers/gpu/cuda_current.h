// For the duration of a block the device's context is the calling thread's; before and after, the thread's
// own is.
#pragma once

#include "tiers/gpu/cuda_device.h"

namespace terrace::tiers::gpu {

class CudaDevice::Current {
 public:
  Current(const CudaDriver& driver, CUcontext context) noexcept
      : driver_(driver), pushed_(driver.context_push(context) == CUDA_SUCCESS) {}
  ~Current() {
    CUcontext ours = nullptr;
    if (pushed_) driver_.context_pop(&ours);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const CudaDriver& driver_;
  const bool pushed_;  // else the call itself fails and says why
};

}  // namespace terrace::tiers::gpu
