// Runs the cases where the driver has a GPU, else says why not and ends with 77.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "tiers/gpu/device.h"

int main(int argc, char** argv) {
  using namespace terrace::tiers::gpu;
  std::unique_ptr<Device> device;
  std::string reason;
  if (open_device(DeviceSpec{}, &device, &reason) != 0) {
    std::printf("SKIP: %s\n", reason.c_str());
    return 77;
  }
  device.reset();
  return Catch::Session().run(argc, argv);
}
