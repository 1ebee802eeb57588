// The doubles do what their headers say, since other tests believe them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>

#include "support.h"
#include "tiers/adaptors/failing_adaptor.h"
#include "tiers/adaptors/meter_adaptor.h"
#include "tiers/adaptors/paced_adaptor.h"
#include "tiers/adaptors/slow_adaptor.h"
#include "tiers/adaptors/trace_adaptor.h"
#include "tiers/adaptors/write_lease_adaptor.h"
#include "tiers/memory/dram_tier.h"
#include "tiers/memory/null_tier.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

using Fault = FailingAdaptor::Operation;
using Call = TraceAdaptor::Operation;

// A DRAM tier with one extent that holds seed 1.
struct Fixture {
  Fixture() {
    REQUIRE(dram.open(4 * mib, 8) == 0);
    REQUIRE(dram.reserve(buffer.bytes(), &extent) == 0);
    buffer.fill(1);
    REQUIRE(write(dram, extent, buffer) == 0);
  }
  DramTier dram;
  Extent extent;
  Buffer buffer{64 * kib};
};

bool readable(int fd) {
  pollfd waited{fd, POLLIN, 0};
  return ::poll(&waited, 1, 0) == 1;
}

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

int differing_bits(const Buffer& one, const Buffer& other) {
  int bits = 0;
  for (std::uint64_t i = 0; i < one.bytes(); ++i) bits += __builtin_popcount(*one.at(i) ^ *other.at(i));
  return bits;
}

}  // namespace

TEST_CASE("Null forgets writes and refuses reads") {
  NullTier tier;
  REQUIRE(tier.open(mib) == 0);
  Extent extent;
  REQUIRE(tier.reserve(64 * kib, &extent) == 0);
  Buffer buffer(64 * kib);
  CHECK(write(tier, extent, buffer) == 0);
  CHECK(read(tier, extent, buffer) == EIO);
  CHECK(tier.space().used_bytes == 64 * kib);
  tier.release(extent);
  CHECK(tier.space().used_bytes == 0);
}

TEST_CASE("Null with zeros reads zeros") {
  NullTier tier;
  REQUIRE(tier.open(mib, NullTier::Contents::zeros) == 0);
  Buffer buffer(64 * kib);
  buffer.fill(1);
  CHECK(read(tier, {0, 64 * kib}, buffer) == 0);
  CHECK(differing_bits(buffer, Buffer(64 * kib)) == 0);
}

TEST_CASE("Tiers that finish at once refuse a queue out of range") {
  NullTier tier;
  CHECK(tier.open(mib, NullTier::Contents::none, 0) == EINVAL);
  CHECK(tier.open(mib, NullTier::Contents::none, max_queue_depth + 1) == EINVAL);
  CHECK(tier.open(1) == EINVAL);
  CHECK(tier.open(mib) == 0);
}

TEST_CASE("Dram gives the memory of a released extent back") {
  Fixture f;
  f.dram.release(f.extent);
  Extent again;
  REQUIRE(f.dram.reserve(f.buffer.bytes(), &again) == 0);
  REQUIRE(again == f.extent);
  REQUIRE(read(f.dram, again, f.buffer) == 0);
  CHECK(differing_bits(f.buffer, Buffer(f.buffer.bytes())) == 0);
}

TEST_CASE("ReleaseOfWhatIsNotReserved stops a debug build and is ignored otherwise") {
  Fixture f;
  const int result = in_child([&] {
    ::signal(SIGABRT, SIG_DFL);
    f.dram.release({mib, mib});
    Buffer back(f.buffer.bytes());
    return read(f.dram, f.extent, back) == 0 && back.holds(1) ? 0 : 1;
  });
#ifdef NDEBUG
  CHECK(result == 0);
#else
  CHECK(result == 200 + SIGABRT);
#endif
}

TEST_CASE("Names of adaptors nest") {
  Fixture f;
  FailingAdaptor failing(f.dram);
  TraceAdaptor trace(failing);
  CHECK(std::string(trace.name()) == "trace(failing(dram))");
  CHECK(std::string(trace.io()) == "memcpy");
}

