#include "liballoc/gpu/offload/memory/free_extents.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/liballoc/support.h"

using terrace::liballoc::offload::FreeExtents;

TEST_CASE("TheSmallestHoleThatFitsIsTaken") {
  FreeExtents free;
  free.give(0, 100);
  free.give(200, 50);
  free.give(300, 50);
  std::uint64_t at = 0;
  REQUIRE(free.take(50, &at));
  CHECK(at == 200);
  REQUIRE(free.take(60, &at));
  CHECK(at == 0);
  CHECK(free.largest() == 50);
  at = 7;
  CHECK_FALSE(free.take(51, &at));
  CHECK(at == 7);
}

TEST_CASE("NeighboursAreJoined") {
  FreeExtents free;
  free.give(0, 10);
  free.give(20, 10);
  free.give(10, 10);
  CHECK(free.largest() == 30);
  CHECK(free.ending_at(30) == 30);
  CHECK(free.ending_at(31) == 0);
  CHECK_FALSE(free.cut(40, 60));
  CHECK(free.cut(5, 30));
  CHECK(free.free_bytes() == 5);
}

TEST_CASE("NoByteIsGivenOutTwiceOrLost") {
  constexpr std::uint64_t space = 4096;
  FreeExtents free;
  free.give(0, space);
  std::vector<bool> used(space, false);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> held;
  terrace::liballoc::test::Random random(7);
  for (int i = 0; i < 20000; ++i) {
    if (held.empty() || random.below(2) == 0) {
      const std::uint64_t bytes = 1 + random.below(200);
      std::uint64_t at = 0;
      if (!free.take(bytes, &at)) continue;
      for (std::uint64_t b = at; b < at + bytes; ++b) {
        REQUIRE_FALSE(used[b]);
        used[b] = true;
      }
      held.emplace_back(at, bytes);
    } else {
      const std::size_t n = random.below(held.size());
      for (std::uint64_t b = held[n].first; b < held[n].first + held[n].second; ++b) used[b] = false;
      free.give(held[n].first, held[n].second);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(n));
    }
  }
  for (const auto& [at, bytes] : held) free.give(at, bytes);
  CHECK(free.largest() == space);
}

TEST_CASE("WhatLiesFromAPlaceOnIsMovedAndWhatLiesAcrossItIsDivided") {
  FreeExtents free, beyond;
  for (const std::uint64_t at : {0, 100, 200, 300}) free.give(at, 50);
  free.move_from(220, &beyond);
  CHECK(free.free_bytes() == 120);
  CHECK(free.ending_at(220) == 20);
  CHECK(beyond.free_bytes() == 80);
  CHECK(beyond.ending_at(350) == 50);
  beyond.move_from(0, &free);
  CHECK(beyond.free_bytes() == 0);
  CHECK(free.free_bytes() == 200);
  std::uint64_t at = 0;
  REQUIRE(free.cut(300, 350));
  CHECK(free.ending_at(250) == 50);  // joined again
  free.move_from(250, &beyond);      // nothing lies there
  CHECK(beyond.free_bytes() == 0);
  REQUIRE(free.take(50, &at));
  CHECK(at == 0);
}
