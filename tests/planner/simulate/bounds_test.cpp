// Lower bounds worked out by hand.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {

using namespace test;

TEST_CASE("Bytes: all that lives, and the largest operation") {
  const wire::Trace t = step({tensor(1000, true), tensor(10), tensor(20), tensor(7)},
                             {op(1, {}, {1}), op(1, {1, 1}, {2}, 5), op(1, {2}, {1}), op(1, {1}, {})});
  const LowerBounds b = lower_bounds(t, two_tiers(2000));
  CHECK(b.max_live_bytes == 1035);
  CHECK(b.largest_op_bytes == 35);
  CHECK(b.compute_us == 4);
  CHECK(b.transfer_us == 0);
  CHECK(b.step_us == 4);
}

TEST_CASE("The critical path follows readers and writers") {
  // 0 -> 2 -> 4; 1 stands alone; 3 overwrites what 2 read.
  const wire::Trace t =
      step({tensor(1), tensor(1), tensor(1)},
           {op(10, {}, {0}), op(100, {}, {2}), op(20, {0}, {1}), op(5, {}, {0}), op(30, {1}, {})});
  CHECK(lower_bounds(t, two_tiers(10)).critical_path_us == 100);
  wire::Trace chain = t;
  chain.ops[1].time_us = 1;
  CHECK(lower_bounds(chain, two_tiers(10)).critical_path_us == 60);
  chain.ops[3].time_us = 50;
  CHECK(lower_bounds(chain, two_tiers(10)).critical_path_us == 80);
}

TEST_CASE("The excess leaves before the fullest operation ends and returns after") {
  // A (100) rests while B (100) fills memory of 150: 50 bytes leave and return.
  const wire::Trace t = step({tensor(100), tensor(100)}, {op(10, {}, {0}), op(20, {}, {1}), op(5, {0}, {})});
  const LowerBounds b = lower_bounds(t, two_tiers(150));
  CHECK(b.transfer_us == Approx(100));
  CHECK(b.step_us == Approx(100));
  wire::Trace slow = t;
  slow.ops[1].time_us = 200;
  CHECK(lower_bounds(slow, two_tiers(150)).step_us == Approx(260));
  // What will be written over need not return.
  wire::Trace over = t;
  over.ops[2] = op(5, {}, {0});
  CHECK(lower_bounds(over, two_tiers(150)).transfer_us == 0);
}

TEST_CASE("A near tier that fills up leaves the rest to the far one") {
  // 50 bytes must leave; the host takes 20 of them, at 6 of the link's 10 while the SSD takes 4, so the SSD's
  // 30 decide: 7.5 µs.
  Machine m = two_tiers(150);
  m.tiers[1].capacity_bytes = 20;
  m.tiers.push_back({"ssd", unlimited_bytes});
  m.links = {{"pcie", 10e6, 10e6, 0, 0}, {"ssd", 4e6, 4e6, 0, 0}};
  m.routes = {{1, {0}}, {2, {0, 1}}};
  const wire::Trace t = step({tensor(100), tensor(100)}, {op(0, {}, {0}), op(0, {}, {1}), op(0, {0}, {})});
  CHECK(lower_bounds(t, m).transfer_us == Approx(15));
  m.tiers[1].capacity_bytes = unlimited_bytes;
  CHECK(lower_bounds(t, m).transfer_us == Approx(10));
  m.tiers[1].capacity_bytes = 20;
  m.tiers[2].capacity_bytes = 20;
  CHECK(std::isinf(lower_bounds(t, m).transfer_us));
}

}  // namespace terrace::planner
