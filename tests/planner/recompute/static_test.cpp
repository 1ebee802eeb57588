// Plans made ahead: stages, Chen's segments, the chain programme against an exhaustive search, Checkmate's
// rounding.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "daemon/planner/recompute/static/chain.h"
#include "daemon/planner/recompute/static/policies.h"
#include "daemon/planner/recompute/static/stages.h"
#include "tests/planner/recompute/random_steps.h"
#include "tests/planner/recompute/shortest.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner::recompute {
namespace {

// As text: c for compute, f for free.
std::string text_of(const Schedule& schedule) {
  std::string text;
  for (const Move& m : schedule)
    text += (m.kind == Move::Kind::compute ? " c" : " f") + std::to_string(m.index);
  return text;
}

std::int64_t cost_of(const Step& step, const Result<Schedule>& schedule, std::uint64_t budget_bytes) {
  REQUIRE(schedule);
  const Price price = check_schedule(step, *schedule, budget_bytes);
  INFO(price.wrong);
  REQUIRE(price.wrong.empty());
  return price.cost_ns;
}

// A chain with random sizes and costs.
Step random_chain(std::uint64_t seed, std::uint32_t layers) {
  std::mt19937_64 random(seed);
  NodeGraph graph;
  for (std::uint32_t i = 0; i < 2 * layers + 1; ++i) {
    graph.cost_ns.push_back(1 + static_cast<std::int64_t>(random() % 9));
    graph.bytes.push_back(1 + random() % 5);
    if (i > 0) graph.edges.emplace_back(i - 1, i);
  }
  for (std::uint32_t l = 0; l < layers; ++l) {
    graph.edges.emplace_back(l, 2 * layers - l);
    if (l + 1 < layers) graph.edges.emplace_back(l, 2 * layers - l - 1);
  }
  graph.backward_begins = layers + 1;
  const auto step = step_of(graph);
  REQUIRE(step);
  return *step;
}

TEST_CASE("Stages run what was not kept, in order, and free after the last use") {
  // 0 -> 1 -> 2, and operation 3 reads 2 and 0.
  StepBuilder builder;
  test::add_line(&builder, 3, 1);
  builder.add_operation(1, {2, 0});
  builder.add_result(1);
  const Step step = builder.finish();
  CHECK(text_of(keep_all(step)) == " c0 c1 c2 f1 c3 f2 f0");
  Stages to_last(step);
  for (std::uint32_t s = 0; s < step.storages.size(); ++s) to_last.keep_to_last_reader(s);
  CHECK(text_of(to_last.schedule()) == " c0 c1 c2 f1 c3 f0 f2");
  Stages stages(step);
  stages.keep(1, 0);
  stages.keep(2, 1);
  stages.keep(3, 0);
  CHECK(text_of(stages.schedule()) == " c0 c1 f0 c0 c2 f1 f2 c1 c2 f1 c3 f0 f2");
}

TEST_CASE("Keeping all costs what the step costs and needs its peak") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Step step = test::random_step(seed, 70);
    const Price price = check_schedule(step, keep_all(step), peak_bytes_of(step));
    REQUIRE(price.wrong.empty());
    CHECK(price.cost_ns == step.cost_ns);
    CHECK(price.peak_bytes == peak_bytes_of(step));
  }
}

TEST_CASE("Any choice of what is kept gives a valid schedule") {
  std::mt19937_64 random(7);
  std::int64_t most_ns = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Step step = test::random_step(seed, 40);
    Stages stages(step);
    for (std::uint32_t t = 1; t < step.operations.size(); ++t)
      for (std::uint32_t s = 0; s < step.storages.size(); ++s)
        if (random() % 2 == 0) stages.keep(t, s);
    const Price price = check_schedule(step, stages.schedule(), ~std::uint64_t{0});
    INFO(price.wrong);
    REQUIRE(price.wrong.empty());
    most_ns = std::max(most_ns, price.cost_ns - step.cost_ns);
  }
  CHECK(most_ns > 0);
}

