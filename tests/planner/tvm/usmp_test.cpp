// TVM's own cases: conflicts as lists, one pool or two, intervals.
#include "daemon/planner/reuse/tvm/usmp.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/planner/reference_data.h"
#include "tools/bench/planner/tvm_cases.h"

namespace terrace::planner::tvm::test {
namespace {

using bench::buffers_in;
using nlohmann::json;

json vectors() { return json::parse(planner::test::fixture("tvm_usmp_vectors.json")); }

Result<PoolPlacement> plan(const std::string& algorithm, PoolBuffers buffers, Pools pools,
                           std::uint64_t pressure = 0) {
  if (algorithm == "greedy_by_size") return greedy_by_size(buffers, pools);
  if (algorithm == "greedy_by_conflicts") return greedy_by_conflicts(buffers, pools);
  REQUIRE(algorithm == "hill_climb");
  return hill_climb(buffers, pools, pressure, {});
}

bool lists(const PoolBuffer& a, std::uint32_t b) {
  return std::find(a.conflicts.begin(), a.conflicts.end(), b) != a.conflicts.end();
}

// Of two that list each other, in one pool, the addresses are apart; all are aligned and within their pools.
void check_disjoint(PoolBuffers buffers, Pools pools, const PoolPlacement& placement) {
  for (std::uint32_t a = 0; a < buffers.size(); ++a) {
    const std::uint64_t end = placement.offsets[a] + buffers[a].bytes;
    CHECK(placement.offsets[a] % buffers[a].alignment == 0);
    CHECK(end <= pools[placement.pool_of[a]].capacity_bytes);
    for (std::uint32_t b = 0; b < buffers.size(); ++b) {
      if (a == b || placement.pool_of[a] != placement.pool_of[b]) continue;
      if (!lists(buffers[a], b) || !lists(buffers[b], a)) continue;
      CHECK((end <= placement.offsets[b] || placement.offsets[b] + buffers[b].bytes <= placement.offsets[a]));
    }
  }
}

// Intervals are closed.
std::vector<PoolBuffer> buffers_of_intervals(const json& intervals) {
  std::vector<PoolBuffer> buffers;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    PoolBuffer b{std::to_string(i), intervals[i][2].get<std::uint64_t>(), 1, {}, {0}};
    for (std::size_t j = 0; j < intervals.size(); ++j) {
      if (i == j || intervals[j][0] > intervals[i][1] || intervals[i][0] > intervals[j][1]) continue;
      b.conflicts.push_back(static_cast<std::uint32_t>(j));
    }
    buffers.push_back(b);
  }
  return buffers;
}

const std::vector<Pool> one_pool(1);

}  // namespace

TEST_CASE("Equal buffers are ordered by name, last first") {
  const json c = vectors()["conflict_cases"]["name_based_ordering"];
  const auto buffers = buffers_in(c, {0});
  for (const auto& algorithm : c["algorithms"]) {
    INFO(algorithm);
    const auto placement = plan(algorithm, buffers, one_pool);
    REQUIRE(placement);
    for (std::size_t b = 0; b < buffers.size(); ++b)
      CHECK(placement->offsets[b] == c["expected_offsets"][buffers[b].name].get<std::uint64_t>());
  }
}

TEST_CASE("Workspaces of the conflict cases are TVM's") {
  const json cases = vectors()["conflict_cases"];
  for (const char* name : {"linear", "fanout"}) {
    const auto buffers = buffers_in(cases[name], {0});
    CHECK(cases[name]["expected_workspace"].size() == 3);
    for (const auto& [algorithm, expected] : cases[name]["expected_workspace"].items()) {
      INFO(name << " " << algorithm);
      const auto placement = plan(algorithm, buffers, one_pool);
      REQUIRE(placement);
      CHECK(used_bytes(buffers, one_pool, *placement)[0] == expected.get<std::uint64_t>());
      check_disjoint(buffers, one_pool, *placement);
    }
  }
}

