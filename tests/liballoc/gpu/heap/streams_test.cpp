// The heap under real asynchrony: copies in flight on two streams while their blocks are freed and reused at
// once. A block that is reused too early shows in the bytes that come back. On the emulated device, or on the
// one that TERRACE_TEST_GPU names.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "liballoc/gpu/heap/heap.h"

namespace terrace::liballoc::gpu {
namespace {

using tiers::gpu::Device;
using tiers::gpu::Event;
using tiers::gpu::Stream;
using tiers::gpu::Way;

std::unique_ptr<Device> device_under_test() {
  const char* named = std::getenv("TERRACE_TEST_GPU");
  tiers::gpu::DeviceSpec spec;
  std::string reason;
  std::unique_ptr<Device> device;
  const char* text = named != nullptr ? named : "emulated:64M,latency=200us";
  if (tiers::gpu::parse_device(text, &spec, &reason) != 0 ||
      tiers::gpu::open_device(spec, &device, &reason) != 0) {
    std::printf("SKIP: %s\n", reason.c_str());
    return nullptr;
  }
  return device;
}

// One block's way: a pattern goes in, and out again, in the block's stream.
struct Trip {
  std::vector<unsigned> in, out;
  unsigned stream = 0;
};

// Made before anything is queued: the host is then far ahead of the device, and blocks are freed in flight.
std::vector<Trip> make_trips(unsigned first = 0) {
  std::mt19937_64 random(3);
  std::vector<Trip> trips(200);
  for (unsigned i = 0; i < trips.size(); ++i) {
    trips[i].stream = random() % 2;
    const std::uint64_t words = 1 + random() % (i % 4 == 0 ? 3 << 20 : 64 << 10);
    trips[i].in.assign(words, first + i);
    trips[i].out.assign(words, ~(first + i));
  }
  return trips;
}

constexpr std::uint64_t budget = std::uint64_t{64} << 20;

// All of a thread's trips in its own default stream, waited for. 0 or the first error.
int travel(Device* device, Heap* heap, std::vector<Trip>* trips) {
  const Stream stream = tiers::gpu::stream_of_this_thread;
  for (Trip& trip : *trips) {
    const std::uint64_t bytes = trip.in.size() * sizeof(unsigned);
    void* block = nullptr;
    int error = heap->allocate(bytes, stream, &block);
    if (error == 0) error = device->copy(stream, block, trip.in.data(), bytes, Way::to_device);
    if (error == 0) error = device->copy(stream, trip.out.data(), block, bytes, Way::to_host);
    if (error == 0) error = heap->free(block, stream);
    if (error != 0) return error;
  }
  Event end = nullptr;
  if (const int error = device->create_event(&end); error != 0) return error;
  int error = device->record(end, stream);
  if (error == 0) error = device->synchronize(end);
  device->destroy_event(end);
  return error;
}

}  // namespace

TEST_CASE("Blocks that threads free in their own default streams are never reused too early") {
  const auto device = device_under_test();
  if (device == nullptr) return;
  if (device->kind() != tiers::gpu::Kind::cuda) {
    std::printf("SKIP: the emulated device has no stream for each thread (TERRACE_TEST_GPU=cuda)\n");
    return;
  }
  Heap heap(*device);
  REQUIRE(heap.open(budget) == 0);
  std::vector<Trip> trips[3] = {make_trips(1000), make_trips(2000), make_trips(3000)};
  int errors[3] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] { errors[i] = travel(device.get(), &heap, &trips[i]); });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 3; ++i) {
    CHECK(errors[i] == 0);
    for (const Trip& trip : trips[i]) REQUIRE(trip.in == trip.out);
  }
}

TEST_CASE("Blocks freed with work in flight on two streams are never reused too early") {
  const auto device = device_under_test();
  if (device == nullptr) return;
  Heap heap(*device);
  REQUIRE(heap.open(budget) == 0);
  Stream streams[2];
  Event end[2];
  for (int i = 0; i < 2; ++i) {
    REQUIRE(device->create_stream(&streams[i]) == 0);
    REQUIRE(device->create_event(&end[i]) == 0);
  }
  std::vector<Trip> trips = make_trips();
  for (unsigned i = 0; i < trips.size(); ++i) {
    const Stream stream = streams[trips[i].stream];
    const std::uint64_t bytes = trips[i].in.size() * sizeof(unsigned);
    void* block = nullptr;
    REQUIRE(heap.allocate(bytes, stream, &block) == 0);
    REQUIRE(device->copy(stream, block, trips[i].in.data(), bytes, Way::to_device) == 0);
    const bool evicted = i % 16 == 3 && heap.evict(block, i % 32 == 3, stream) == 0;
    if (evicted) REQUIRE(heap.restore(block, stream) == 0);
    REQUIRE(device->copy(stream, trips[i].out.data(), block, bytes, Way::to_host) == 0);
    REQUIRE(heap.free(block, stream) == 0);
  }
  for (int i = 0; i < 2; ++i) {
    REQUIRE(device->record(end[i], streams[i]) == 0);
    REQUIRE(device->synchronize(end[i]) == 0);
  }
  for (const Trip& trip : trips) REQUIRE(trip.in == trip.out);
  CHECK(heap.statistics().stream_waits > 0);
  REQUIRE_THAT(heap.check_invariants(), Catch::Equals(""));
  for (int i = 0; i < 2; ++i) {
    device->destroy_event(end[i]);
    device->destroy_stream(streams[i]);
  }
}

}  // namespace terrace::liballoc::gpu
