// What only the emulated device promises: its capacity, its links, the limit on locked memory, and how a
// stream ends.
#include "tiers/gpu/emulated/device.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

#include "device_support.h"
#include "tiers/gpu/emulated/link.h"
#include "tiers/gpu/host_clock.h"

using namespace terrace::tiers::gpu;
using namespace terrace::tiers::gpu::test;

TEST_CASE("DeviceFramesAreChargedToTheCapacityAndHostFramesAreNot") {
  const auto device = open("emulated:4M");
  Frame frames[4];
  REQUIRE(device->create_frame(Place::device, &frames[0]) == 0);
  REQUIRE(device->create_frame(Place::device, &frames[1]) == 0);
  Frame untouched{77, Place::host};
  CHECK(device->create_frame(Place::device, &untouched) == ENOMEM);
  CHECK(untouched == Frame{77, Place::host});
  CHECK(device->memory().free_bytes == 0);
  REQUIRE(device->create_frame(Place::host, &frames[2]) == 0);
  CHECK(device->destroy_frame(frames[0]) == 0);
  CHECK(device->memory().free_bytes == 2 * mib);
  REQUIRE(device->create_frame(Place::device, &frames[3]) == 0);
  for (const Frame& frame : {frames[1], frames[2], frames[3]}) CHECK(device->destroy_frame(frame) == 0);
  CHECK(device->memory().free_bytes == device->memory().total_bytes);
}

TEST_CASE("TheHostReadsAndWritesMappedMemory") {
  const auto device = open("emulated:4M");
  const Area area(*device, 1);
  std::memset(area.at(), 9, 2 * mib);
  CHECK(get(*device, area.at(), 2 * mib) == Bytes(2 * mib, 9));
}

TEST_CASE("WhatIsNotMappedFaults") {
  const auto device = open("emulated:4M");
  const Area area(*device, 1, Place::device, 1);
  const pid_t child = fork();
  if (child == 0) {
    ::prlimit(0, RLIMIT_CORE, nullptr, nullptr);
    for (const int signal : {SIGSEGV, SIGBUS}) ::signal(signal, [](int) { _exit(3); });
    *reinterpret_cast<volatile char*>(area.frame_at(1)) = 1;
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 3));
}

TEST_CASE("AnIllegalAddressEndsTheStreamAndWhoWaitsForIt") {
  const auto device = open("emulated:8M");
  const Area area(*device, 1, Place::device, 1);
  const OwnStream faulty(*device);
  const OwnStream waiting(*device);
  const OwnStream apart(*device);
  const OwnEvent event(*device);
  Bytes content = pattern(100, 1);
  bool ran = false;
  const auto run = [](void* flag) { *static_cast<bool*>(flag) = true; };
  REQUIRE(device->copy(faulty, area.at(2 * mib - 50), content.data(), 100, Way::to_device) == 0);
  REQUIRE(device->call_host(faulty, run, &ran) == 0);
  REQUIRE(device->record(event, faulty) == 0);
  REQUIRE(device->wait(waiting, event) == 0);
  CHECK(device->synchronize(event) == EIO);
  CHECK(device->query(event) == EIO);
  CHECK(std::string(device->error_text()).find("Input/output error") != std::string::npos);
  CHECK_FALSE(ran);
  CHECK(finish(*device, waiting) == EIO);
  CHECK(finish(*device, apart) == 0);
}

TEST_CASE("WhatWasNeverGivenOutIsRefused") {
  const auto device = open("emulated:4M");
  int something = 0;
  const auto no_stream = reinterpret_cast<Stream>(&something);
  const auto no_event = reinterpret_cast<Event>(&something);
  CHECK(device->destroy_stream(nullptr) == EINVAL);
  CHECK(device->destroy_stream(no_stream) == EINVAL);
  CHECK(device->destroy_event(no_event) == EINVAL);
  CHECK(device->record(no_event, nullptr) == EINVAL);
  CHECK(device->query(no_event) == EINVAL);
  CHECK(device->synchronize(nullptr) == EINVAL);
  CHECK(device->copy(no_stream, &something, &something, 1, Way::on_device) == EINVAL);
  CHECK(device->destroy_frame({1, Place::device}) == EINVAL);
  CHECK(device->destroy_frame({}) == EINVAL);
}

