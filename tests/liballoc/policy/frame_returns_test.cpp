// When runs leave as they are, since those that were compressed came back for single pages.
#include "liballoc/paging/policy/frame_returns.h"

#include <catch2/catch.hpp>

using terrace::liballoc::FrameReturns;

namespace {

void come(FrameReturns& returns, std::uint32_t frames, std::uint32_t for_a_page) {
  for (std::uint32_t i = 0; i < frames; ++i) returns.came(i < for_a_page);
}

// Runs that leave as they are until one is compressed.
std::uint32_t rest_of(FrameReturns& returns) {
  std::uint32_t runs = 0;
  for (; returns.rests(); ++runs) returns.left_as_it_is();
  return runs;
}

}  // namespace

TEST_CASE("RunsAreCompressedUntilMostFramesWereWantedForAPage") {
  FrameReturns returns;
  come(returns, FrameReturns::window, FrameReturns::most_for_a_page - 1);
  CHECK(rest_of(returns) == 0);
  come(returns, FrameReturns::window - 1, FrameReturns::window - 1);
  CHECK(rest_of(returns) == 0);
  returns.came(false);
  CHECK(rest_of(returns) == FrameReturns::least_rest);
}

TEST_CASE("EachTimeThatItStillHoldsTwiceAsManyRunsLeaveAsTheyAre") {
  FrameReturns returns;
  for (std::uint32_t rest = FrameReturns::least_rest; rest < FrameReturns::longest_rest; rest *= 2) {
    come(returns, FrameReturns::window, FrameReturns::window);
    CHECK(rest_of(returns) == rest);
  }
  for (int i = 0; i < 3; ++i) {
    come(returns, FrameReturns::window, FrameReturns::window);
    CHECK(rest_of(returns) == FrameReturns::longest_rest);
  }
  come(returns, FrameReturns::window, 0);
  CHECK(rest_of(returns) == 0);
  come(returns, FrameReturns::window, FrameReturns::window);
  CHECK(rest_of(returns) == FrameReturns::least_rest);
}

TEST_CASE("WhatComesWhileRunsLeaveAsTheyAreWasCompressedBefore") {
  FrameReturns returns;
  come(returns, FrameReturns::window, FrameReturns::window);
  come(returns, 10 * FrameReturns::window, FrameReturns::window);
  CHECK(rest_of(returns) == FrameReturns::least_rest);
  come(returns, FrameReturns::window - 1, FrameReturns::window);
  CHECK_FALSE(returns.rests());
  returns.came(true);
  CHECK(rest_of(returns) == 2 * FrameReturns::least_rest);
}
