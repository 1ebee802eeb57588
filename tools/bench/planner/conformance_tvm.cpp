#include "daemon/planner/reuse/tvm/usmp.h"
#include "tools/bench/planner/conformance.h"
#include "tools/bench/planner/tvm_cases.h"

namespace terrace::bench {
namespace {

using nlohmann::json;
using planner::tvm::Pool;
using planner::tvm::PoolBuffer;
using planner::tvm::PoolBuffers;
using planner::tvm::Pools;

constexpr const char* tvm = "TVM 0.15";
constexpr const char* algorithms[] = {"greedy_by_size", "greedy_by_conflicts", "hill_climb"};

// Intervals are closed.
std::vector<PoolBuffer> buffers_of_intervals(const json& intervals) {
  std::vector<PoolBuffer> buffers;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    PoolBuffer buffer{std::to_string(i), intervals[i][2].get<std::uint64_t>(), 1, {}, {0}};
    for (std::size_t j = 0; j < intervals.size(); ++j)
      if (i != j && intervals[j][0] <= intervals[i][1] && intervals[i][0] <= intervals[j][1])
        buffer.conflicts.push_back(static_cast<std::uint32_t>(j));
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

// What each pool needs; empty if there is no plan.
std::vector<std::uint64_t> used(const std::string& algorithm, PoolBuffers buffers, Pools pools,
                                std::uint64_t enough) {
  const auto placement = algorithm == "greedy_by_size" ? planner::tvm::greedy_by_size(buffers, pools)
                         : algorithm == "greedy_by_conflicts"
                             ? planner::tvm::greedy_by_conflicts(buffers, pools)
                             : planner::tvm::hill_climb(buffers, pools, enough, {});
  return placement ? planner::tvm::used_bytes(buffers, pools, *placement) : std::vector<std::uint64_t>();
}

const std::vector<Pool> one_pool(1);

Json conflict_row(const json& cases) {
  Reproduced count(tvm, "workspaces of conflict cases");
  for (const char* name : {"linear", "fanout"}) {
    const auto buffers = buffers_in(cases[name], {0});
    for (const auto& [algorithm, expected] : cases[name]["expected_workspace"].items())
      count.expect(used(algorithm, buffers, one_pool, 0) == std::vector<std::uint64_t>{expected},
                   std::string(name) + " " + algorithm);
  }
  const json& ordering = cases["name_based_ordering"];
  const auto buffers = buffers_in(ordering, {0});
  for (const std::string algorithm : ordering["algorithms"]) {
    const auto placement = algorithm == "greedy_by_size" ? planner::tvm::greedy_by_size(buffers, one_pool)
                           : algorithm == "greedy_by_conflicts"
                               ? planner::tvm::greedy_by_conflicts(buffers, one_pool)
                               : planner::tvm::hill_climb(buffers, one_pool, 0, {});
    bool equal = static_cast<bool>(placement);
    for (std::size_t i = 0; equal && i < buffers.size(); ++i)
      equal = placement->offsets[i] == ordering["expected_offsets"][buffers[i].name];
    count.expect(equal, "name_based_ordering " + algorithm);
  }
  return count.row();
}

Json interval_row(const json& cases) {
  Reproduced count(tvm, "hill climbing within its tolerance of the bound");
  for (const auto& [name, c] : cases.items()) {
    const auto buffers = buffers_of_intervals(c["intervals"]);
    const auto bound = c["expected_lower_bound_max_load"].get<std::uint64_t>();
    const auto need = used("hill_climb", buffers, one_pool, bound);
    count.expect(need.size() == 1 && need[0] >= bound &&
                     need[0] * 100 <= bound * (100 + c["tolerance_percent"].get<std::uint64_t>()),
                 name);
  }
  return count.row();
}

Json network_row(const json& expected, const json& subgraphs) {
  Reproduced count(tvm, "workspaces of two networks");
  const json& resnet = expected["resnet_subgraph"];
  const json& mobilenet = expected["mobilenet_subgraph"];
  const auto one = buffers_in(subgraphs["resnet_subgraph"], {0});
  const auto two = buffers_in(subgraphs["mobilenet_subgraph"], {0, 1});
  const std::vector<Pool> pools{{mobilenet["fast_pool_capacity"].get<std::uint64_t>()},
                                {planner::tvm::unbounded}};
  for (const std::string algorithm : algorithms) {
    count.expect(used(algorithm, one, one_pool, resnet["memory_pressure_lower_bound"]) ==
                     std::vector<std::uint64_t>{resnet[algorithm]},
                 "resnet_subgraph " + algorithm);
    count.expect(
        used(algorithm, two, pools, mobilenet["memory_pressure_lower_bound"]) ==
            std::vector<std::uint64_t>{mobilenet[algorithm]["fast_used"], mobilenet[algorithm]["slow_used"]},
        "mobilenet_subgraph " + algorithm);
  }
  return count.row();
}

}  // namespace

std::vector<Json> tvm_conformance(const json& vectors, const json& subgraphs) {
  std::vector<Json> rows{conflict_row(vectors["conflict_cases"]), interval_row(vectors["interval_cases"])};
  if (!subgraphs.is_null()) rows.push_back(network_row(vectors["aggregate_expectations"], subgraphs));
  return rows;
}

}  // namespace terrace::bench
