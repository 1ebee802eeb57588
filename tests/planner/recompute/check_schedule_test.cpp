// The checker: what it prices, and every rule that a schedule can break.
#include <catch2/catch.hpp>

#include "daemon/planner/recompute/schedule.h"

namespace terrace::planner::recompute {
namespace {

Move compute(std::uint32_t i) { return {Move::Kind::compute, i}; }
Move drop(std::uint32_t s) { return {Move::Kind::free, s}; }

// constant 0 (8 bytes); operation 0 makes 1 (10) and 2 (5); 1 reads 1 and makes 3 (20); 2 reads 2 and 3,
// makes 4 (1).
Step diamond(bool repeatable = true) {
  StepBuilder builder;
  builder.add_constant(8);
  builder.add_operation(3, {0});
  if (!repeatable) builder.set_unrepeatable();
  builder.add_result(10);
  builder.add_result(5);
  builder.add_operation(4, {1});
  builder.set_workspace(2);
  builder.add_result(20);
  builder.add_operation(5, {2, 3});
  builder.add_result(1);
  return builder.finish();
}

std::string complaint(const Step& step, const Schedule& schedule, std::uint64_t budget = 1000) {
  return check_schedule(step, schedule, budget).wrong;
}

TEST_CASE("A schedule is priced by replaying it") {
  const Price price =
      check_schedule(diamond(), {compute(0), drop(2), compute(1), drop(1), compute(0), compute(2)}, 1000);
  CHECK(price.wrong.empty());
  CHECK(price.cost_ns == 3 + 4 + 3 + 5);
  CHECK(price.recomputations == 1);
  CHECK(price.peak_bytes == 8 + 10 + 5 + 20 + 1);
}

TEST_CASE("Running an operation for one of two results needs room for both") {
  const Schedule schedule{compute(0), drop(2), compute(1), compute(0), drop(1), compute(2)};
  // While operation 0 runs again: the constant, 1, 3, and both results anew.
  CHECK(check_schedule(diamond(), schedule, 1000).peak_bytes == 8 + 10 + 20 + 15);
  CHECK(complaint(diamond(), schedule, 53).empty());
  CHECK(complaint(diamond(), schedule, 52) == "move 3: operation 0 does not fit into the budget");
}

TEST_CASE("Workspace counts while the operation runs") {
  const Schedule schedule{compute(0), compute(1), drop(1), compute(2)};
  CHECK(check_schedule(diamond(), schedule, 1000).peak_bytes == 8 + 15 + 20 + 2);
}

TEST_CASE("Broken schedules are refused") {
  const Step step = diamond();
  CHECK(complaint(step, {compute(1)}) == "move 0: operation 1 reads what is not there");
  CHECK(complaint(step, {compute(0), drop(1), compute(1)}) == "move 2: operation 1 reads what is not there");
  CHECK(complaint(step, {drop(0)}) == "move 0: storage 0 is a constant");
  CHECK(complaint(step, {drop(1)}) == "move 0: storage 1 is freed but not there");
  CHECK(complaint(step, {compute(3)}) == "move 0: operation 3 does not exist");
  CHECK(complaint(step, {drop(5)}) == "move 0: storage 5 does not exist");
  CHECK(complaint(step, {compute(0), compute(1)}) == "operation 2 has not run");
  CHECK(complaint(step, {compute(0), compute(1), compute(2), drop(4)}) ==
        "storage 4 is not there at the end");
  CHECK(complaint(step, {}, 7) == "the constants do not fit into the budget");
}

TEST_CASE("What cannot be repeated runs once") {
  const Step step = diamond(false);
  CHECK(complaint(step, {compute(0), compute(0)}) == "move 1: operation 0 cannot be repeated");
  CHECK(complaint(step, {compute(0), compute(1), compute(2)}).empty());
}

}  // namespace
}  // namespace terrace::planner::recompute
