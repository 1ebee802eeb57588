// An engine on the CUDA device, whose driver is the fake one (tests/tiers/gpu/fake_cuda.h).
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "tests/liballoc/gpu/offload/engine_fixture.h"
#include "tiers/gpu/device.h"

namespace terrace::liballoc::offload::test {

template <class Function>
Function* of_the_driver(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(driver != nullptr);
  const auto function = reinterpret_cast<Function*>(dlsym(driver, name));
  REQUIRE(function != nullptr);
  return function;
}

// While it is closed nothing passes in the caller's stream, nor what waits for it: for 20 s at most.
class StreamGate {
 public:
  StreamGate() {
    terrace::tiers::gpu::DeviceSpec spec;
    std::string reason;
    REQUIRE(terrace::tiers::gpu::open_device(spec, &device_, &reason) == 0);
    const auto wait = [](void* self) {
      for (int i = 0; i < 20'000 && !static_cast<StreamGate*>(self)->open_; ++i) pause_ms(1);
    };
    REQUIRE(device_->call_host(nullptr, wait, this) == 0);
    REQUIRE(device_->create_event(&passed_) == 0);
    REQUIRE(device_->record(passed_, nullptr) == 0);
  }
  void open() {
    open_ = true;
    CHECK(device_->synchronize(passed_) == 0);
  }
  ~StreamGate() {
    open();
    device_->destroy_event(passed_);
  }
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;

 private:
  std::unique_ptr<terrace::tiers::gpu::Device> device_;
  terrace::tiers::gpu::Event passed_ = nullptr;
  std::atomic<bool> open_{false};
};

// The host has seen what the caller's stream did so far.
inline void wait_for_stream() { StreamGate().open(); }

inline bool returns(const Opened& engine, std::uint64_t bytes, std::uint64_t seed) {
  return survives(engine, bytes, seed, wait_for_stream);
}

inline Options cuda(std::uint64_t dram_bytes = 64 * mib, std::uint64_t nvme_bytes = 0) {
  return {.device = "cuda", .dram_bytes = dram_bytes, .nvme_bytes = nvme_bytes};
}

}  // namespace terrace::liballoc::offload::test
