// The CUDA device: the conformance suite, and what is said when something is missing. One source for two
// programs: on the machine's driver (cuda_main.cpp, label gpu), and on the fake one of fake_cuda.cpp.
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "device_conformance.h"
#include "device_support.h"

using namespace terrace::tiers::gpu;
using namespace terrace::tiers::gpu::test;

TEST_CASE("CudaDevice conforms") {
  check_conformance([] { return open("cuda"); });
}

TEST_CASE("AGpuThatIsNotThereIsNamed") {
  DeviceSpec spec;
  spec.index = 900;
  std::unique_ptr<Device> device;
  std::string reason;
  CHECK(open_device(spec, &device, &reason) == ENODEV);
  CHECK(reason.find("no GPU 900") != std::string::npos);
}

#ifdef TERRACE_FAKE_CUDA

namespace {

// What the fake driver lacks for the rest of a block.
struct Lacking {
  explicit Lacking(const char* what) { setenv("FAKE_CUDA_LACKS", what, 1); }
  ~Lacking() { unsetenv("FAKE_CUDA_LACKS"); }
};

int open_cuda(std::string* reason) {
  std::unique_ptr<Device> device;
  return open_device(DeviceSpec{}, &device, reason);
}

}  // namespace

TEST_CASE("TheFakeDriverIsTheOneThatWasFound") { CHECK(open("cuda")->name() == "Fake GPU"); }

TEST_CASE("AGpuWithoutVirtualMemoryManagementIsRefused") {
  const Lacking lacking("vmm");
  std::string reason;
  CHECK(open_cuda(&reason) == ENODEV);
  CHECK(reason.find("Fake GPU: no virtual memory management") == 0);
}

TEST_CASE("ADriverWithoutFramesInHostMemoryRefusesThem") {
  const Lacking lacking("host");
  const auto device = open("cuda");
  Frame frame;
  CHECK(device->create_frame(Place::host, &frame) == ENOTSUP);
  CHECK(frame == Frame{});
  CHECK(std::strstr(device->error_text(), "CUDA 12.2") != nullptr);
}

TEST_CASE("AMappingThatFailsHalfWayLeavesNothing") {
  const auto device = open("cuda");
  const Area area(*device, 0, Place::device, 2);
  Frame frames[2];
  for (Frame& frame : frames) REQUIRE(device->create_frame(Place::device, &frame) == 0);
  {
    const Lacking lacking("access");
    CHECK(device->map(area.at(), frames) == EIO);
    CHECK(std::strstr(device->error_text(), "cuMemSetAccess") != nullptr);
  }
  CHECK(device->unmap(area.at(), 2 * mib) == ENOENT);
  CHECK(device->map(area.at(), frames) == 0);
  CHECK(device->unmap(area.at(), 4 * mib) == 0);
  for (const Frame& frame : frames) CHECK(device->destroy_frame(frame) == 0);
}

TEST_CASE("MoreFramesThanTheGpuHasAreEnomem") {
  const auto device = open("cuda");
  std::vector<Frame> frames;
  Frame frame;
  int error = 0;
  while ((error = device->create_frame(Place::device, &frame)) == 0 && frames.size() < 1000) {
    frames.push_back(frame);
  }
  CHECK(error == ENOMEM);
  CHECK(std::strstr(device->error_text(), "cuMemCreate") != nullptr);
  for (const Frame& each : frames) CHECK(device->destroy_frame(each) == 0);
}

TEST_CASE("AnIllegalAddressIsEio") {
  const auto device = open("cuda");
  const Area area(*device, 0, Place::device, 1);
  Stream stream = nullptr;
  REQUIRE(device->create_stream(&stream) == 0);
  Bytes content(10);
  REQUIRE(device->copy(stream, area.at(), content.data(), content.size(), Way::to_device) == 0);
  CHECK(finish(*device, stream) == EIO);
  CHECK(device->destroy_stream(stream) == EIO);
}

TEST_CASE("ALaunchHandsTheStreamOverAndTranslatesTheError") {
  const auto device = open("cuda");
  const OwnStream stream(*device);
  void* seen = nullptr;
  Kernel kernel{[](void* in, void* out) { return *static_cast<void**>(out) = in, 0; }, nullptr, &seen};
  CHECK(device->launch(stream, kernel) == 0);
  CHECK(seen == static_cast<Stream>(stream));
  kernel.cuda = [](void*, void*) { return 2; };  // cudaErrorMemoryAllocation
  CHECK(device->launch(stream, kernel) == ENOMEM);
}

#endif
