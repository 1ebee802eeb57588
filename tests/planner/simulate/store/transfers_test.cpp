// Links: sharing, latency, order in a queue, room in the tiers beyond.
#include <catch2/catch.hpp>

#include "daemon/planner/schedule_period.h"
#include "daemon/planner/simulate/store/network.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using wire::Action;

// Host over the first link at 10 bytes/µs; SSD behind it at 4.
Machine three_tiers() {
  Machine m = two_tiers(1000);
  m.tiers.push_back({"ssd", unlimited_bytes});
  m.links = {{"pcie", 10e6, 10e6, 0, 0}, {"ssd", 4e6, 4e6, 0, 0}};
  m.routes = {{1, {0}}, {2, {0, 1}}};
  return m;
}

wire::Trace two_that_leave(double time_us) {
  return step({tensor(100), tensor(100), tensor(1)},
              {op(0, {}, {0, 1}), op(time_us, {}, {2}), op(0, {0, 1, 2}, {})});
}

}  // namespace

TEST_CASE("Routes that share a link share its bandwidth; the slower leaves the rest to the other") {
  const auto r =
      simulated(two_that_leave(100), three_tiers(), {{1, 0, Action::out, 1, {}}, {1, 1, Action::out, 2, {}}});
  REQUIRE(r.transfers.size() >= 2);
  // The SSD takes 4, the host the other 6 until 100/6; then the SSD is not faster alone.
  CHECK(r.transfers[0].end_us == Approx(100.0 / 6));
  CHECK(r.transfers[1].end_us == Approx(25));
  CHECK(r.links[0].out_bytes == Approx(200));
  CHECK(r.links[0].out_busy_us == Approx(25));
  CHECK(r.links[1].out_bytes == Approx(100));
}

TEST_CASE("Equal claims on a link get equal shares, and all of it when the other ends") {
  Machine m = three_tiers();
  m.links[1].out_bytes_per_second = 8e6;
  wire::Trace t = two_that_leave(100);
  t.tensors[0].bytes = 50;
  const auto r = simulated(t, m, {{1, 0, Action::out, 1, {}}, {1, 1, Action::out, 2, {}}});
  CHECK(r.transfers[0].end_us == Approx(10));             // 5 each
  CHECK(r.transfers[1].end_us == Approx(10 + 50.0 / 8));  // then the SSD's own 8
}

TEST_CASE("A link that serves by deadline brings first what is needed first") {
  const wire::Trace t = step({tensor(100), tensor(100), tensor(1)},
                             {op(0, {}, {0, 1}), op(200, {}, {2}), op(100, {1}, {}), op(0, {0}, {})});
  wire::Schedule s{"",
                   "",
                   {{1, 0, Action::out, 1, {}},
                    {1, 1, Action::out, 1, {}},
                    {2, 0, Action::in, 1, {}},
                    {2, 1, Action::in, 1, {}}}};
  give_deadlines(t, &s);
  const Machine m = two_tiers(1000);
  const auto late_us = [&](wire::Order order) {
    s.in_order = order;
    const auto r = simulate(t, m, s, {.record_timeline = true});
    REQUIRE(r);
    CHECK_THAT(check_timeline(t, m, *r), Catch::Equals(""));
    const wire::Prediction p = prediction_of(*r);
    CHECK((p.step_us == r->total_us && p.late_us == r->stalls.late_prefetch_us && p.fetch_us == 0));
    CHECK(p.tier_peak_bytes == r->tier_peak_bytes);
    return p.late_us;
  };
  CHECK(late_us(wire::Order::asked) == Approx(200));  // tensor 0 is moved first, and its operation is last
  CHECK(late_us(wire::Order::deadline) == Approx(100));
}

TEST_CASE("Directions do not disturb each other, nor do the queues of one route") {
  const wire::Trace t = step({tensor(100), tensor(100), tensor(1)},
                             {op(0, {}, {0, 1}), op(100, {}, {2}), op(100, {2}, {}), op(0, {0, 1, 2}, {})});
  const auto r = simulated(
      t, three_tiers(), {{1, 0, Action::out, 1, {}}, {2, 0, Action::in, 1, {}}, {2, 1, Action::out, 1, {}}});
  CHECK(r.transfers[1].end_us == Approx(110));
  CHECK(r.transfers[2].end_us == Approx(110));
}

