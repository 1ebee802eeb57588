// The policy: always a valid placement, never worse as it goes on, and it ends at the goal, the stop, or the
// limit.
#include <catch2/catch.hpp>

#include "daemon/planner/reuse/families.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner {
namespace {

struct Watched {
  Result<Placement> placement;
  std::vector<std::uint64_t> totals;
};

Watched place(const Instance& instance, std::uint64_t capacity, int stop_after) {
  Watched watched;
  SearchControl control;
  control.capacity_bytes = capacity;
  int asked = 0;
  if (stop_after >= 0) control.stop = [&] { return asked++ >= stop_after; };
  control.progress = [&](std::uint64_t total, std::uint64_t bound) {
    CHECK(bound == max_live_bytes(instance.buffers));
    watched.totals.push_back(total);
  };
  watched.placement = search_policies().at(0).place(instance, control);
  return watched;
}

void check_sound(const Instance& instance, const Watched& watched) {
  REQUIRE(watched.placement);
  CHECK(check_placement(instance, *watched.placement).empty());
  REQUIRE_FALSE(watched.totals.empty());
  CHECK(watched.totals.back() == watched.placement->total_bytes);
  for (std::size_t i = 1; i < watched.totals.size(); ++i) CHECK(watched.totals[i] < watched.totals[i - 1]);
}

Instance in_a_mebibyte(const std::string& name) {
  return test::instance_from_csv(name, test::fixture("minimalloc/" + name + ".1048576.csv"));
}

}  // namespace

TEST_CASE("Without a capacity the policy goes down to the bound") {
  for (const char* name : {"C", "G", "K"}) {
    const Instance instance = in_a_mebibyte(name);
    const Watched watched = place(instance, 0, -1);
    check_sound(instance, watched);
    CHECK(watched.placement->total_bytes == max_live_bytes(instance.buffers));
  }
}

TEST_CASE("A capacity ends the search as soon as it is met") {
  const Instance d = in_a_mebibyte("D");
  const Watched watched = place(d, 1048576, -1);
  check_sound(d, watched);
  CHECK(watched.placement->total_bytes <= 1048576);
  const Watched roomy = place(d, std::uint64_t{1} << 40, -1);
  check_sound(d, roomy);
  CHECK(roomy.totals.size() == 1);
}

TEST_CASE("Stopped at once, it returns what it has; stopped later, nothing worse") {
  const Instance j = in_a_mebibyte("J");
  const Watched at_once = place(j, 0, 0);
  const Watched later = place(j, 0, 60);
  check_sound(j, at_once);
  check_sound(j, later);
  CHECK(at_once.totals.size() == 1);
  CHECK(later.placement->total_bytes < at_once.placement->total_bytes);
}

TEST_CASE("Random instances of all sizes get valid placements") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto count = static_cast<std::uint32_t>(10 + seed * seed * 3);
    const Instance instance = test::random_instance(seed, count, 20 + count, 1000);
    const Watched watched = place(instance, 0, 3);
    check_sound(instance, watched);
    CHECK(watched.placement->total_bytes >= max_live_bytes(instance.buffers));
  }
}

TEST_CASE("An instance too large to be searched gets a skyline") {
  const Instance instance = test::random_instance(5, 20000, 40000, 100000);
  check_sound(instance, place(instance, 0, -1));
}

}  // namespace terrace::planner