TEST_CASE("AKernelRunsInItsStreamsTurn") {
  const auto device = open("emulated:4M");
  const Area area(*device, 1);
  const OwnStream stream(*device);
  Bytes content = pattern(1000, 2);
  REQUIRE(device->copy(stream, area.at(), content.data(), content.size(), Way::to_device) == 0);
  const Kernel negate{nullptr,
                      [](void* at) {
                        auto* const values = static_cast<std::uint8_t*>(at);
                        for (int i = 0; i < 1000; ++i) values[i] = static_cast<std::uint8_t>(~values[i]);
                      },
                      area.at()};
  REQUIRE(device->launch(stream, negate) == 0);
  CHECK(finish(*device, stream) == 0);
  for (std::uint8_t& value : content) value = static_cast<std::uint8_t>(~value);
  CHECK(get(*device, area.at(), content.size()) == content);
}

TEST_CASE("SlotsOfALinkFollowOneAnotherAndNeverOverlap") {
  EmulatedLink link(1'000'000'000, 0);  // a byte a nanosecond
  CHECK(link.book(1000, 500) == 1500);
  CHECK(link.book(1000, 500) == 2000);  // a second copy, asking at the same time
  CHECK(link.book(1500, 100) == 2100);  // the first one again: behind the second
  CHECK(link.book(5000, 10) == 5010);   // an idle link begins when it is asked
  EmulatedLink odd(3, 0);
  CHECK(odd.book(0, 1) == 333'333'334);  // rounded up
}

TEST_CASE("TwoCopiesOfOneWayTakeTurnsOnTheLink") {
  // Each asks for its next slot where its last one ended, as EmulatedLink::copy does.
  EmulatedLink link(1'000'000'000, 0);
  std::uint64_t ends[2] = {0, 0};
  for (int chunk = 0; chunk < 100; ++chunk) {
    std::uint64_t& earlier = *std::min_element(ends, ends + 2);
    earlier = link.book(earlier, 1000);
  }
  CHECK(std::max(ends[0], ends[1]) == 100'000);  // the rate is shared
  CHECK(std::min(ends[0], ends[1]) == 99'000);   // evenly
}

TEST_CASE("ACopyIsNeverFasterThanItsLink") {
  const auto device = open("emulated:8M,h2d=64M,d2h=64M,latency=1ms");
  auto& emulated = dynamic_cast<EmulatedDevice&>(*device);
  const Area area(*device, 2);
  const OwnStream streams[2] = {OwnStream(*device), OwnStream(*device)};
  const Bytes content = pattern(mib, 3);
  const std::uint64_t begin = now_ns();
  for (int i = 0; i < 2; ++i) {
    REQUIRE(device->copy(streams[i], area.frame_at(i), content.data(), mib, Way::to_device) == 0);
  }
  for (const OwnStream& stream : streams) CHECK(finish(*device, stream) == 0);
  // Two mebibytes over one link of 64 MiB/s, and the latency.
  CHECK(now_ns() - begin >= second_ns / 32 + 1'000'000);
  CHECK(emulated.moved_bytes(Way::to_device) == 2 * mib);
  CHECK(emulated.moved_bytes(Way::to_host) == 0);
  CHECK(get(*device, area.frame_at(1), mib) == content);
  CHECK(emulated.moved_bytes(Way::to_host) == mib);
}

namespace {

// In a child without privilege whose limit on locked memory is `limit`: what pin() answers.
int pin_under_limit(std::uint64_t limit, std::uint64_t bytes) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit lowered{limit, limit};
    if (setrlimit(RLIMIT_MEMLOCK, &lowered) != 0 || (geteuid() == 0 && setuid(65534) != 0)) _exit(200);
    HostPins pins;
    void* const host = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    _exit(pins.pin(host, bytes));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("TheLimitOnLockedMemoryIsEagainOrEperm") {
  CHECK(pin_under_limit(64 << 10, 64 << 10) == 0);
  CHECK(pin_under_limit(64 << 10, 128 << 10) == EAGAIN);
  CHECK(pin_under_limit(0, 64 << 10) == EPERM);
}

TEST_CASE("MemoryThatIsNotMappedIsNotPinned") {
  HostPins pins;
  void* const host = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(host, 8192);
  CHECK(pins.pin(host, 8192) == EINVAL);
}

TEST_CASE("ADeviceThatCannotBeMadeSaysWhy") {
  DeviceSpec spec;
  spec.kind = Kind::emulated;
  spec.capacity_bytes = 3 * mib;
  std::unique_ptr<Device> device;
  std::string reason;
  CHECK(open_device(spec, &device, &reason) == EINVAL);
  CHECK(reason.find("multiple of 2M") != std::string::npos);
  CHECK(device == nullptr);
}
