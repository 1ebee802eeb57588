#include "daemon/planner/simulate/perfetto.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/planner/simulate/random_plans.h"

namespace terrace::planner {

using namespace test;

TEST_CASE("A timeline becomes events of Chrome's format, whatever the names are") {
  wire::Trace t = step({tensor(100), tensor(100), tensor(10)},
                       {op(10, {}, {0}), op(200, {}, {1}), op(30, {1}, {2}), op(10, {0, 2}, {})});
  t.ops[1].name = "with \"quotes\" and \xff";
  SimulationOptions options;
  options.record_timeline = true;
  const auto r =
      simulate(t, two_tiers(210),
               {"", "", {{1, 0, wire::Action::out, 1, {}}, {2, 0, wire::Action::in, 1, {}}}}, options);
  REQUIRE(r);
  const auto json = nlohmann::json::parse(perfetto_json(t, two_tiers(210), *r));
  int operations = 0;
  int transfers = 0;
  int stalls = 0;
  int samples = 0;
  double memory = 0;
  for (const auto& e : json.at("traceEvents")) {
    if (e.at("ph") == "C") {
      ++samples;
      memory = std::max(memory, e.at("args").at("bytes").get<double>());
    }
    if (e.at("ph") != "X") continue;
    operations += e.at("tid") == 1 ? 1 : 0;
    stalls += e.at("tid") == 2 ? 1 : 0;
    transfers += e.at("tid") > 2 ? 1 : 0;
  }
  CHECK(operations == 4);
  CHECK(transfers == 2);
  CHECK(stalls == 1);
  CHECK(samples == 2 * static_cast<int>(r->memory.size()));
  CHECK(memory == 210);
}

}  // namespace terrace::planner
