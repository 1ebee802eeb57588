// The emulated device whose default stream lags behind the host: what is queued completes later, in order,
// and memory that is given away too early is read as whoever came next left it.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <thread>

#include "device_support.h"
#include "tiers/gpu/emulated/device.h"
#include "tiers/gpu/host_clock.h"

using namespace terrace::tiers::gpu;
using namespace terrace::tiers::gpu::test;

namespace {

constexpr std::uint64_t lag_ns = 400'000'000;  // longer than a busy machine holds up a few calls

std::unique_ptr<Device> lagging() { return open("emulated:16M,lag=400ms"); }

std::uint64_t copied_out(const Device& device) {
  return dynamic_cast<const EmulatedDevice&>(device).moved_bytes(Way::to_host);
}

// Something is queued behind what the host has done so far with the memory of a copy that is queued already;
// it tells a race detector that the lag is an order.
void done_before_the_stream_is_there(Device& device) {
  const OwnEvent event(device);
  REQUIRE(device.record(event, nullptr) == 0);
}

// `source` starts its way out behind what is in the default stream; *done passes when it is in `to`.
void queue_out(Device& device, Stream out, const Bytes& source, Bytes* to, Event ready, Event done) {
  REQUIRE(device.record(ready, nullptr) == 0);
  REQUIRE(device.wait(out, ready) == 0);
  REQUIRE(device.copy(out, to->data(), source.data(), source.size(), Way::to_host) == 0);
  REQUIRE(device.record(done, out) == 0);
}

}  // namespace

TEST_CASE("AnEventOfALaggingStreamPassesWhenTheStreamGetsThere") {
  const auto device = lagging();
  const OwnEvent event(*device);
  const std::uint64_t begin = now_ns();
  REQUIRE(device->record(event, nullptr) == 0);
  CHECK(device->query(event) == EBUSY);
  CHECK(device->synchronize(event) == 0);
  CHECK(now_ns() - begin >= lag_ns);
  CHECK(device->query(event) == 0);
}

TEST_CASE("WorkInALaggingStreamKeepsItsOrder") {
  const auto device = lagging();
  struct Turns {
    std::atomic<int> taken{0};
    int first = 0, second = 0;
  } turns;
  const auto first = [](void* all) { static_cast<Turns*>(all)->first = ++static_cast<Turns*>(all)->taken; };
  const auto second = [](void* all) { static_cast<Turns*>(all)->second = ++static_cast<Turns*>(all)->taken; };
  REQUIRE(device->call_host(nullptr, first, &turns) == 0);
  REQUIRE(device->call_host(nullptr, second, &turns) == 0);
  CHECK(turns.taken == 0);
  REQUIRE(finish(*device, nullptr) == 0);
  CHECK(turns.first == 1);
  CHECK(turns.second == 2);
}

TEST_CASE("OtherStreamsDoNotLag") {
  const auto device = open("emulated:4M,lag=10s");
  const OwnStream stream(*device);
  const Bytes source = pattern(mib, 1);
  Bytes to(mib);
  REQUIRE(device->copy(stream, to.data(), source.data(), mib, Way::to_host) == 0);
  CHECK(finish(*device, stream) == 0);
  CHECK((to == source));
  CHECK(device->orders_programs_work());
  CHECK_FALSE(open("emulated:4M")->orders_programs_work());
}

TEST_CASE("ACopyBehindALaggingStreamStartsOnlyThen") {
  const auto device = lagging();
  const OwnStream out(*device);
  const OwnEvent ready(*device), done(*device);
  const Bytes source = pattern(mib, 1);
  Bytes to(mib);
  const std::uint64_t begin = now_ns();
  queue_out(*device, out, source, &to, ready, done);
  CHECK(device->query(done) == EBUSY);
  CHECK(copied_out(*device) == 0);
  CHECK((to == Bytes(mib)));
  done_before_the_stream_is_there(*device);
  CHECK(device->synchronize(done) == 0);
  CHECK(now_ns() - begin >= lag_ns);
  CHECK((to == source));
}

// The error that a job on a GPU makes when it gives a source away before its copy, or an order, is there.
TEST_CASE("AnOverwrittenSourceIsCopiedAsItIsWhenTheStreamGetsThere") {
  const auto device = lagging();
  const OwnStream out(*device);
  const OwnEvent ready(*device), done(*device);
  Bytes source = pattern(mib, 1);
  Bytes to(mib);
  queue_out(*device, out, source, &to, ready, done);
  std::fill(source.begin(), source.end(), std::uint8_t{9});
  done_before_the_stream_is_there(*device);
  CHECK(device->synchronize(done) == 0);
  CHECK((to == source));
}