TEST_CASE("Trace records calls in order with their results") {
  Fixture f;
  TraceAdaptor trace(f.dram);
  Extent extent;
  REQUIRE(trace.reserve(block_bytes, &extent) == 0);
  CHECK(trace.reserve(64 * mib, &extent) == ENOSPC);
  REQUIRE(write(trace, extent, f.buffer) == 0);
  trace.release(extent);
  REQUIRE(trace.calls() == 5);
  CHECK(trace.call(0).operation == Call::reserve);
  CHECK(trace.call(0).extent == extent);
  CHECK(trace.call(1).result == ENOSPC);
  CHECK(trace.call(2).operation == Call::submit);
  CHECK(trace.call(2).direction == Direction::write);
  CHECK(trace.call(3).operation == Call::complete);
  CHECK(trace.call(3).token == 7);
  CHECK(trace.call(4).operation == Call::release);
  CHECK(trace.count(Call::reserve) == 2);
  trace.clear();
  CHECK(trace.calls() == 0);
  CHECK(trace.count(Call::reserve) == 0);
}

TEST_CASE("Trace keeps the last calls when there are many") {
  Fixture f;
  TraceAdaptor trace(f.dram);
  for (std::size_t i = 0; i < TraceAdaptor::kept_calls; ++i) CHECK(trace.submit({}) == EINVAL);
  Extent extent;
  REQUIRE(trace.reserve(block_bytes, &extent) == 0);
  CHECK(trace.calls() == TraceAdaptor::kept_calls + 1);
  CHECK(trace.call(trace.calls() - 1).operation == Call::reserve);
  CHECK(trace.count(Call::submit) == TraceAdaptor::kept_calls - 1);
}

TEST_CASE("The nth call fails and no other") {
  Fixture f;
  FailingAdaptor tier(f.dram);
  Extent extent;
  tier.fail_nth(Fault::reserve, 2, ENOSPC);
  CHECK(tier.reserve(block_bytes, &extent) == 0);
  CHECK(tier.reserve(block_bytes, &extent) == ENOSPC);
  CHECK(tier.reserve(block_bytes, &extent) == 0);
  tier.fail_nth(Fault::write, 1, EIO);
  tier.fail_nth(Fault::read, 2, ENODATA);
  CHECK(write(tier, f.extent, f.buffer) == EIO);
  CHECK(write(tier, f.extent, f.buffer) == 0);
  CHECK(read(tier, f.extent, f.buffer) == 0);
  CHECK(read(tier, f.extent, f.buffer) == ENODATA);
  CHECK_FALSE(f.buffer.holds(1));
  CHECK(read(tier, f.extent, f.buffer) == 0);
  CHECK(f.buffer.holds(1));
}

TEST_CASE("All calls fail from the nth on, until healed") {
  Fixture f;
  FailingAdaptor tier(f.dram);
  tier.fail_from(Fault::write, 2, ENOSPC);
  CHECK(write(tier, f.extent, f.buffer) == 0);
  for (int i = 0; i < 3; ++i) CHECK(write(tier, f.extent, f.buffer) == ENOSPC);
  tier.heal();
  CHECK(write(tier, f.extent, f.buffer) == 0);
}

TEST_CASE("A refused submit leaves nothing in flight") {
  Fixture f;
  FailingAdaptor tier(f.dram);
  tier.fail_nth(Fault::submit, 1, EAGAIN);
  CHECK(tier.submit({Direction::read, f.extent, f.buffer.data(), 0}) == EAGAIN);
  CHECK(tier.in_flight() == 0);
  CHECK(read(tier, f.extent, f.buffer) == 0);
}

TEST_CASE("CorruptedReadIsSilentAndOneBit") {
  Fixture f;
  FailingAdaptor tier(f.dram);
  tier.flip_bit_in_nth_read(2, 8 * 1000 + 3);
  Buffer back(f.buffer.bytes());
  REQUIRE(read(tier, f.extent, back) == 0);
  CHECK(back.holds(1));
  REQUIRE(read(tier, f.extent, back) == 0);
  CHECK(differing_bits(back, f.buffer) == 1);
  CHECK((*back.at(1000) ^ *f.buffer.at(1000)) == 1 << 3);
  REQUIRE(read(tier, f.extent, back) == 0);
  CHECK(back.holds(1));
}

TEST_CASE("LostDeviceIsEioFromEverything, in flight included") {
  Fixture f;
  FailingAdaptor tier(f.dram);
  REQUIRE(tier.submit({Direction::write, f.extent, f.buffer.data(), 1}) == 0);
  tier.lose_device();
  const std::vector<Completion> done = finish(tier);
  REQUIRE(done.size() == 1);
  CHECK(done[0].error == EIO);
  Extent extent;
  CHECK(tier.reserve(block_bytes, &extent) == EIO);
  CHECK(write(tier, f.extent, f.buffer) == EIO);
  CHECK(read(tier, f.extent, f.buffer) == EIO);
  tier.heal();
  CHECK(read(tier, f.extent, f.buffer) == 0);
  CHECK(f.buffer.holds(1));
}

