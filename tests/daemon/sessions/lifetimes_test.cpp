#include "daemon/sessions/process/lifetimes.h"

#include <catch2/catch.hpp>

using namespace terrace;
using namespace terrace::daemon;

namespace {

wire::Event event(wire::EventKind kind, std::uint64_t time_ns, std::uint64_t address, std::uint64_t site = 0,
                  std::uint64_t bytes = 0) {
  return {.time_ns = time_ns, .address = address, .call_site = site, .bytes = bytes, .kind = kind};
}
using wire::EventKind;

}  // namespace

TEST_CASE("allocations of one place and size are one entry with its lifetimes") {
  Lifetimes lifetimes;
  lifetimes.take(event(EventKind::alloc, 100, 1, 7, 4096));
  lifetimes.take(event(EventKind::alloc, 200, 2, 7, 4096));
  lifetimes.take(event(EventKind::alloc, 300, 3, 7, 2048));
  lifetimes.take(event(EventKind::free, 150, 1));
  lifetimes.take(event(EventKind::free, 350, 2));
  CHECK(lifetimes.sites() == 2);
  CHECK(lifetimes.live() == 1);
  const auto top = lifetimes.top(10);
  REQUIRE(top.size() == 2);
  CHECK(top[0].allocations == 2);
  CHECK(top[0].lifetime_sum_ns == 50 + 150);
  CHECK(top[0].longest_ns == 150);
  CHECK(lifetimes.top(1).size() == 1);
}

TEST_CASE("a free without its allocation is counted apart") {
  Lifetimes lifetimes;
  lifetimes.take(event(EventKind::free, 1, 99));
  CHECK(lifetimes.others().frees == 1);
  CHECK(lifetimes.count(EventKind::free) == 1);
}

TEST_CASE("an address that is allocated twice lives from the second time") {
  Lifetimes lifetimes;
  lifetimes.take(event(EventKind::alloc, 100, 1, 7, 64));
  lifetimes.take(event(EventKind::alloc, 500, 1, 7, 64));  // its free was lost
  lifetimes.take(event(EventKind::free, 600, 1));
  CHECK(lifetimes.top(1)[0].longest_ns == 100);
}

TEST_CASE("time that runs backwards is no lifetime") {
  Lifetimes lifetimes;
  lifetimes.take(event(EventKind::alloc, 500, 1, 7, 64));
  lifetimes.take(event(EventKind::free, 100, 1));
  CHECK(lifetimes.top(1)[0].longest_ns == 0);
}

TEST_CASE("neither call sites nor live addresses grow without bound") {
  Lifetimes lifetimes;
  for (std::uint64_t i = 0; i < 100'000; ++i) lifetimes.take(event(EventKind::alloc, i, i, i, i));
  CHECK(lifetimes.sites() == Lifetimes::max_sites);
  CHECK(lifetimes.live() == Lifetimes::max_live);
  CHECK(lifetimes.others().allocations == 100'000 - Lifetimes::max_sites);
  for (std::uint64_t i = 0; i < 100'000; ++i) lifetimes.take(event(EventKind::free, i, i));
  CHECK(lifetimes.live() == 0);
}