TEST_CASE("One queue carries one transfer at a time, in order") {
  const auto r =
      simulated(two_that_leave(100), three_tiers(), {{1, 1, Action::out, 1, {}}, {1, 0, Action::out, 1, {}}});
  CHECK(r.transfers[0].tensor == 1);
  CHECK(r.transfers[0].end_us == Approx(10));
  CHECK(r.transfers[1].start_us == Approx(10));
  CHECK(r.transfers[1].end_us == Approx(20));
}

TEST_CASE("Latency is paid by each transfer, and blocks its queue but not the link") {
  Machine m = three_tiers();
  m.links[0].out_latency_us = 3;
  m.links[1].out_latency_us = 2;
  const auto r = simulated(two_that_leave(100), m, {{1, 0, Action::out, 1, {}}, {1, 1, Action::out, 2, {}}});
  // Host: 3 + alone until 5 at 10 (20 bytes), then 80 at 6; SSD: 5, then 100 at 4.
  CHECK(r.transfers[0].end_us == Approx(5 + 80.0 / 6));
  CHECK(r.transfers[1].end_us == Approx(30));
}

TEST_CASE("An eviction waits for room in its tier") {
  Machine m = three_tiers();
  m.tiers[1].capacity_bytes = 150;
  const wire::Trace t = step({tensor(100), tensor(100), tensor(1)},
                             {op(0, {}, {0, 1}), op(100, {}, {2}), op(100, {0, 2}, {}), op(0, {1}, {})});
  const auto r = simulated(t, m, {{1, 0, Action::out, 1, {}}, {1, 1, Action::out, 1, {}}});
  REQUIRE(r.transfers.size() == 4);
  CHECK(r.transfers[1].in);
  CHECK(r.transfers[1].end_us == Approx(110));  // tensor 0 fetched on demand: its room is free
  CHECK(r.transfers[2].start_us == Approx(110));
  CHECK(r.tier_peak_bytes[1] == 100);
}

TEST_CASE("A prefetch waits for room, and leaves what the waiting operation needs") {
  // 210 bytes. A away; B and C fill memory until C dies at 300; D of 100 is claimed by operation 4 first.
  const wire::Trace t = step({tensor(100), tensor(100), tensor(100), tensor(100)},
                             {op(10, {}, {0}), op(200, {}, {1}), op(100, {1}, {2}), op(10, {2}, {2}),
                              op(500, {1}, {3}), op(5, {0}, {})});
  const auto r = simulated(t, two_tiers(210), {{1, 0, Action::out, 1, {}}, {3, 0, Action::in, 1, {}}});
  CHECK(r.ops[4].start_us == 320);
  REQUIRE(r.transfers.size() == 2);
  CHECK(r.transfers[1].queued_us == 310);
  CHECK(r.transfers[1].start_us == 820);
  CHECK(r.stalls.late_prefetch_us + r.stalls.room_us == 100);
}

TEST_CASE("Rates follow max-min fairness over any number of links") {
  Machine m = three_tiers();
  m.tiers.push_back({"remote", unlimited_bytes});
  m.links.push_back({"net", 1e6, 1e6, 0, 0});
  m.routes.push_back({3, {0, 2}});
  Network n(m);
  std::vector<std::uint32_t> ended;
  for (std::uint32_t route = 0; route < 3; ++route) n.start(Network::lane(route, true), 60);
  CHECK(n.next_us() == Approx(12));  // 5, 4 and 1 bytes/µs
  n.advance(n.next_us(), &ended);
  CHECK(ended == std::vector<std::uint32_t>{Network::lane(0, true)});
  CHECK(n.next_us() == Approx(15));
  n.abort(Network::lane(1, true));
  CHECK(n.next_us() == Approx(60));
  CHECK(n.use()[0].in_bytes == Approx(120));
}

}  // namespace terrace::planner