TEST_CASE("Chen's segments of about sqrt(n) run everything but their ends twice") {
  // 17 operations forward: segments of 4, 4, 4, 4 and the loss. Each of the first four hands on its last
  // output.
  const Step step = test::unit_chain(16);
  const auto schedule = chen_sqrt(step);
  CHECK(cost_of(step, schedule, 1000) == 33 + 4 * 3);
  // Ends of four segments, the three others of the one that is made again, and two gradients.
  CHECK(check_schedule(step, *schedule, 1000).peak_bytes == 4 + 3 + 2);
  CHECK(chen_sqrt(test::unit_chain(5'000)).error == "the step has more than 10,000 operations");
  CHECK(chen_sqrt(test::random_step(1, 20)).error ==
        "the step has no forward pass with a backward pass after it");
}

TEST_CASE("Chen's greedy segments keep to the budget, and cost no more where there is more of it") {
  const Step step = test::unit_chain(30);
  std::int64_t before = 0;
  std::uint32_t planned = 0;
  for (std::uint64_t budget = peak_bytes_of(step); budget >= least_bytes_of(step); --budget) {
    const auto schedule = chen_greedy(step, budget);
    if (!schedule) break;
    const std::int64_t cost = cost_of(step, schedule, budget);
    CHECK(cost >= before);
    before = cost;
    ++planned;
  }
  CHECK(planned > 15);
  CHECK(before > step.cost_ns);
  CHECK(cost_of(step, chen_greedy(step, peak_bytes_of(step)), peak_bytes_of(step)) == step.cost_ns);
}

TEST_CASE("A chain is recognised, and what is none is refused with the place") {
  const auto chain = chain_of(test::unit_chain(5));
  REQUIRE(chain);
  CHECK(chain->count() == 5);
  CHECK(chain->layers[2].forward == 1);
  CHECK(chain->layers[2].backward == 9);
  CHECK(chain_of(test::random_step(1, 21)).error.starts_with("no chain: "));
  NodeGraph skip{
      {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {{0, 1}, {1, 2}, {2, 3}, {1, 3}, {0, 3}, {3, 4}, {0, 4}, {1, 4}}};
  CHECK(chain_of(*step_of(skip)).error == "no chain: layer 1 reads otherwise");
}

TEST_CASE("A graph of nodes with an edge backward is refused") {
  CHECK_FALSE(step_of(NodeGraph{{1, 1}, {1, 1}, {{1, 0}}}));
  CHECK_FALSE(step_of(NodeGraph{{1, 1}, {1, 1}, {{0, 2}}}));
  CHECK_FALSE(step_of(NodeGraph{{1, 1}, {1}, {{0, 1}}}));
}

// A schedule that drops a checkpoint before its use and makes it again can be cheaper: the programme's are
// persistent.
TEST_CASE("The chain programme finds a schedule where there is one, nearly always the cheapest") {
  std::uint32_t compared = 0, recomputing = 0, cheapest = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Step step = random_chain(seed, 2 + static_cast<std::uint32_t>(seed % 5));
    for (std::uint64_t budget = least_bytes_of(step); budget <= peak_bytes_of(step); ++budget) {
      INFO("seed " << seed << ", budget " << budget);
      const auto least = test::least_cost_ns(step, budget);
      const auto schedule = chain_programme(step, budget);
      REQUIRE(schedule.value.has_value() == least.has_value());
      if (!least) continue;
      const std::int64_t cost = cost_of(step, schedule, budget);
      CHECK(cost >= *least);
      ++compared;
      cheapest += cost == *least ? 1 : 0;
      recomputing += *least > step.cost_ns ? 1 : 0;
    }
  }
  CHECK(compared > 300);
  CHECK(recomputing > 200);
  CHECK(cheapest >= compared * 95 / 100);
}

TEST_CASE("More budget never costs the chain programme more") {
  const Step step = random_chain(99, 40);
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  std::uint32_t planned = 0;
  for (std::uint64_t budget = least_bytes_of(step); budget <= peak_bytes_of(step); ++budget) {
    const auto schedule = chain_programme(step, budget);
    if (!schedule) continue;
    const std::int64_t cost = cost_of(step, schedule, budget);
    CHECK(cost <= before);
    before = cost;
    ++planned;
  }
  CHECK(planned > 50);
  CHECK(before == step.cost_ns);
}

TEST_CASE("Fewer slots cost a little more and stay within the budget") {
  const Step step = random_chain(5, 30);
  const std::uint64_t budget = (peak_bytes_of(step) + least_bytes_of(step)) / 2;
  const std::int64_t exact = cost_of(step, chain_programme(step, budget), budget);
  const std::int64_t coarse = cost_of(step, chain_programme(step, budget, 30), budget);
  CHECK(coarse >= exact);
}

TEST_CASE("Checkmate's rounding is valid and no better than the optimum") {
  std::uint32_t planned = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Step step = random_chain(seed, 6);
    const std::uint64_t budget = peak_bytes_of(step) - 2;
    const auto schedule = checkmate_rounded(step, budget);
    if (!schedule) continue;
    const auto least = test::least_cost_ns(step, budget);
    REQUIRE(least);
    CHECK(cost_of(step, schedule, budget) >= *least);
    ++planned;
  }
  CHECK(planned >= 4);
  CHECK_FALSE(checkmate_rounded(test::unit_chain(110), 1000));
}

TEST_CASE("Checkmate's chains are within 1% of the integer programme") {
  const auto text = test::reference_data("checkmate_chain_instances.json");
  if (!text) return;
  const nlohmann::json data = nlohmann::json::parse(*text);
  REQUIRE(data["instances"].size() == 10);
  for (const auto& instance : data["instances"]) {
    NodeGraph graph;
    graph.cost_ns = instance["cpu"].get<std::vector<std::int64_t>>();
    graph.bytes = instance["ram"].get<std::vector<std::uint64_t>>();
    graph.edges = instance["edges"].get<std::vector<std::pair<std::uint32_t, std::uint32_t>>>();
    const auto step = step_of(graph);
    REQUIRE(step);
    const std::uint64_t budget = instance["budget"];
    const auto cost = static_cast<double>(cost_of(*step, chain_programme(*step, budget), budget));
    CHECK(cost <= 1.01 * instance["best_objective"].get<double>());
    if (instance["lower_bound"].is_number())
      CHECK(cost >= std::ceil(instance["lower_bound"].get<double>() - 1e-6));
  }
}

}  // namespace
}  // namespace terrace::planner::recompute
