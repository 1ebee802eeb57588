// The time models: how near they come from 64 KiB to 1 GiB, and what does not throw them off.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "compression/advisor/time_model.h"

namespace terrace::compression {
namespace {

constexpr TimePrior prior{1000, 0.3};

// A codec on a machine with caches: faster up to 2 MiB, slower beyond, work by values, branches by their
// edges.
double machine_ns(Work work) {
  const double n = static_cast<double>(work.bytes), d = work.fraction;
  const double cached = 1 / (1 + n / 4e6);
  return 3000 + n * ((0.06 + 0.05 * d) * (2 - cached) + 0.02 * d * (1 - d));
}

class Machine {
 public:
  explicit Machine(unsigned seed) : random_(seed) {}
  Work work() {
    const double log2_bytes = std::uniform_real_distribution<double>(16, 30)(random_);
    return {static_cast<std::uint64_t>(std::exp2(log2_bytes)),
            std::uniform_real_distribution<double>(0.02, 1)(random_)};
  }
  double noise() { return std::exp(std::normal_distribution<double>(0, 0.04)(random_)); }
  bool preempted() { return std::uniform_real_distribution<double>()(random_) < 0.05; }

 private:
  std::mt19937_64 random_;
};

double median_error(TimeModel& model, Machine& machine, int rounds, bool outliers) {
  std::vector<double> errors;
  for (int i = 0; i < rounds; ++i) {
    const Work work = machine.work();
    const double ns = machine_ns(work);
    errors.push_back(std::abs(model.predict_ns(work) / ns - 1));
    model.observe(work, ns * machine.noise() * (outliers && machine.preempted() ? 20 : 1));
  }
  std::nth_element(errors.begin(), errors.begin() + rounds / 2, errors.end());
  return errors[rounds / 2];
}

TEST_CASE("TimesAreWithinTenPercentFrom64KiBTo1GiB") {
  TimeModel model(prior);
  Machine machine(1);
  median_error(model, machine, 100, false);
  CHECK(median_error(model, machine, 400, false) < 0.05);
}

TEST_CASE("PreemptedMeasurementsDoNotCount") {
  TimeModel model(prior);
  Machine machine(2);
  median_error(model, machine, 200, true);
  CHECK(median_error(model, machine, 400, true) < 0.1);
}

TEST_CASE("OneOutlierMovesAConvergedModelLittle") {
  TimeModel model(prior);
  const Work work{2 << 20, 0.4};
  for (int i = 0; i < 50; ++i) model.observe(work, 1e6);
  model.observe(work, 5e7);
  CHECK(model.predict_ns(work) < 1.1e6);
}

TEST_CASE("OutliersInARowAreBelieved") {
  TimeModel model(prior);
  const Work work{2 << 20, 0.4};
  for (int i = 0; i < 200; ++i) model.observe(work, 1e6);
  for (int i = 0; i < 8; ++i) model.observe(work, 3e6);
  CHECK(model.predict_ns(work) == Approx(3e6).epsilon(0.1));
  for (int i = 0; i < 8; ++i) model.observe(work, 1e6);
  CHECK(model.predict_ns(work) == Approx(1e6).epsilon(0.1));
}

TEST_CASE("SlowDriftIsFollowed") {
  TimeModel model(prior);
  const Work work{2 << 20, 0.4};
  double ns = 1e6;
  for (int i = 0; i < 500; ++i) model.observe(work, ns *= 1.002);
  CHECK(model.predict_ns(work) == Approx(ns).epsilon(0.1));
}

TEST_CASE("UnseenSizesAreAskedOfTheNearest") {
  TimeModel model(prior);
  CHECK(model.predict_ns({1 << 20, 1}) == Approx(1000 + 0.3 * (1 << 20)));
  for (int i = 0; i < 30; ++i) model.observe({1 << 20, 0.5}, 50'000);
  CHECK(model.observations(1 << 20) == 30);
  CHECK(model.observations(std::uint64_t{1} << 30) == 0);
  const double of_large = model.predict_ns({std::uint64_t{1} << 30, 0.5});
  CHECK(of_large == Approx(50'000 * 1024.0).epsilon(0.2));
}

TEST_CASE("TheSameSizeForEverLeavesOthersSane") {
  TimeModel model(prior);
  const Work always{2 << 20, 0.38};
  for (int i = 0; i < 100'000; ++i) model.observe(always, machine_ns(always) * (i % 2 ? 0.97 : 1.03));
  CHECK(model.predict_ns(always) == Approx(machine_ns(always)).epsilon(0.05));
  for (const Work other : {Work{3 << 20, 0.38}, Work{2 << 20, 0.2}, Work{2 << 20, 0.9}}) {
    CHECK(model.predict_ns(other) > 0.5 * machine_ns(other));
    CHECK(model.predict_ns(other) < 2 * machine_ns(other));
  }
}

TEST_CASE("NonsenseIsIgnoredOrBounded") {
  TimeModel model(prior);
  const double before = model.predict_ns({1 << 20, 0.5});
  model.observe({0, 0.5}, 1000);
  for (const double ns :
       {0.0, -5.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    model.observe({1 << 20, 0.5}, ns);
  CHECK(model.predict_ns({1 << 20, 0.5}) == before);
  model.observe({UINT64_MAX, std::numeric_limits<double>::quiet_NaN()}, 1e300);
  model.observe({1, -7}, 1e-300);
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 20, UINT64_MAX})
    for (const double fraction : {0.0, 1.0, -1.0, 1e308, std::numeric_limits<double>::quiet_NaN()}) {
      const double ns = model.predict_ns({bytes, fraction});
      CHECK(std::isfinite(ns));
      CHECK(ns > 0);
    }
}

}  // namespace
}  // namespace terrace::compression
