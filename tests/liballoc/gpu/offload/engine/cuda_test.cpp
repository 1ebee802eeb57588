// The engine on a CUDA device, whose driver is the fake one: streams order, the host does not wait, and the
// driver may be slow or fail.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/liballoc/gpu/offload/engine/cuda_fixture.h"
#include "tests/tiers/gpu/fake_cuda.h"

using namespace terrace::liballoc::offload::test;

namespace {

// While it lives, whoever page-locks waits.
class HeldPins {
 public:
  HeldPins() : hold_(of_the_driver<decltype(fake_cuda_hold_pins)>("fake_cuda_hold_pins")) { hold_(1); }
  ~HeldPins() { hold_(0); }
  HeldPins(const HeldPins&) = delete;
  HeldPins& operator=(const HeldPins&) = delete;

 private:
  decltype(&fake_cuda_hold_pins) hold_;
};

// Host memory of 16 chunks of a MiB each, all of it free.
void make_chunks(const Opened& engine) {
  const auto source = content(mib, 1);
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 16; ++i) {
    ids.push_back(engine.store(source));
    REQUIRE(engine.left(ids.back()) == 1);
  }
  // Once they are back nobody sums or copies them any more: release() frees their memory at once.
  std::vector<std::byte> back(mib);
  for (const std::uint64_t id : ids) REQUIRE(engine.fetch(id, back) == 0);
  wait_for_stream();
  for (const std::uint64_t id : ids) engine.release(id);
}

// Mappings of this process that prefer node 0, where the fake driver says that the device is. -1: the kernel
// has no nodes.
int mappings_on_its_node() {
  std::ifstream maps("/proc/self/numa_maps");
  if (!maps) return -1;
  int found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find(" prefer:0 ") != std::string::npos;
  return found;
}

bool comes_back(const Opened& engine, std::uint64_t id, const std::vector<std::byte>& expected) {
  std::vector<std::byte> back(expected.size());
  const int error = engine.fetch(id, back);
  wait_for_stream();
  return error == 0 && back == expected;
}

}  // namespace

TEST_CASE("EveryByteComesBackOnCuda") {
  const std::uint64_t nvme_bytes = GENERATE(std::uint64_t{0}, 256 * mib);
  const Opened engine(cuda(64 * mib, nvme_bytes));
  for (const std::uint64_t bytes : {std::uint64_t{1}, 4097 * kib, 20 * mib})
    CHECK(returns(engine, bytes, bytes));
  if (nvme_bytes != 0) CHECK(returns(engine, 100 * mib, 3));
  CHECK(engine.statistics().live == 0);
}

TEST_CASE("OverTheDriveOnCudaEveryByteComesBack") {
  const Opened engine(cuda(16 * mib, 256 * mib));
  std::vector<std::vector<std::byte>> sources;
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < 48; ++i) sources.push_back(content(i % 9 == 8 ? 11 * mib : mib, i));
  for (const auto& source : sources) ids.push_back(engine.store(source));
  for (const std::uint64_t id : ids) REQUIRE(engine.left(id) == 1);
  for (std::size_t i = ids.size(); i-- > 0;) {
    std::vector<std::byte> back(sources[i].size());
    REQUIRE(engine.fetch(ids[i], back) == 0);
    engine.release(ids[i]);
    wait_for_stream();
    CHECK((back == sources[i]));
  }
}

TEST_CASE("WhileMemoryIsPagelockedNobodyWaits") {
  const Opened engine(cuda());
  const auto small = content(64 * kib, 1);
  const auto large = content(8 * mib, 2);
  const std::uint64_t first = engine.store(small);
  REQUIRE(engine.left(first) == 1);
  const auto waiting = of_the_driver<decltype(fake_cuda_pins_waiting)>("fake_cuda_pins_waiting");
  std::uint64_t grown = 0;
  {
    const HeldPins held;
    grown = engine.store(large);
    for (int i = 0; i < 5000 && waiting() == 0; ++i) pause_ms(1);
    CHECK(waiting() == 1);
    CHECK(terrace_offload_left(engine.get(), grown) == 0);
    CHECK(engine.statistics().waiting_bytes == 8 * mib);
    std::vector<std::byte> back(small.size());
    CHECK(engine.fetch(first, back) == 0);
    CHECK(engine.left(engine.store(small)) == 1);  // there is room for this one
    CHECK(waiting() == 1);                         // and all of it was done meanwhile
  }
  CHECK(engine.left(grown) == 1);
  CHECK(engine.statistics().waiting_bytes == 0);
}

