// Opening a GPU where the driver, or CUDA itself, is missing: the program runs on and is told what helps.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>

#include "tiers/gpu/device.h"

using namespace terrace::tiers::gpu;

TEST_CASE("WithoutADriverTheReasonSaysWhatHelps") {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr) {
    puts("SKIP: this machine has a CUDA driver");
    return;
  }
  std::unique_ptr<Device> device;
  std::string reason;
  const int error = open_device(DeviceSpec{}, &device, &reason);
  CHECK((error == ENODEV || error == ENOTSUP));  // ENOTSUP: a build without the toolkit
  CHECK(device == nullptr);
  CHECK(reason.find(error == ENODEV ? "libcuda.so.1" : "no CUDA") != std::string::npos);
  CHECK(reason.find("emulated:8G") != std::string::npos);
  CHECK(open_device(DeviceSpec{}, &device, nullptr) == error);
}