TEST_CASE("Hill climbing comes within TVM's tolerance on its interval cases") {
  const json cases = vectors()["interval_cases"];
  CHECK(cases.size() == 4);
  for (const auto& [name, c] : cases.items()) {
    INFO(name);
    const auto buffers = buffers_of_intervals(c["intervals"]);
    const auto bound = c["expected_lower_bound_max_load"].get<std::uint64_t>();
    const auto placement = plan("hill_climb", buffers, one_pool, bound);
    REQUIRE(placement);
    check_disjoint(buffers, one_pool, *placement);
    const std::uint64_t used = used_bytes(buffers, one_pool, *placement)[0];
    CHECK(used >= bound);
    CHECK(used * 100 <= bound * (100 + c["tolerance_percent"].get<std::uint64_t>()));
  }
}

TEST_CASE("The ResNet subgraph needs what TVM needs for it") {
  const json expected = vectors()["aggregate_expectations"]["resnet_subgraph"];
  const auto buffers =
      buffers_in(json::parse(planner::test::fixture("tvm_usmp_subgraphs.json"))["resnet_subgraph"], {0});
  for (const char* algorithm : {"greedy_by_size", "greedy_by_conflicts", "hill_climb"}) {
    INFO(algorithm);
    const auto placement = plan(algorithm, buffers, one_pool, expected["memory_pressure_lower_bound"]);
    REQUIRE(placement);
    check_disjoint(buffers, one_pool, *placement);
    CHECK(used_bytes(buffers, one_pool, *placement)[0] == expected[algorithm].get<std::uint64_t>());
  }
}

TEST_CASE("The MobileNet subgraph uses a fast and a slow pool as TVM does") {
  const json expected = vectors()["aggregate_expectations"]["mobilenet_subgraph"];
  const json graph = json::parse(planner::test::fixture("tvm_usmp_subgraphs.json"))["mobilenet_subgraph"];
  const auto buffers = buffers_in(graph, {0, 1});
  const std::vector<Pool> pools{{expected["fast_pool_capacity"].get<std::uint64_t>()}, {unbounded}};
  for (const char* algorithm : {"greedy_by_size", "greedy_by_conflicts", "hill_climb"}) {
    INFO(algorithm);
    const auto placement = plan(algorithm, buffers, pools, expected["memory_pressure_lower_bound"]);
    REQUIRE(placement);
    check_disjoint(buffers, pools, *placement);
    const auto used = used_bytes(buffers, pools, *placement);
    CHECK(used[0] == expected[algorithm]["fast_used"].get<std::uint64_t>());
    CHECK(used[1] == expected[algorithm]["slow_used"].get<std::uint64_t>());
  }
}

TEST_CASE("A buffer that fits no pool is an error that names it") {
  const std::vector<PoolBuffer> buffers{
      {"a", 10, 1, {1}, {0}}, {"b", 10, 1, {2}, {0}}, {"c", 10, 1, {0}, {0}}};
  const std::vector<Pool> tiny{{10}};
  for (const char* algorithm : {"greedy_by_size", "greedy_by_conflicts", "hill_climb"}) {
    INFO(algorithm);
    const auto placement = plan(algorithm, buffers, tiny);
    CHECK_FALSE(placement);
    CHECK(placement.error.find("room for") != std::string::npos);
  }
}

TEST_CASE("Broken input is refused") {
  const auto why = [](const PoolBuffer& b) { return greedy_by_size({&b, 1}, one_pool).error; };
  CHECK(why({"x", 1, 1, {}, {}}).find("names no pool") != std::string::npos);
  CHECK(why({"x", 1, 1, {}, {1}}).find("pool that is not there") != std::string::npos);
  CHECK(why({"x", 1, 1, {1}, {0}}).find("buffer that is not there") != std::string::npos);
  CHECK(why({"x", 1, 3, {}, {0}}).find("power of two") != std::string::npos);
  CHECK(why({"x", ~std::uint64_t{0}, 1, {}, {0}}).find("2^61") != std::string::npos);
}

}  // namespace terrace::planner::tvm::test
