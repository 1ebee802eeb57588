// Drives for the tests of the striped tier: in memory, each of which can be made to fail and tells what it
// was asked.
#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "support.h"
#include "tiers/adaptors/failing_adaptor.h"
#include "tiers/adaptors/trace_adaptor.h"
#include "tiers/memory/dram_tier.h"
#include "tiers/striped_tier.h"

namespace terrace::tiers::test {

inline constexpr std::uint64_t run_bytes = 2 * mib;

struct Drives {
  explicit Drives(std::vector<std::uint64_t> capacities, std::size_t depth = 16) : count(capacities.size()) {
    for (std::size_t i = 0; i < count; ++i) REQUIRE(dram[i].open(capacities[i], depth) == 0);
    REQUIRE(tier.open({list.data(), count}) == 0);
  }

  std::size_t drive_of(const Extent& extent) const {
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < count; ++i)
      if (extent.offset < (end += dram[i].space().capacity_bytes)) return i;
    return count;
  }
  Extent reserve(std::uint64_t bytes = run_bytes) {
    Extent extent;
    REQUIRE(tier.reserve(bytes, &extent) == 0);
    return extent;
  }
  // Reserves so many extents; how many each drive has taken.
  std::vector<int> spread(int extents, std::uint64_t bytes = run_bytes) {
    std::vector<int> taken(count);
    for (int i = 0; i < extents; ++i) ++taken[drive_of(reserve(bytes))];
    return taken;
  }

  std::size_t count;
  std::array<DramTier, 3> dram;
  std::array<FailingAdaptor, 3> failing{FailingAdaptor(dram[0]), FailingAdaptor(dram[1]),
                                        FailingAdaptor(dram[2])};
  std::array<TraceAdaptor, 3> trace{TraceAdaptor(failing[0]), TraceAdaptor(failing[1]),
                                    TraceAdaptor(failing[2])};
  std::array<StripedTier::Drive, 3> list{{{&trace[0], "/a"}, {&trace[1], "/b"}, {&trace[2], "/c"}}};
  StripedTier tier;
};

}  // namespace terrace::tiers::test