TEST_CASE("WhatWaitsForMemoryIsHandedBackOrForgotten") {
  const Opened engine(cuda());
  const auto large = content(8 * mib, 2);
  std::vector<std::byte> back(large.size());
  const HeldPins held;
  const std::uint64_t id = engine.store(large);
  CHECK(engine.fetch(id, back) == 0);
  wait_for_stream();
  CHECK((back == large));
  engine.release(id);
  engine.store(large);
  CHECK(terrace_offload_end_step(engine.get()) == 0);
  CHECK(engine.statistics().live == 0);
}

TEST_CASE("MemoryThatIsNotPagelockedIsTheReason") {
  const bool with_drive = GENERATE(true, false);
  const Opened engine(cuda(64 * mib, with_drive ? 256 * mib : 0));
  const auto large = content(8 * mib, 2);
  setenv("FAKE_CUDA_LACKS", "pins", 1);
  const std::uint64_t id = engine.store(large);
  const int left = engine.left(id);
  unsetenv("FAKE_CUDA_LACKS");
  if (!with_drive) CHECK(left == -ENOMEM);
  if (with_drive) CHECK(left == -ENOMEM);  // what is page-locked is too little for a way to the drive
  engine.release(id);
  REQUIRE(terrace_offload_end_step(engine.get()) == 0);
  CHECK(returns(engine, 8 * mib, 3));  // asked again in the next step
}

// Two chunks of host memory, so that the copy has two pieces, of which the second is refused.
TEST_CASE("AfterACopyThatFailsHalfWayItsMemoryIsNobodysUntilTheFirstHalfHasPassed") {
  const Opened engine(cuda(16 * mib));
  make_chunks(engine);
  const auto all = content(16 * mib, 2);
  const auto small = content(mib, 3);
  StreamGate gate;
  of_the_driver<decltype(fake_cuda_fail_copy)>("fake_cuda_fail_copy")(2);
  std::uint64_t id = 0;
  CHECK(engine.try_store(all, &id) == -EINVAL);
  const std::uint64_t next = engine.store(small);
  CHECK(terrace_offload_left(engine.get(), next) == 0);
  CHECK(engine.statistics().waiting_bytes == small.size());
  gate.open();
  CHECK(engine.left(next) == 1);
  CHECK(engine.statistics().waiting_bytes == 0);
  CHECK(comes_back(engine, next, small));
}

TEST_CASE("ACopyBackThatFailsHalfWayIsAnErrorAndItsMemoryStaysUntilThen") {
  const Opened engine(cuda(16 * mib));
  const auto all = content(16 * mib, 2);
  make_chunks(engine);
  const std::uint64_t id = engine.store(all);
  REQUIRE(engine.left(id) == 1);
  std::vector<std::byte> back(all.size());
  StreamGate gate;
  of_the_driver<decltype(fake_cuda_fail_copy)>("fake_cuda_fail_copy")(3);
  CHECK(engine.fetch(id, back) == -EINVAL);
  engine.release(id);
  const auto small = content(mib, 3);
  const std::uint64_t next = engine.store(small);
  CHECK(engine.statistics().waiting_bytes == small.size());
  gate.open();
  CHECK(engine.left(next) == 1);
}

// The stream is held up, so that a wait of the host would not end; what comes behind the gate overwrites the
// source.
TEST_CASE("TheStreamWaitsForTheCopyOfASourceThatLeaves") {
  const char* const compress = GENERATE("off", "zvc", "auto");
  Options options = cuda();
  options.compress = compress;
  const Opened engine(options);
  const auto expected = content(5 * mib, 1);
  const std::vector<std::byte> other(expected.size(), std::byte{0x5a});
  auto source = expected;
  terrace::tiers::gpu::DeviceSpec spec;
  std::unique_ptr<terrace::tiers::gpu::Device> device;
  REQUIRE(terrace::tiers::gpu::open_device(spec, &device, nullptr) == 0);
  REQUIRE(returns(engine, 5 * mib, 2));  // host memory is there
  StreamGate gate;
  const std::uint64_t id = engine.store(source);
  CHECK(terrace_offload_left(engine.get(), id) == 0);
  CHECK(engine.leave(id) == 1);
  CHECK(terrace_offload_left(engine.get(), id) == 1);
  REQUIRE(device->copy(nullptr, source.data(), other.data(), other.size(),
                       terrace::tiers::gpu::Way::on_device) == 0);
  gate.open();
  std::vector<std::byte> back(expected.size());
  CHECK(engine.fetch(id, back) == 0);
  engine.release(id);
  wait_for_stream();
  CHECK((back == expected));
  CHECK((source == other));
  CHECK(engine.statistics().handed_back == 0);
}

