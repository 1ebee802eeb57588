#include "daemon/sessions/process/segment_layout.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cerrno>

#include "liballoc/wire/protocol.h"

using namespace terrace;
using namespace terrace::daemon;

TEST_CASE("both structures lie inside the segment, aligned and apart") {
  Segment segment;
  REQUIRE(Segment::create(&segment) == 0);
  CHECK(wire::fits(segment.stats_offset(), sizeof(wire::JobStats), segment.bytes()));
  CHECK(wire::fits(segment.ring_offset(), wire::ring_bytes(Segment::ring_capacity), segment.bytes()));
  CHECK(segment.bytes() <= wire::max_segment_bytes);
  const bool apart =
      segment.stats_offset() + sizeof(wire::JobStats) <= segment.ring_offset() ||
      segment.ring_offset() + wire::ring_bytes(Segment::ring_capacity) <= segment.stats_offset();
  CHECK(apart);
}

TEST_CASE("the segment can neither shrink nor grow nor be unsealed") {
  Segment segment;
  REQUIRE(Segment::create(&segment) == 0);
  CHECK(::ftruncate(segment.fd(), 0) != 0);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(segment.fd(), 1 << 30) != 0);
  CHECK(::fcntl(segment.fd(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

TEST_CASE("what a job writes through its own mapping is what the daemon reads") {
  Segment segment;
  REQUIRE(Segment::create(&segment) == 0);
  void* base = ::mmap(nullptr, segment.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd(), 0);
  REQUIRE(base != MAP_FAILED);
  auto* bytes = static_cast<std::byte*>(base);
  reinterpret_cast<wire::JobStats*>(bytes + segment.stats_offset())->set(wire::Stat::faults, 42);
  auto* ring = reinterpret_cast<wire::EventRing*>(bytes + segment.ring_offset());
  wire::RingWriter writer(ring, wire::slots_of(ring), Segment::ring_capacity);
  writer.push({.address = 7, .kind = wire::EventKind::evict});
  CHECK(segment.stats().get(wire::Stat::faults) == 42);
  wire::RingReader reader(segment.ring(), Segment::ring_capacity);
  wire::Event event;
  REQUIRE(reader.read(&event, 1) == 1);
  CHECK(event.address == 7);
  ::munmap(base, segment.bytes());
}

TEST_CASE("the mapping outlives the descriptor") {
  Segment segment;
  REQUIRE(Segment::create(&segment) == 0);
  segment.close_fd();
  CHECK(segment.fd() == -1);
  CHECK(segment.stats().get(wire::Stat::faults) == 0);
  const Segment moved = std::move(segment);
  CHECK(moved.stats().get(wire::Stat::faults) == 0);
}