TEST_CASE("Slow holds a completion back until it is due") {
  Fixture f;
  constexpr std::uint64_t hour_ns = 3'600'000'000'000;
  SlowAdaptor tier(f.dram, {.latency_ns = hour_ns, .bytes_per_second = 0});
  REQUIRE(tier.open() == 0);
  REQUIRE(tier.submit({Direction::read, f.extent, f.buffer.data(), 1}) == 0);
  Completion done;
  CHECK(tier.poll({&done, 1}) == 0);
  CHECK(tier.in_flight() == 1);
  CHECK_FALSE(readable(tier.wait_fd()));
}

TEST_CASE("Slow is never early, neither by latency nor by bandwidth") {
  Fixture f;
  SlowAdaptor tier(f.dram, {.latency_ns = 2'000'000, .bytes_per_second = 64 * kib * 200});
  REQUIRE(tier.open() == 0);
  const std::uint64_t start_ns = now_ns();
  REQUIRE(tier.submit({Direction::read, f.extent, f.buffer.data(), 1}) == 0);
  REQUIRE(tier.submit({Direction::read, f.extent, f.buffer.data(), 2}) == 0);
  const std::vector<Completion> done = finish(tier);
  // Two transfers of 5 ms each share the device, and the latency comes on top.
  CHECK(now_ns() - start_ns >= 12'000'000);
  REQUIRE(done.size() == 2);
  CHECK(done[0].token == 1);
  CHECK(done[1].token == 2);
  CHECK(f.buffer.holds(1));
}

