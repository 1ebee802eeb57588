// The event ring: in order, losing the oldest when nobody reads, counting what is lost, and believing
// nothing.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "liballoc/wire/segment.h"

using namespace terrace;

namespace {

constexpr std::uint64_t capacity = 8;

struct Memory {
  alignas(64) wire::EventRing ring{};
  wire::Word slots[capacity * wire::slot_words]{};
  wire::RingWriter writer{&ring, slots, capacity};
  wire::RingReader reader{&ring, capacity};

  void push(std::uint64_t address) {
    writer.push({.time_ns = 1, .address = address, .kind = wire::EventKind::alloc});
  }
  std::vector<std::uint64_t> read(std::size_t limit = 100) {
    std::vector<wire::Event> events(limit);
    events.resize(reader.read(events.data(), limit));
    std::vector<std::uint64_t> addresses;
    addresses.reserve(events.size());
    for (const auto& event : events) addresses.push_back(event.address);
    return addresses;
  }
};
static_assert(offsetof(Memory, slots) == offsetof(Memory, ring) + sizeof(wire::EventRing));

using Addresses = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("events come out in order and once") {
  Memory memory;
  CHECK(memory.read().empty());
  for (std::uint64_t i = 1; i <= 5; ++i) memory.push(i);
  CHECK(memory.read(2) == Addresses{1, 2});
  CHECK(memory.read() == Addresses{3, 4, 5});
  CHECK(memory.read().empty());
  CHECK(memory.reader.lost() == 0);
}

TEST_CASE("a full ring keeps the newest and counts the rest") {
  Memory memory;
  for (std::uint64_t i = 1; i <= 11; ++i) memory.push(i);
  CHECK(memory.read() == Addresses{4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(memory.reader.lost() == 3);
}

TEST_CASE("all fields survive") {
  Memory memory;
  const wire::Event event{.time_ns = 1,
                          .address = 2,
                          .call_site = 3,
                          .bytes = 4,
                          .kind = wire::EventKind::io_error,
                          .flags = wire::event_stalled,
                          .detail = 28};
  memory.writer.push(event);
  wire::Event back;
  REQUIRE(memory.reader.read(&back, 1) == 1);
  CHECK(back.time_ns == 1);
  CHECK(back.address == 2);
  CHECK(back.call_site == 3);
  CHECK(back.bytes == 4);
  CHECK(back.position == 1);
  CHECK(back.kind == wire::EventKind::io_error);
  CHECK(back.flags == wire::event_stalled);
  CHECK(back.detail == 28);
}

TEST_CASE("a slot that was not finished is lost, not believed") {
  Memory memory;
  for (std::uint64_t i = 1; i <= 3; ++i) memory.push(i);
  memory.slots[1 * wire::slot_words + 4].store(0);  // as while it is written
  CHECK(memory.read() == Addresses{1, 3});
  CHECK(memory.reader.lost() == 1);
}

TEST_CASE("a slot of a kind that does not exist is lost") {
  Memory memory;
  memory.push(1);
  memory.slots[4].store(1 | std::uint64_t{200} << 32);
  CHECK(memory.read().empty());
  CHECK(memory.reader.lost() == 1);
}

TEST_CASE("a hostile head cannot make the reader run away") {
  Memory memory;
  memory.push(1);
  SECTION("far ahead") {
    memory.ring.head.store(~std::uint64_t{0});
    CHECK(memory.read().empty());
  }
  SECTION("backwards") {
    CHECK(memory.read() == Addresses{1});
    memory.ring.head.store(0);
    CHECK(memory.read().empty());
    CHECK(memory.reader.lost() == 1);
  }
  SECTION("ahead, then honest again") {
    memory.ring.head.store(1000);
    memory.read();
    memory.push(2);  // head is 2 again
    memory.push(3);
    memory.read();
    memory.push(4);
    CHECK(memory.read() == Addresses{4});
  }
}

TEST_CASE("a reader beside a fast writer sees whole events only") {
  constexpr std::uint64_t total = 200'000;
  auto memory = std::make_unique<Memory>();
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= total; ++i)
      memory->writer.push({.time_ns = i,
                           .address = i * 3,
                           .call_site = i * 5,
                           .bytes = i * 7,
                           .kind = wire::EventKind::free});
  });
  std::uint64_t seen = 0, last = 0, broken = 0;
  std::vector<wire::Event> events(64);
  while (seen + memory->reader.lost() < total) {
    const std::size_t count = memory->reader.read(events.data(), events.size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto& e = events[i];
      const bool whole =
          e.address == e.time_ns * 3 && e.call_site == e.time_ns * 5 && e.bytes == e.time_ns * 7;
      if (!whole || e.time_ns <= last) ++broken;
      last = e.time_ns;
    }
    seen += count;
  }
  writer.join();
  CHECK(broken == 0);
  CHECK(seen + memory->reader.lost() == total);
}

TEST_CASE("every counter and every event has a name of its own") {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < wire::stat_count; ++i)
    names.emplace_back(wire::name_of(static_cast<wire::Stat>(i)));
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(std::string(wire::name_of(wire::Stat::cgroup_limit_bytes)) == "cgroup_limit_bytes");
  CHECK(std::string(wire::name_of(wire::EventKind::fork)) == "fork");
  CHECK(std::string(wire::name_of(static_cast<wire::EventKind>(99))) == "unknown");
  CHECK(wire::name_of(static_cast<wire::Pager>(99)) == nullptr);
}

TEST_CASE("a structure fits only inside its segment and aligned") {
  CHECK(wire::fits(64, 64, 128));
  CHECK_FALSE(wire::fits(64, 65, 128));
  CHECK_FALSE(wire::fits(32, 8, 128));
  CHECK_FALSE(wire::fits(~std::uint64_t{63}, 64, 128));
  CHECK_FALSE(wire::fits(64, ~std::uint64_t{0}, 128));
}
