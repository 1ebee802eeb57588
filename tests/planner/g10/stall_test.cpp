// The stall model, against worked figures of the artifact's log of Inceptionv3-1536.
#include <catch2/catch.hpp>

#include "daemon/planner/g10/simulator/link.h"
#include "daemon/planner/g10/simulator/stall.h"

namespace terrace::planner::g10 {
namespace {

Kernel kernel_of_seconds(std::uint32_t all, std::uint32_t input) {
  Kernel kernel;
  kernel.all_seconds = all;
  kernel.input_seconds = input;
  return kernel;
}

TEST_CASE("A kernel without a fault profile allocates at the link's rate") {
  const FaultedPages outputs{402305, 0, 402305};
  CHECK(stall_cycles({}, kernel_of_seconds(0, 0), {}, outputs) + 708735498 == 834253432);
}

TEST_CASE("New outputs take the profiled difference") {
  const FaultedPages outputs{1065682, 0, 1065682};
  CHECK(stall_cycles({}, kernel_of_seconds(1, 1), {402305, 0, 0}, outputs) == 1200000000);
}

TEST_CASE("SSD faults narrow what is left of the link") {
  const FaultedPages inputs{1065651, 3, 0};
  const FaultedPages outputs{2131299, 0, 2131299};
  CHECK(stall_cycles({}, kernel_of_seconds(1, 0), inputs, outputs) + 142341733 == 965122465);
}

TEST_CASE("Without faults there is no stall") {
  CHECK(stall_cycles({}, kernel_of_seconds(3, 1), {100, 0, 0}, {100, 0, 0}) == 0);
  CHECK(stall_cycles({}, kernel_of_seconds(3, 1), {}, {}) == 0);
}

TEST_CASE("SSD and host work side by side, inputs and outputs one after the other") {
  const std::uint64_t ssd = stall_cycles({}, kernel_of_seconds(0, 0), {1000, 1000, 0}, {500, 500, 0});
  CHECK(ssd == static_cast<std::uint64_t>(1500 * 4096 / 3.2e9 * 1.2e9));
  CHECK(stall_cycles({}, kernel_of_seconds(0, 0), {1100, 1000, 100}, {500, 500, 0}) == ssd);
}

TEST_CASE("A tick's budgets are whole pages") {
  const TickBudget budget = tick_budget({});
  CHECK(budget.cycles == 15599);
  CHECK(budget.link == 50);
  CHECK(budget.ssd == 10);
  CHECK(budget.allocations == 3899);
}

}  // namespace
}  // namespace terrace::planner::g10
