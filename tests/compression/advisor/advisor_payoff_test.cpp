// The pay-off rules against cases worked out by hand: break-even sparsities for links and codecs of known
// speed.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "compression/advisor/payoff.h"

namespace terrace::compression {
namespace {

TEST_CASE("BreakEvenSparsitiesAreThoseOfTheTable") {
  struct Row {
    double link, codec, sparsity;  // over 1: never
  };
  const Row table[] = {{7, 2800, .034}, {7, 300, .055}, {7, 100, .10},    {7, 25, .31},     {28, 2800, .041},
                       {28, 300, .125}, {28, 100, .31}, {28, 25, 1.15},   {55, 2800, .051}, {55, 300, .215},
                       {55, 100, .58},  {55, 25, 2.23}, {450, 2800, .19}, {450, 300, 1.53}};
  for (const Row& row : table) {
    INFO("link " << row.link << " codec " << row.codec);
    CHECK(break_even_one_way(32, row.link, row.codec) == Approx(row.sparsity).margin(0.006));
    CHECK(break_even_one_way(16, row.link, row.codec) - break_even_one_way(32, row.link, row.codec) ==
          Approx(1. / 32));
    CHECK(break_even_round_trip(32, row.link, row.codec, row.codec) ==
          Approx(break_even_one_way(32, row.link, row.codec)));
  }
  CHECK(break_even_one_way(32, 7, 0.5) > 1);
  CHECK(break_even_one_way(8, 7, 2800) - break_even_one_way(32, 7, 2800) == Approx(3. / 32));
}

// A tensor of a gigabyte with a share of zeros `s`, rates in GB/s.
Times zvc_times(double s, double link, double codec) {
  const double fraction = 1 - s + 1.0 / 32;
  return {1e9 / codec, 1e9 * fraction / link, 1e9 * fraction / link, 1e9 / codec};
}
Times raw_times(double link) { return {0, 1e9 / link, 1e9 / link, 0}; }

TEST_CASE("SerialPaysExactlyAboveTheBreakEven") {
  const bool round_trip = GENERATE(false, true);
  const Transfer transfer{.schedule = Schedule::serial, .round_trip = round_trip};
  for (const double link : {7.0, 28.0, 55.0}) {
    const double even = break_even_one_way(32, link, 100);
    CHECK(cost_ns(transfer, zvc_times(even + 0.01, link, 100)) < cost_ns(transfer, raw_times(link)));
    CHECK(cost_ns(transfer, zvc_times(even - 0.01, link, 100)) > cost_ns(transfer, raw_times(link)));
  }
}

TEST_CASE("Lz4PaysSeriallyOnlyBelow230MBperSecond") {
  const Transfer out_only{.schedule = Schedule::serial, .round_trip = false};
  const auto lz4 = [](double link) { return Times{1e9 / 0.5, 1e9 / 1.83 / link, 0, 0}; };
  CHECK(cost_ns(out_only, lz4(0.22)) < cost_ns(out_only, raw_times(0.22)));
  CHECK(cost_ns(out_only, lz4(0.24)) > cost_ns(out_only, raw_times(0.24)));
}

TEST_CASE("PipelinedGainIsTheRatioOrTheCodecsSpeedOverTheLinks") {
  const Transfer many{.schedule = Schedule::pipelined, .round_trip = false, .chunks = 10'000};
  const double fraction = 1 - 0.62 + 1.0 / 32;
  const auto gained = [&](double codec) {
    return cost_ns(many, raw_times(7)) / cost_ns(many, zvc_times(0.62, 7, codec));
  };
  CHECK(gained(100) == Approx(1 / fraction).epsilon(0.001));  // the link is what takes the time
  CHECK(gained(10) == Approx(10.0 / 7).epsilon(0.001));       // the codec is
  CHECK(gained(5) < 1);
  const Transfer one{.schedule = Schedule::pipelined, .round_trip = true, .chunks = 1};
  CHECK(cost_ns(one, zvc_times(0.62, 7, 10)) == Approx(cost_ns({}, zvc_times(0.62, 7, 10))));
}

TEST_CASE("OverlappedCountsOnlyWhatComputeDoesNotHide") {
  const Times raw = raw_times(10), zvc = zvc_times(0.5, 10, 100);  // 100 ms against 53 ms and 10 ms, each way
  const auto pays = [&](double hidden_ms, double chi) {
    const Transfer transfer{.schedule = Schedule::overlapped,
                            .round_trip = true,
                            .hidden_out_ns = hidden_ms * 1e6,
                            .hidden_in_ns = hidden_ms * 1e6,
                            .chi = chi};
    return cost_ns(transfer, zvc) < cost_ns(transfer, raw);
  };
  CHECK(pays(0, 1));
  CHECK(pays(89, 1));  // 11 ms each way exposed against 10 of the codec
  CHECK_FALSE(pays(91, 1));
  CHECK(pays(91, 0.5));  // the codec takes only half of its time from compute
  CHECK_FALSE(pays(100, 0.01));
  CHECK_FALSE(pays(1000, 0));  // nothing to gain
}

TEST_CASE("CostsOfNonsenseAreFinite") {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinity = std::numeric_limits<double>::infinity();
  for (const Schedule schedule : {Schedule::serial, Schedule::pipelined, Schedule::overlapped})
    for (const double bad : {nan, infinity, -infinity, -1.0, 1e308}) {
      const Transfer transfer{
          .schedule = schedule, .chunks = 0, .hidden_out_ns = bad, .hidden_in_ns = bad, .chi = bad};
      const double ns = cost_ns(transfer, {bad, bad, bad, bad});
      CHECK(std::isfinite(ns));
      CHECK(ns >= 0);
    }
}

}  // namespace
}  // namespace terrace::compression
