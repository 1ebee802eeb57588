#include "tests/planner/memories/two_memories.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace terrace::planner::test {

Machine two_memories(std::uint64_t fast_bytes) {
  Machine m;
  m.name = "two memories";
  m.tiers = {{"fast", fast_bytes, {1e6, 1e6, 0, 0}}, {"slow", unlimited_bytes, {0.25e6, 0.1e6, 0, 0}}};
  m.links = {{"copies", 1e6, 1e6, 0, 0}};
  m.routes = {{1, {0}}};
  return m;
}

memories::Step on_two(const wire::Trace& trace, std::uint64_t fast_bytes) {
  Result<memories::Step> made = memories::step_on(trace, two_memories(fast_bytes));
  INFO(made.error);
  REQUIRE(made);
  return std::move(*made);
}

memories::Plan random_plan(Random& random, const memories::Step& step, std::uint32_t entries) {
  memories::Plan plan;
  for (std::size_t t = 0; t < step.tensors.size(); ++t) plan.born_fast.push_back(random() % 2 == 0);
  for (std::uint32_t i = 0; i < entries; ++i)
    plan.entries.push_back({static_cast<std::uint32_t>(random() % (step.ops.size() + 1)),
                            static_cast<std::uint32_t>(random() % step.tensors.size()),
                            static_cast<memories::Move>(random() % 3)});
  std::stable_sort(
      plan.entries.begin(), plan.entries.end(),
      [](const memories::Entry& a, const memories::Entry& b) { return a.position < b.position; });
  return plan;
}

}  // namespace terrace::planner::test
