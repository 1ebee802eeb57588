// The zigzag filter that tells a forward pass from a backward pass, on sequences of live counts.
#include <catch2/catch.hpp>

#include "liballoc/paging/policy/phase.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t slack = 4;

void ramp(Phase& phase, std::uint32_t from, std::uint32_t to) {
  for (std::uint32_t live = from; live != to; live += from < to ? 1U : ~0U) phase.update(live, slack);
  phase.update(to, slack);
}

}  // namespace

TEST_CASE("A job begins by growing, with no peak yet") {
  const Phase phase;
  CHECK(phase.growing());
  CHECK(phase.expected_peak() == 0);
}

TEST_CASE("Growth raises the expected peak as it goes") {
  Phase phase;
  ramp(phase, 0, 50);
  CHECK(phase.growing());
  CHECK(phase.expected_peak() == 50);
}

TEST_CASE("It turns when the count has come back by more than the slack") {
  Phase phase;
  ramp(phase, 0, 50);
  phase.update(50 - slack, slack);
  CHECK(phase.growing());
  phase.update(50 - slack - 1, slack);
  CHECK_FALSE(phase.growing());
  CHECK(phase.expected_peak() == 50);
  ramp(phase, 45, 10);
  CHECK_FALSE(phase.growing());
  phase.update(10 + slack, slack);
  CHECK_FALSE(phase.growing());
  phase.update(10 + slack + 1, slack);
  CHECK(phase.growing());
}

TEST_CASE("Noise within the slack turns nothing") {
  Phase phase;
  ramp(phase, 0, 100);
  for (int i = 0; i < 100; ++i) {
    phase.update(100 - slack, slack);
    CHECK(phase.growing());
    phase.update(100, slack);
  }
  CHECK(phase.expected_peak() == 100);
}

TEST_CASE("A sawtooth is followed step by step") {
  Phase phase;
  for (int step = 0; step < 5; ++step) {
    ramp(phase, 20, 80);
    CHECK(phase.growing());
    ramp(phase, 80, 20);
    CHECK_FALSE(phase.growing());
    CHECK(phase.expected_peak() == 80);
  }
  ramp(phase, 20, 30);
  CHECK(phase.growing());
  CHECK(phase.expected_peak() == 80);  // far below it, but it is expected
}

TEST_CASE("The expected peak is the higher of the last two") {
  Phase phase;
  ramp(phase, 0, 90);
  ramp(phase, 90, 10);
  ramp(phase, 10, 40);
  ramp(phase, 40, 10);
  CHECK(phase.expected_peak() == 90);
  ramp(phase, 10, 50);
  ramp(phase, 50, 10);
  CHECK(phase.expected_peak() == 50);  // 90 is three passes ago
  ramp(phase, 10, 120);
  CHECK(phase.expected_peak() == 120);
}

TEST_CASE("A drop to nothing and back is one pass") {
  Phase phase;
  ramp(phase, 0, 60);
  phase.update(0, slack);
  CHECK_FALSE(phase.growing());
  phase.update(60, slack);
  CHECK(phase.growing());
  CHECK(phase.expected_peak() == 60);
}

}  // namespace terrace::liballoc