TEST_CASE("Slow stays readable while a due completion is not taken") {
  Fixture f;
  SlowAdaptor tier(f.dram, {});
  REQUIRE(tier.open() == 0);
  CHECK(tier.open() == EBUSY);
  CHECK_FALSE(readable(tier.wait_fd()));
  REQUIRE(tier.submit({Direction::read, f.extent, f.buffer.data(), 1}) == 0);
  REQUIRE(tier.submit({Direction::read, f.extent, f.buffer.data(), 2}) == 0);
  for (int left = 2; left > 0; --left) {
    pollfd waited{tier.wait_fd(), POLLIN, 0};
    CHECK(::poll(&waited, 1, 30'000) == 1);
    Completion done;
    CHECK(tier.poll({&done, 1}) == 1);
  }
  CHECK_FALSE(readable(tier.wait_fd()));
}

TEST_CASE("Slow in a child leaves the parent's timer alone") {
  Fixture f;
  SlowAdaptor tier(f.dram, {.latency_ns = 20'000'000, .bytes_per_second = 0});
  REQUIRE(tier.open() == 0);
  REQUIRE(tier.submit({Direction::read, f.extent, f.buffer.data(), 1}) == 0);
  const int result = in_child([&] {
    Completion none;
    return tier.reopen_after_fork() != 0 ? 1 : static_cast<int>(tier.poll({&none, 1}));
  });
  CHECK(result == 0);
  pollfd waited{tier.wait_fd(), POLLIN, 0};
  CHECK(::poll(&waited, 1, 30'000) == 1);
  CHECK(finish(tier).size() == 1);
}

TEST_CASE("Slow passes errors of the wrapped tier on") {
  Fixture f;
  FailingAdaptor failing(f.dram);
  SlowAdaptor tier(failing, {.latency_ns = 1000, .bytes_per_second = 0});
  REQUIRE(tier.open() == 0);
  failing.fail_nth(Fault::read, 1, EIO);
  failing.fail_nth(Fault::submit, 2, ENOMEM);
  CHECK(read(tier, f.extent, f.buffer) == EIO);
  CHECK(read(tier, f.extent, f.buffer) == ENOMEM);
  CHECK(tier.in_flight() == 0);
}

TEST_CASE_METHOD(Fixture, "a lease lets so much be written and no more and all be read") {
  WriteLeaseAdaptor tier(dram);
  CHECK(write(tier, extent, buffer) == 0);  // there is none
  tier.set_lease(100 * kib, 240 * kib);     // by the caller's count
  CHECK(write(tier, extent, buffer) == 0);
  CHECK(write(tier, extent, buffer) == 0);
  CHECK(write(tier, extent, buffer) == EDQUOT);
  CHECK(read(tier, extent, buffer) == 0);
  const Extent page{extent.offset, 4 * kib};
  Buffer small(4 * kib);
  CHECK(write(tier, page, small) == EDQUOT);  // what was refused once is refused until there is another lease
  tier.set_lease(228 * kib, 240 * kib);
  CHECK(write(tier, page, small) == 0);
  tier.set_lease(232 * kib, WriteLeaseAdaptor::no_lease);
  CHECK(write(tier, extent, buffer) == 0);
}

TEST_CASE_METHOD(Fixture, "writes that failed are not held against a lease for ever") {
  FailingAdaptor failing(dram);
  WriteLeaseAdaptor tier(failing);
  failing.fail_from(Fault::write, 1, EIO);
  tier.set_lease(0, 128 * kib);
  for (int i = 0; i < 2; ++i) CHECK(write(tier, extent, buffer) == EIO);
  CHECK(write(tier, extent, buffer) == EDQUOT);
  tier.set_lease(0, 128 * kib);  // nothing was written and nothing is under way
  CHECK(write(tier, extent, buffer) == EIO);
}

TEST_CASE("The meter counts bytes by the time that they were in transfer") {
  constexpr std::uint64_t latency_ns = 20'000'000;
  Fixture f;
  SlowAdaptor slow(f.dram, {.latency_ns = latency_ns});
  REQUIRE(slow.open() == 0);
  MeterAdaptor meter(slow);
  const std::uint64_t begin = now_ns();
  for (std::uint64_t token : {5, 6, 7})
    REQUIRE(meter.submit({Direction::read, f.extent, f.buffer.data(), token}) == 0);
  std::vector<std::uint64_t> tokens;
  for (const Completion& done : finish(meter)) tokens.push_back(done.token);
  std::sort(tokens.begin(), tokens.end());
  CHECK(tokens == std::vector<std::uint64_t>{5, 6, 7});
  ::usleep(50'000);  // nothing is asked of it, and none of that counts
  REQUIRE(read(meter, f.extent, f.buffer) == 0);
  const std::uint64_t took = now_ns() - begin;
  const TierSpeeds speeds = meter.speeds();
  CHECK(speeds.read_bytes == 4 * f.buffer.bytes());
  CHECK(speeds.read_ns >= 2 * latency_ns);     // three at once, and one
  CHECK(speeds.read_ns <= took - 50'000'000);  // each second once
  CHECK(speeds.write_bytes == 0);
  CHECK(speeds.write_ns == 0);
}

TEST_CASE("The meter counts what a tier takes inside submit") {
  Fixture f;
  PacedAdaptor paced(f.dram, 4 * mib);  // 64 KiB: a 64th of a second
  MeterAdaptor meter(paced);
  CHECK(std::string(meter.name()) == "meter(paced(dram))");
  REQUIRE(meter.submit({Direction::write, f.extent, f.buffer.data(), 7}) == 0);
  ::usleep(50'000);  // until somebody polls
  const std::uint64_t before = now_ns();
  REQUIRE(finish(meter).size() == 1);
  CHECK(meter.speeds().write_bytes == f.buffer.bytes());
  CHECK(meter.speeds().write_ns >= 1'000'000'000 / 64);
  REQUIRE(write(meter, f.extent, f.buffer) == 0);
  CHECK(meter.speeds().write_ns <= now_ns() - before + 50'000'000);
}

TEST_CASE("The meter leaves out what fails and what is refused") {
  Fixture f;
  FailingAdaptor failing(f.dram);
  MeterAdaptor meter(failing);
  failing.fail_nth(Fault::write, 1, EIO);
  CHECK(write(meter, f.extent, f.buffer) == EIO);
  failing.heal();
  failing.fail_nth(Fault::submit, 1, EAGAIN);
  CHECK(meter.submit({Direction::write, f.extent, f.buffer.data(), 7}) == EAGAIN);
  CHECK(meter.speeds().write_bytes == 0);
  for (std::size_t i = 0; i < 2 * max_queue_depth; ++i)  // no slot is lost
    if (write(meter, f.extent, f.buffer) != 0) FAIL("write " << i);
  CHECK(meter.speeds().write_bytes == 2 * max_queue_depth * f.buffer.bytes());
}

TEST_CASE("What was moved long ago counts ever less") {
  RecentTransfers transfers;
  const auto speed = [&] {
    return static_cast<double>(transfers.bytes()) / static_cast<double>(transfers.ns());
  };
  for (int i = 0; i < 1000; ++i) transfers.note(mib, mib);  // a byte a nanosecond
  CHECK(transfers.bytes() == RecentTransfers::window_bytes);
  CHECK(speed() == Approx(1).epsilon(0.001));
  for (std::uint64_t moved = 0; moved < RecentTransfers::window_bytes; moved += mib)
    transfers.note(mib, 4 * mib);
  CHECK(speed() < 0.4);
  for (std::uint64_t moved = 0; moved < 4 * RecentTransfers::window_bytes; moved += mib)
    transfers.note(mib, 4 * mib);
  CHECK(speed() == Approx(0.25).epsilon(0.01));
}