TEST_CASE("BehindAWaitOfTheLaggingStreamASourceMayBeOverwritten") {
  const char* const device_text = GENERATE("emulated:16M,lag=400ms", "emulated:16M,lag=400ms,d2h=64M");
  const auto device = open(device_text);
  const OwnStream out(*device);
  const OwnEvent ready(*device), done(*device), later(*device);
  const Bytes content = pattern(mib, 1);
  Bytes source = content;
  Bytes to(mib);
  queue_out(*device, out, source, &to, ready, done);
  const std::uint64_t begin = now_ns();
  REQUIRE(device->wait(nullptr, done) == 0);
  std::fill(source.begin(), source.end(), std::uint8_t{9});
  REQUIRE(device->record(later, nullptr) == 0);
  CHECK(device->query(done) == EBUSY);  // the host did not wait
  CHECK(copied_out(*device) == 0);
  CHECK(device->synchronize(later) == 0);
  CHECK(now_ns() - begin >= lag_ns);
  CHECK(device->query(done) == 0);
  CHECK((to == content));
  CHECK(copied_out(*device) == mib);
}

TEST_CASE("AWaitReachesThroughTheStreamsThatItsEventWaitsFor") {
  const auto device = lagging();
  const OwnStream out(*device), in(*device);
  const OwnEvent ready(*device), left(*device), arrived(*device);
  const Bytes source = pattern(3 * mib, 1);
  Bytes host(3 * mib), back(3 * mib);
  queue_out(*device, out, source, &host, ready, left);
  REQUIRE(device->wait(in, left) == 0);
  REQUIRE(device->copy(in, back.data(), host.data(), back.size(), Way::to_device) == 0);
  REQUIRE(device->record(arrived, in) == 0);
  REQUIRE(device->wait(nullptr, arrived) == 0);
  CHECK((back == source));  // what the program does from now on sees it
  CHECK(device->query(left) == EBUSY);
  CHECK(device->synchronize(arrived) == 0);
}

TEST_CASE("MemoryUnmappedUnderQueuedWorkEndsTheStreamThatReadsIt") {
  const bool ordered = GENERATE(true, false);
  const auto device = lagging();
  Stream out = nullptr;
  REQUIRE(device->create_stream(&out) == 0);
  const OwnEvent ready(*device), done(*device);
  const Area area(*device, 1);
  std::memset(area.at(), 7, 2 * mib);
  Bytes to(2 * mib);
  REQUIRE(device->record(ready, nullptr) == 0);
  REQUIRE(device->wait(out, ready) == 0);
  REQUIRE(device->copy(out, to.data(), area.at(), to.size(), Way::to_host) == 0);
  REQUIRE(device->record(done, out) == 0);
  if (ordered) REQUIRE(device->wait(nullptr, done) == 0);
  REQUIRE(device->unmap(area.at(), 2 * mib) == 0);
  CHECK(device->synchronize(done) == (ordered ? 0 : EIO));
  CHECK((to == Bytes(2 * mib, ordered ? std::uint8_t{7} : std::uint8_t{0})));
  CHECK(device->destroy_stream(out) == 0);
}

TEST_CASE("ThreadsThatWaitAtOnceFindTheBytesMoved") {
  const auto device = open("emulated:16M,lag=1ms");  // so short that turns come while bytes are moved ahead
  const OwnStream out(*device);
  std::atomic<int> wrong{0};
  const auto program = [&](std::uint8_t seed) {
    const OwnEvent ready(*device), done(*device);
    for (int round = 0; round < 100; ++round) {
      const Bytes content = pattern(100'000, static_cast<std::uint8_t>(seed + round));
      Bytes source = content;
      Bytes to(content.size());
      int error = device->record(ready, nullptr);
      if (error == 0) error = device->wait(out, ready);
      if (error == 0) error = device->copy(out, to.data(), source.data(), source.size(), Way::to_host);
      if (error == 0) error = device->record(done, out);
      if (error == 0) error = device->wait(nullptr, done);
      std::fill(source.begin(), source.end(), std::uint8_t{9});
      if (error == 0) error = device->synchronize(done);
      if (error != 0 || to != content) wrong++;
    }
  };
  std::thread other(program, std::uint8_t{100});
  program(1);
  other.join();
  CHECK(wrong == 0);
}

TEST_CASE("AnErrorThatAWaitFindsAheadIsTheStreamsInItsTurn") {
  const auto device = lagging();
  Stream out = nullptr;
  REQUIRE(device->create_stream(&out) == 0);
  const OwnEvent ready(*device), done(*device);
  const Area area(*device, 0, Place::device, 1);
  Bytes to(100);
  REQUIRE(device->record(ready, nullptr) == 0);
  REQUIRE(device->wait(out, ready) == 0);
  REQUIRE(device->copy(out, to.data(), area.at(), to.size(), Way::to_host) == 0);
  REQUIRE(device->record(done, out) == 0);
  REQUIRE(device->wait(nullptr, done) == 0);
  CHECK(device->query(done) == EBUSY);
  CHECK(device->synchronize(done) == EIO);
  CHECK(finish(*device, nullptr) == EIO);
  CHECK(device->destroy_stream(out) == 0);
}
