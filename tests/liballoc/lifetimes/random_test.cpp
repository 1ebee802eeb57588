// Programs made up at random, of loops, phases, noise and nonsense: what must hold whatever comes.
#include <catch2/catch.hpp>

#include "tests/liballoc/lifetimes/invariants.h"
#include "tests/liballoc/lifetimes/watched.h"

namespace terrace::liballoc {
namespace {

using namespace test;

// A few bytes that mean loops within loops: what they spell is run as it stands, again and again.
std::vector<std::uint8_t> random_program(std::mt19937_64& random) {
  std::vector<std::uint8_t> bytes(8 + random() % 400);
  for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(random());
  return bytes;
}

}  // namespace

TEST_CASE("Whatever comes the clock keeps its promises") {
  std::mt19937_64 random(1);
  std::uint64_t claims = 0, departures = 0;
  for (int round = 0; round < 300; ++round) {
    const auto program = random_program(random);
    const ClockCounts counts = run_spelled_program(program.data(), program.size());
    claims += counts.claims;
    departures += counts.departures;
  }
  // It was not all noise.
  CHECK(claims > 100);
  CHECK(departures > 50);
}

}  // namespace terrace::liballoc
