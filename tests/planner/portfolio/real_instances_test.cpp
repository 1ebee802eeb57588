// Real training steps, and large ones made in their likeness, reach what is claimed within a number of steps.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string_view>

#include "daemon/planner/reuse/families.h"
#include "daemon/planner/trace_json.h"
#include "tests/planner/reference_data.h"
#include "tools/import/import.h"

namespace terrace::planner {
namespace {

// How far above the bound, as a share of it. The placement is checked.
double gap(const Instance& instance, std::uint64_t steps) {
  SearchControl control;
  control.steps = steps;
  const Result<Placement> placed = terrace_policies().at(0).place(instance, control);
  REQUIRE(placed);
  REQUIRE_THAT(check_placement(instance, *placed), Catch::Equals(""));
  const std::uint64_t bound = max_live_bytes(instance.buffers);
  return static_cast<double>(placed->total_bytes - bound) / static_cast<double>(bound);
}

std::optional<Instance> csv(const std::string& name) {
  const std::optional<std::string> text = test::reference_data(name);
  if (!text) return std::nullopt;
  return test::instance_from_csv(name, *text);
}

// A training step of `layers` layers: what the forward pass saves dies in reverse, each layer has scratch in
// both passes, a skip connection and a stray. Sizes spread over decades, lives too.
Instance training_step(std::uint32_t layers, double spread, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  const auto bytes = [&] {
    const double normal = std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307 * uniform());
    return static_cast<std::uint64_t>(64 + std::exp(12 + spread * normal));
  };
  const std::uint32_t end = layers * 4 + 8;
  const auto within = [&](double t) { return static_cast<std::uint32_t>(std::min<double>(t, end)); };
  Instance step{"training step of " + std::to_string(layers) + " layers", {}, nullptr};
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::uint32_t there = layer * 2;
    const std::uint32_t back = layers * 4 - layer * 2;
    const auto life = [&](std::uint32_t lower, double length) {
      step.buffers.push_back({bytes(), lower, std::max(lower + 1, within(lower + length)), 1, no_tensor});
    };
    life(there, back - there + 2 * uniform());
    life(there, 1 + 4 * uniform());
    life(back, 1 + 3 * uniform());
    life(back + 1, 1 + 2 * uniform());
    life(there, 1 - 50 * std::log(uniform()));
    life(static_cast<std::uint32_t>(uniform() * (end - 2)), std::pow(uniform(), -1.4));
  }
  return step;
}

}  // namespace

TEST_CASE("ResNet-50 and G_1 lie at the bound") {
  if (const auto instance = csv("dsa/resnet50.csv")) CHECK(gap(*instance, 200'000) == 0);
  if (const auto instance = csv("dsa/G_1.csv")) CHECK(gap(*instance, 200'000) == 0);
}

TEST_CASE("PanGu with 2.6 billion parameters lies within 0.1% of the bound") {
  if (const auto instance = csv("dsa/pangu_2.6B.csv")) CHECK(gap(*instance, 3'000'000) <= 0.001);
}

TEST_CASE("The lifetimes of a profile of a distributed transformer lie within 0.5% of the bound") {
  const auto text = test::reference_data("kineto/df_index_resolver.json.gz");
  if (!text) return;
  const Result<import::Imported> imported = import::import_kineto(*text);
  REQUIRE(imported);
  CHECK(gap(instance_of(imported->trace), 300'000) <= 0.005);
}

TEST_CASE("All training steps of DTR lie at the bound") {
  for (const char* name : {"inceptionv4-64", "lstm-128", "resnet32-56", "transformer-10", "treelstm-6",
                           "tv_densenet121-84", "unet-6", "unroll_gan-512"}) {
    const auto text = test::reference_data(std::string("dtr/") + name + ".json.gz");
    if (!text) return;
    const Result<wire::Trace> trace = parse_trace(*text);
    REQUIRE(trace);
    INFO(name);
    CHECK(gap(instance_of(*trace), 3'000'000) == 0);
  }
}

TEST_CASE("Steps of 30,000 to 60,000 buffers lie within 1% of the bound") {
  CHECK(gap(training_step(5'000, 1.5, 1), 100'000) <= 0.01);
  CHECK(gap(training_step(10'000, 2.5, 2), 200'000) <= 0.01);
}

TEST_CASE("Thirty thousand lives without any structure lie within 1%, too") {
  const Instance shapeless = test::random_instance(3, 30'000, 30'000, 1'000'000);
  CHECK(gap(shapeless, 400'000) <= 0.01);
}

TEST_CASE("No policy is better on real instances") {
  for (const char* name :
       {"dsa/resnet50.csv", "dsa/G_1.csv", "minimalloc/A.1048576.csv", "minimalloc/B.1048576.csv",
        "minimalloc/C.1048576.csv", "minimalloc/D.1048576.csv", "minimalloc/F.1048576.csv",
        "minimalloc/H.1048576.csv", "minimalloc/I.1048576.csv"}) {
    const auto instance = csv(name);
    if (!instance) return;
    const double ours = gap(*instance, 200'000);
    for (const ReusePolicy& other : reuse_policies()) {
      SearchControl control;
      control.steps = 200'000;
      int asked = 0;  // the exact search alone goes on until it is told to stop
      if (std::string_view(other.family) == "search") control.stop = [&] { return ++asked > 16; };
      const Result<Placement> theirs = other.place(*instance, control);
      if (!theirs) continue;
      INFO(name << ", " << other.name);
      const std::uint64_t bound = max_live_bytes(instance->buffers);
      CHECK(ours <= static_cast<double>(theirs->total_bytes - bound) / static_cast<double>(bound));
    }
  }
}

}  // namespace terrace::planner
