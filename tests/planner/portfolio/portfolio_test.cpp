// The policy `terrace` keeps its promises on any instance: right, not below the bound, never worse than any
// other policy, only getting better, the same for a seed, and done soon after it is told to stop.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string_view>

#include "daemon/planner/reuse/families.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner {
namespace {

Placement terrace(const Instance& instance, const SearchControl& control) {
  const Result<Placement> placed = terrace_policies().at(0).place(instance, control);
  REQUIRE(placed);
  return *placed;
}

SearchControl steps(std::uint64_t count, std::uint64_t seed = 0) {
  SearchControl control;
  control.seed = seed;
  control.steps = count;
  return control;
}

// Sizes over several decades, mixed alignments, empty buffers, some that live always.
Instance mixed_instance(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Instance instance = test::random_instance(seed, 1 + static_cast<std::uint32_t>(random() % 90),
                                            1 + static_cast<std::uint32_t>(random() % 80), 1000);
  for (Buffer& b : instance.buffers) {
    b.bytes <<= random() % 12;
    if (random() % 10 == 0) b.bytes = 0;
    if (random() % 10 == 0) b.lower = 0, b.upper = 100;
    if (seed % 3 == 1) b.alignment = 256;
    if (seed % 3 == 2) b.alignment = std::uint64_t{1} << random() % 10;
  }
  return instance;
}

}  // namespace

TEST_CASE("Random instances are placed rightly and not below the bound") {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const Instance instance = mixed_instance(seed);
    const Placement placement = terrace(instance, steps(3000, seed));
    INFO(instance.name);
    REQUIRE_THAT(check_placement(instance, placement), Catch::Equals(""));
    REQUIRE(placement.total_bytes >= max_live_bytes(instance.buffers));
  }
}

TEST_CASE("Nothing, empty buffers and a single one are placed") {
  CHECK(terrace({"none", {}, nullptr}, {}).total_bytes == 0);
  CHECK(terrace({"empty", {{0, 0, 1, 8, 0}, {0, 0, 1, 1, 0}}, nullptr}, {}).total_bytes == 0);
  CHECK(terrace({"one", {{5, 3, 4, 8, 0}}, nullptr}, {}).total_bytes == 5);
}

TEST_CASE("The same seed gives the same placement") {
  const Instance instance = test::random_instance(5, 200, 100, 1000);
  const Placement a = terrace(instance, steps(50'000, 9));
  const Placement b = terrace(instance, steps(50'000, 9));
  CHECK(a.offsets == b.offsets);
  CHECK(a.total_bytes == b.total_bytes);
}

TEST_CASE("Progress only falls, ends at the answer and names the bound") {
  const Instance instance = mixed_instance(31);
  std::vector<std::uint64_t> totals;
  SearchControl control = steps(50'000);
  control.progress = [&](std::uint64_t total, std::uint64_t bound) {
    CHECK(bound == max_live_bytes(instance.buffers));
    totals.push_back(total);
  };
  const Placement placement = terrace(instance, control);
  REQUIRE_FALSE(totals.empty());
  CHECK(std::is_sorted(totals.begin(), totals.end(), std::greater_equal<>()));
  CHECK(totals.back() == placement.total_bytes);
}

TEST_CASE("More steps are never worse than fewer") {
  const Instance instance = test::random_instance(6, 300, 150, 1000);
  std::uint64_t last = ~std::uint64_t{0};
  for (const std::uint64_t count : {1U, 1000U, 10'000U, 100'000U}) {
    const std::uint64_t total = terrace(instance, steps(count)).total_bytes;
    CHECK(total <= last);
    last = total;
  }
}

TEST_CASE("Told to stop it stops at once, with a placement") {
  const Instance instance = test::random_instance(8, 3000, 1000, 100'000);
  for (const int patience : {0, 1, 20}) {
    int asked = 0;
    SearchControl control;
    control.stop = [&] { return ++asked > patience; };
    CHECK_THAT(check_placement(instance, terrace(instance, control)), Catch::Equals(""));
    CHECK(asked <= patience + 2);  // the move under way asks, then the loop around it
  }
}

TEST_CASE("A pass under way asks at least every few thousand placements") {
  const Instance instance = test::random_instance(8, 3000, 1000, 100'000);
  std::uint64_t asked = 0;
  SearchControl control = steps(100'000);
  control.stop = [&] { return ++asked == 0; };
  terrace(instance, control);
  CHECK(asked >= 100'000 / 4096);
}

TEST_CASE("A placement that fits the capacity asked for ends the search") {
  const Instance instance = test::random_instance(8, 3000, 1000, 100'000);
  std::vector<std::uint64_t> totals;
  SearchControl control = steps(100'000);
  control.progress = [&](std::uint64_t total, std::uint64_t) { totals.push_back(total); };
  terrace(instance, control);
  REQUIRE(totals.size() > 2);
  control.capacity_bytes = totals[1];
  totals.clear();
  const std::uint64_t total = terrace(instance, control).total_bytes;
  CHECK(total <= control.capacity_bytes);
  CHECK(totals.size() <= 2);
}

TEST_CASE("At the bound the search ends") {
  Instance chain{"chain", {}, nullptr};
  for (std::uint32_t i = 0; i < 20'000; ++i) chain.buffers.push_back({64, i, i + 2, 1, no_tensor});
  CHECK(terrace(chain, {}).total_bytes == 128);
}

TEST_CASE("No policy is better on random instances") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Instance instance = mixed_instance(seed);
    const std::uint64_t ours = terrace(instance, steps(30'000, seed)).total_bytes;
    for (const ReusePolicy& other : reuse_policies()) {
      // The exact search alone goes on until it is told to stop; it asks every 1,024 nodes at least.
      SearchControl control = steps(30'000, seed);
      int asked = 0;
      if (std::string_view(other.family) == "search") control.stop = [&] { return ++asked > 4; };
      const Result<Placement> theirs = other.place(instance, control);
      INFO(instance.name << ", " << other.name);
      if (theirs) CHECK(ours <= theirs->total_bytes);
    }
  }
}

}  // namespace terrace::planner