TEST_CASE("WhatWaitsForMemoryCannotLeaveYet") {
  const Opened engine(cuda());
  const auto large = content(8 * mib, 2);
  std::uint64_t id = 0;
  {
    const HeldPins held;
    id = engine.store(large);
    CHECK(terrace_offload_leave(engine.get(), id, nullptr) == 0);
  }
  CHECK(engine.left(id) == 1);
  CHECK(engine.leave(id) == 1);
  engine.release(id);
}

// As while a stream of the program is captured: whether a copy has passed cannot be said.
TEST_CASE("AnEventThatCannotBeAskedHasNotPassed") {
  const Opened engine(cuda(16 * mib));
  const auto first = content(10 * mib, 1);
  const auto second = content(10 * mib, 2);
  REQUIRE(returns(engine, first.size(), 3));
  const auto fail_queries = of_the_driver<decltype(fake_cuda_fail_queries)>("fake_cuda_fail_queries");
  StreamGate gate;
  const std::uint64_t leaving = engine.store(first);
  fail_queries(1);
  const int left = terrace_offload_left(engine.get(), leaving);
  engine.release(leaving);
  const std::uint64_t next = engine.store(second);  // in the same memory, which is still written to
  const std::uint64_t waiting_bytes = engine.statistics().waiting_bytes;
  fail_queries(0);
  CHECK(left == 0);
  CHECK(waiting_bytes == second.size());
  gate.open();
  CHECK(engine.left(next) == 1);
  CHECK(comes_back(engine, next, second));
}

TEST_CASE("TheEnginesThreadsBreakNoCaptureOfTheProgram") {
  const char* const compress = GENERATE("off", "zvc");
  of_the_driver<decltype(fake_cuda_this_is_the_programs_thread)>("fake_cuda_this_is_the_programs_thread")();
  const auto broken =
      of_the_driver<decltype(fake_cuda_calls_that_break_captures)>("fake_cuda_calls_that_break_captures");
  const int before = broken();
  {
    Options options = cuda(16 * mib, 256 * mib);
    options.compress = compress;
    const Opened engine(options);
    for (const std::uint64_t bytes : {64 * kib, 9 * mib, 40 * mib}) CHECK(returns(engine, bytes, bytes));
    std::vector<std::uint64_t> ids;
    const auto source = content(3 * mib, 4);
    for (int i = 0; i < 12; ++i) ids.push_back(engine.store(source));  // some go on to the drive
    for (const std::uint64_t id : ids) CHECK(engine.left(id) == 1);
  }
  CHECK(broken() == before);
}

// Its copy out is still under way, so the memory of what was released is not free yet.
TEST_CASE("AStoreRightAfterAReleaseWaitsForTheMemory") {
  const char* compress = GENERATE("off", "zvc");
  Options options = cuda(16 * mib);
  options.compress = compress;
  const Opened engine(options);
  const auto first = content(10 * mib, 1);
  const auto second = content(10 * mib, 2);
  REQUIRE(returns(engine, first.size(), 3));
  StreamGate gate;
  engine.release(engine.store(first));
  const std::uint64_t id = engine.store(second);
  CHECK(terrace_offload_left(engine.get(), id) == 0);
  gate.open();
  CHECK(engine.left(id) == 1);
  CHECK(comes_back(engine, id, second));
}

TEST_CASE("HostMemoryComesFromTheDevicesNode") {
  const int before = mappings_on_its_node();
  if (before < 0) {
    std::printf("SKIP: this kernel has no /proc/self/numa_maps\n");
    return;
  }
  const Opened other({.device = "emulated:1G"});
  CHECK(survives(other, mib, 1));
  CHECK(mappings_on_its_node() == before);  // nobody said where that one is
  const Opened engine(cuda());
  CHECK(returns(engine, 3 * mib, 2));
  CHECK(mappings_on_its_node() > before);
}
