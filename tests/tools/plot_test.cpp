// Pictures: what can be said of them without looking.
#include <catch2/catch.hpp>
#include <numeric>

#include "tests/tools/temporary_directory.h"
#include "tools/cli/plan/plan_load.h"
#include "tools/plot/axis.h"
#include "tools/plot/columns.h"
#include "tools/plot/density.h"
#include "tools/plot/memory_plot.h"
#include "tools/plot/placement_plot.h"

using namespace terrace;
using namespace terrace::plot;

namespace {

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> all;
  all.reserve(ticks.size());
  for (const Tick& tick : ticks) all.push_back(tick.label);
  return all;
}

using Labels = std::vector<std::string>;

// `count` buffers of one operation each, side by side in address.
planner::Instance many_buffers(std::uint32_t count) {
  planner::Instance instance{"many", {}, nullptr};
  for (std::uint32_t i = 0; i < count; ++i)
    instance.buffers.push_back({256 + i % 1000, i, i + 1, 1, planner::no_tensor});
  return instance;
}

planner::Placement one_after_the_other(const planner::Instance& instance) {
  planner::Placement placement;
  for (const planner::Buffer& b : instance.buffers) {
    placement.offsets.push_back(placement.total_bytes);
    placement.total_bytes += b.bytes;
  }
  return placement;
}

std::string content(const std::string& path) { return *cli::load_text(path).result; }

}  // namespace

TEST_CASE("TicksOfBytesArePowersOfTwo") {
  CHECK(labels(byte_ticks(3.2e9, 4)) == Labels{"0", "1 GiB", "2 GiB"});
  CHECK(labels(byte_ticks(1.4 * 1024 * 1024 * 1024, 4)) == Labels{"0", "512 MiB", "1 GiB"});
  CHECK(labels(byte_ticks(12, 3)) == Labels{"0", "4 B", "8 B", "12 B"});
  CHECK(labels(byte_ticks(0, 3)) == Labels{"0"});
}

TEST_CASE("TicksOfCountsAndTimesAreRound") {
  CHECK(labels(count_ticks(2500, 3)) == Labels{"0", "1,000", "2,000"});
  CHECK(labels(count_ticks(2, 10)) == Labels{"0", "1", "2"});
  CHECK(labels(time_ticks(1.2e6, 3)) == Labels{"0", "0.5 s", "1 s"});
  CHECK(labels(time_ticks(450, 3)) == Labels{"0", "200 µs", "400 µs"});
}

TEST_CASE("AStepsTimesHaveTheUnitOfItsAxis") {
  planner::SimulationReport report;
  report.total_us = 445300;
  report.compute_us = 442776;
  report.stalls.fetch_us = 2524;
  CHECK(step_summary(report) == "445 ms, 1.01 times the 443 ms of computing alone; stalled for 2.52 ms");
  CHECK(labels(time_ticks(report.total_us, 5)).back() == "400 ms");
  report.total_us = 12.345e6;
  report.stalls.fetch_us = 0;
  CHECK(step_summary(report) == "12.3 s, 27.88 times the 0.44 s of computing alone; stalled for 0 s");
}

TEST_CASE("LegendListsTheStallsThatOccur") {
  planner::SimulationReport report;
  report.total_us = 10;
  CHECK(step_legend(report).size() == 2);
  report.stalls.room_us = 1;
  REQUIRE(step_legend(report).size() == 3);
  CHECK(step_legend(report).back().label == "stall: waiting for room");
}

TEST_CASE("SliversAddUpToWhatTheyCover") {
  Density density(2, 1);
  for (int i = 0; i < 10; ++i) density.add({0.1 * i, 0, 0.1, 1}, {1, 0, 0});
  density.add({1, 0, 0.25, 1}, {0, 0, 1});
  const Image image = density.image();
  REQUIRE(image.pixels.size() == 2);
  CHECK(image.pixels[0].alpha == Approx(1).margin(1e-4));
  CHECK(image.pixels[0].red == Approx(1).margin(1e-4));
  CHECK(image.pixels[1].alpha == Approx(0.5).margin(1e-4));
  CHECK(image.pixels[1].blue == Approx(1).margin(1e-4));
}

TEST_CASE("WhatLiesOutsideOfAPictureIsCutOff") {
  Density density(2, 2);
  density.add({-5, -5, 6, 6}, {1, 1, 1});
  density.add({1e9, 0, 1, 1}, {1, 1, 1});
  const Image image = density.image();
  CHECK(image.pixels[0].alpha == Approx(1));
  CHECK(image.pixels[3].alpha == 0);
}

TEST_CASE("ColumnsKeepThePeakBetweenManySamples") {
  const Field field{{0, 0, 10, 10}, 1000, 100};
  Columns columns(field, 1);
  for (int i = 0; i < 1000; ++i) columns.hold(i, i + 1, i == 555 ? 99 : 1);
  CHECK(columns.value(5) == 99);
  CHECK(columns.value(4) == 1);
}

TEST_CASE("CoveredSharesSumToTheLength") {
  const Field field{{0, 0, 7, 10}, 1000, 100};
  Columns columns(field, 1);
  columns.cover(123.4, 777.7);
  double sum = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) sum += columns.value(i);
  CHECK(sum == Approx((777.7 - 123.4) / 1000 * 7));
}

TEST_CASE("SixtyThousandBuffersMakeASmallPicture") {
  const cli::TemporaryDirectory directory;
  const planner::Instance instance = many_buffers(60'000);
  const planner::Placement placement = one_after_the_other(instance);
  const std::string prefix = (directory.path() / "many").string();
  const auto written = plot_placement(prefix, {&instance, &placement, "in order"});
  INFO(written.error);
  REQUIRE(written);
  REQUIRE(*written == Labels{prefix + ".svg", prefix + ".png"});
  const std::string svg = content(prefix + ".svg");
  CHECK(svg.find("<svg") != std::string::npos);
  CHECK(svg.find("</svg>") != std::string::npos);
  CHECK(svg.size() < 4'000'000);
  CHECK(content(prefix + ".png").starts_with("\x89PNG\r\n"));
}

TEST_CASE("APictureThatCannotBeWrittenIsAnErrorThatNamesIt") {
  const planner::Instance instance = many_buffers(3);
  const planner::Placement placement = one_after_the_other(instance);
  const auto written = plot_placement("/nonexistent/x", {&instance, &placement, "in order"});
  CHECK_FALSE(written);
  CHECK(written.error.find("/nonexistent/x.svg") != std::string::npos);
}

TEST_CASE("AStepWithoutATimelineIsDrawnEmpty") {
  const cli::TemporaryDirectory directory;
  const wire::Trace trace{
      "t", "", {{"op", 1, {}, {0}, 0, std::nullopt, true}}, {{0, 64, {}, false, {}, "", {}}}};
  planner::Machine machine;
  machine.name = "m";
  machine.tiers = {{"gpu", 128}, {"dram", planner::unlimited_bytes}};
  planner::SimulationReport report;
  report.tier_peak_bytes = {64, 0};
  CHECK(plot_step((directory.path() / "step").string(), {&trace, &machine, &report, "none"}));
}
