// Many sessions are taken in by turns: none is forgotten, and what lies in the rings is bounded in every way.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/sessions/registry.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;

namespace {

using terrace::tests::gib;

struct TurnsFixture {
  static constexpr std::size_t count = 3 * Registry::sessions_per_turn;
  Registry registry{64 * gib, Pools("/var/tmp", gib, false)};
  std::vector<Session*> sessions;
  std::uint64_t now_ns = 1;

  TurnsFixture() {
    for (std::size_t i = 0; i < count; ++i)
      sessions.push_back(
          registry.admit(wire::make<wire::Hello>(), {100, 1000, 1000}, std::nullopt, 1).session);
  }
  // As its job does.
  static void write(Session& session, int events) {
    Segment& segment = session.segment();
    void* base = ::mmap(nullptr, segment.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd(), 0);
    REQUIRE(base != MAP_FAILED);
    auto* stats = reinterpret_cast<wire::JobStats*>(static_cast<std::byte*>(base) + segment.stats_offset());
    stats->set(wire::Stat::resident_bytes, 4096);
    auto* ring = reinterpret_cast<wire::EventRing*>(static_cast<std::byte*>(base) + segment.ring_offset());
    wire::RingWriter writer(ring, wire::slots_of(ring), Segment::ring_capacity);
    for (int i = 0; i < events; ++i)
      writer.push({.address = static_cast<std::uint64_t>(i + 1), .bytes = 1, .kind = wire::EventKind::alloc});
    ::munmap(base, segment.bytes());
  }
  std::size_t counted() const {
    return static_cast<std::size_t>(std::count_if(sessions.begin(), sessions.end(), [](const Session* s) {
      return s->counter(wire::Stat::resident_bytes) == 4096;
    }));
  }
  void turn() { registry.take_turn(now_ns += Registry::round_ns); }
};

}  // namespace

TEST_CASE_METHOD(TurnsFixture, "every session has its turn, and a request sees all of them") {
  for (Session* session : sessions) write(*session, 1);
  turn();
  CHECK(counted() == Registry::sessions_per_turn);
  registry.take_in(now_ns);
  CHECK(counted() == count);
  for (Session* session : sessions) CHECK(session->lifetimes().count(wire::EventKind::alloc) == 1);
}

TEST_CASE_METHOD(TurnsFixture, "after as many turns as it takes all are counted") {
  for (Session* session : sessions) write(*session, 1);
  for (int i = 0; i < 3; ++i) turn();
  CHECK(counted() == count);
}

TEST_CASE_METHOD(TurnsFixture, "FullRingsOfAllAreReadOverSeveralCalls") {
  for (Session* session : sessions) write(*session, Segment::ring_capacity);
  const auto read = [&] {
    std::size_t sum = 0;
    for (const Session* session : sessions) sum += session->lifetimes().count(wire::EventKind::alloc);
    return sum;
  };
  registry.take_in(now_ns);
  CHECK(read() == Registry::events_per_call);
  for (std::size_t i = 1; i < count / 8; ++i) registry.take_in(now_ns);
  CHECK(read() == count * Segment::ring_capacity);
}

TEST_CASE_METHOD(TurnsFixture, "ManySessionsShareTheRoomForLifetimes") {
  for (Session* session : sessions) write(*session, Segment::ring_capacity);
  for (std::size_t i = 0; i < count / 8; ++i) registry.take_in(now_ns);
  std::size_t live = 0;
  for (const Session* session : sessions) live += session->lifetimes().live();
  CHECK(live <= Lifetimes::live_of_all);
  CHECK(live >= Lifetimes::live_of_all / 2);
}
