// The judge must be right before anything else is: every kind of damage is caught, and what is right passes.
#include <catch2/catch.hpp>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {
namespace {

// Three buffers: 0 and 1 alive together, 2 after 0.
Instance small() { return {"small", {{8, 0, 2, 4, 0}, {4, 1, 3, 4, 1}, {8, 2, 4, 4, 2}}, nullptr}; }

bool says(const Placement& placement, const char* word) {
  return check_placement(small(), placement).find(word) != std::string::npos;
}

}  // namespace

TEST_CASE("A right placement passes") { CHECK(check_placement(small(), {{0, 8, 0}, 12}).empty()); }

TEST_CASE("Every kind of damage is caught") {
  CHECK(says({{0, 4, 8}, 16}, "overlaps"));
  CHECK(says({{0, 8, 4}, 12}, "overlaps"));
  CHECK(says({{0, 10, 0}, 14}, "aligned"));
  CHECK(says({{0, 8, 0}, 11}, "beyond the total"));
  CHECK(says({{0, 8}, 12}, "2 offsets"));
  CHECK(says({{0, 8, ~std::uint64_t{0} - 3}, 12}, "beyond the total"));
}

TEST_CASE("Buffers may follow each other at one address") {
  const Instance chain{"chain", {{16, 0, 1, 1, 0}, {16, 1, 2, 1, 1}, {16, 2, 3, 1, 2}}, nullptr};
  CHECK(check_placement(chain, {{0, 0, 0}, 16}).empty());
  CHECK(max_live_bytes(chain.buffers) == 16);
}

TEST_CASE("Max live counts what begins when another ends only once") {
  CHECK(max_live_bytes(small().buffers) == 12);
  CHECK(max_live_bytes({}) == 0);
}

TEST_CASE("A trace becomes buffers by first and last use") {
  wire::Trace trace;
  trace.tensors = {{0, 100, wire::TensorKind::weight, true, {}, {}, {}},
                   {1, 10, {}, false, {}, {}, {}},
                   {2, 20, {}, false, {}, {}, {}},
                   {3, 7, {}, false, {}, {}, {}}};
  trace.ops = {
      {"a", 1, {0}, {1}, 0, {}, true}, {"b", 1, {1}, {2}, 5, {}, true}, {"c", 1, {2, 0}, {}, 0, {}, true}};
  const Instance instance = instance_of(trace);
  REQUIRE(instance.buffers.size() == 4);  // nothing names tensor 3
  CHECK((instance.buffers[0].lower == 0 && instance.buffers[0].upper == 3));
  CHECK((instance.buffers[1].lower == 0 && instance.buffers[1].upper == 2));
  CHECK((instance.buffers[2].lower == 1 && instance.buffers[2].upper == 3));
  CHECK((instance.buffers[3].bytes == 5 && instance.buffers[3].lower == 1 && instance.buffers[3].upper == 2));
  CHECK(max_live_bytes(instance.buffers) == 135);
}

}  // namespace terrace::planner
