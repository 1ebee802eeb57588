#include "tools/cli/watch/top_page.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

using namespace terrace::cli;
using nlohmann::json;

namespace {

const Painter no_color(-1);

TopJob job(const char* name, double stall) {
  return {{{"job", name},
           {"processes", 1},
           {"resident_bytes", 512 << 20},
           {"budget_bytes", 1 << 30},
           {"stored_bytes", 3 << 20},
           {"faults", 12.0},
           {"stall_seconds", stall},
           {"read_bytes", 1048576.0},
           {"written_bytes", 0.0},
           {"pager", "active"}},
          {stall * 0.9, 0, 0, 5},
          true};
}

TopState two_jobs() {
  const json daemon{{"private", true},
                    {"dram_used_bytes", 512 << 20},
                    {"dram_capacity_bytes", 1 << 30},
                    {"pool_used_bytes", 1 << 20},
                    {"pool_capacity_bytes", 1 << 30},
                    {"pool_directory", "/var/tmp"}};
  return {{daemon}, {job("calm", 0.0), job("slow", 0.4)}, false, ""};
}

std::size_t line_with(const std::vector<std::string>& lines, const std::string& part) {
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines[i].find(part) != std::string::npos) return i;
  return lines.size();
}

}  // namespace

TEST_CASE("BarsShowTheShare") {
  CHECK(bar(0, 10, 12) == "[..........]");
  CHECK(bar(5, 10, 12) == "[#####.....]");
  CHECK(bar(20, 10, 12) == "[##########]");
  CHECK(bar(1, 0, 12).empty());
}

TEST_CASE("TheJobThatWaitsMostComesFirst") {
  const auto lines = top_page(two_jobs(), {120, 40, false}, no_color);
  CHECK(line_with(lines, "slow ") < line_with(lines, "calm "));
  CHECK(line_with(lines, "slow: waiting 40.0%") < lines.size());
  CHECK(line_with(lines, "reading back, checking") < lines.size());
}

TEST_CASE("NoLineIsWiderThanTheScreen") {
  const int columns = GENERATE(40, 80, 99, 100, 200);
  CAPTURE(columns);
  for (const std::string& line : top_page(two_jobs(), {columns, 60, false}, no_color))
    CHECK(line.size() <= static_cast<std::size_t>(columns));
}

TEST_CASE("NoMoreLinesThanTheScreen") { CHECK(top_page(two_jobs(), {80, 6, false}, no_color).size() == 6); }

TEST_CASE("EightyColumnsHoldEveryHeading") {
  const auto lines = top_page(two_jobs(), {80, 40, false}, no_color);
  const std::string& heading = lines[line_with(lines, "IN BUDGET")];
  CHECK(heading.find("WRITE/s") != std::string::npos);
}

TEST_CASE("SixtyColumnsDropTheBarAndKeepEveryRate") {
  const auto lines = top_page(two_jobs(), {60, 40, false}, no_color);
  const std::string& heading = lines[line_with(lines, "JOB ")];
  CHECK(heading.find("IN BUDGET") == std::string::npos);
  CHECK(heading.find("READ/s") != std::string::npos);
  CHECK(heading.find("WRITE/s") != std::string::npos);
  CHECK(lines[line_with(lines, "slow ")].find("1.00 MiB      0 B") != std::string::npos);
}

TEST_CASE("AdviceIsWrappedAndNotCut") {
  const int columns = GENERATE(60, 80, 120);
  CAPTURE(columns);
  std::string page;
  for (const std::string& line : top_page(two_jobs(), {columns, 40, false}, no_color))
    page += line.substr(std::min(line.find_first_not_of(' '), line.size())) + " ";
  CHECK(page.find("or use a faster --pool if its disk is busy") != std::string::npos);
  CHECK(page.find("(0/s in time), 0/s read in vain") != std::string::npos);
}

TEST_CASE("DecodingIsSaidOfJobsThatCompress") {
  TopState state = two_jobs();
  const auto says = [&](const char* part) {
    const auto lines = top_page(state, {120, 40, false}, no_color);
    return line_with(lines, part) < lines.size();
  };
  CHECK_FALSE(says("decod"));
  CHECK(says("(1.00 MiB/s read and checked)"));
  state.jobs[1].rates["zvc_content_bytes"] = 2 << 20;
  state.jobs[1].rates["zvc_frame_bytes"] = 1 << 20;
  CHECK(says("read, checked and decoded"));
  CHECK(says("reading back, checking, decoding"));
}

TEST_CASE("TotalsAreNotShownAsRates") {
  TopState state = two_jobs();
  state.first = true;
  const auto lines = top_page(state, {120, 40, false}, no_color);
  CHECK(lines[line_with(lines, "slow ")].find("40.0%") == std::string::npos);
}

TEST_CASE("AProblemIsShown") {
  TopState state;
  state.problem = "no daemon is left";
  CHECK(line_with(top_page(state, {80, 24, false}, no_color), "no daemon is left") == 1);
}

TEST_CASE("ColorOnlyOnATerminal") {
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  CHECK_FALSE(Painter(null).enabled());
  close(null);
}

TEST_CASE("APlannedStepSaysWhyItIsSlow") {
  TopState state = two_jobs();
  CHECK(line_with(top_page(state, {200, 40, false}, no_color), "planned") ==
        top_page(state, {200, 40, false}, no_color).size());
  json& row = state.jobs[1].rates;
  row.update({{"policy", "g10"},
              {"plan", {{"entries", 3}, {"predicted_step_seconds", 2.0}}},
              {"step_seconds", 2.5},
              {"planned_late", 12.0},
              {"unplanned_faults", 3.0}});
  const auto lines = top_page(state, {200, 40, false}, no_color);
  const std::size_t line =
      line_with(lines, "g10 planned a step of 2 s, and one takes 2.5 s (+25.0%); it waits");
  REQUIRE(line < lines.size());
  CHECK(lines[line].find("planned reads that came late") != std::string::npos);
  CHECK(lines[line].find("late 12/s, not planned 3/s") != std::string::npos);
  CHECK(line > line_with(lines, "slow: waiting"));
}

TEST_CASE("AJobThatOffloadsSaysOfWhichDevice") {
  TopState state = two_jobs();
  CHECK(line_with(top_page(state, {120, 40, false}, no_color), "offload:") ==
        top_page(state, {120, 40, false}, no_color).size());
  state.jobs[0].rates.update({{"engines", 1}, {"devices", "cuda:0"}, {"offload_bytes", 64 << 20}});
  const auto lines = top_page(state, {120, 40, false}, no_color);
  const std::size_t line = line_with(lines, "offload: 64.0 MiB of host memory for tensors of cuda:0");
  CHECK(line > line_with(lines, "calm: waiting"));
  CHECK(line < lines.size());
}

TEST_CASE("AJobOnAGpuSaysWhatItHoldsThereAndWhoWaits") {
  TopState state = two_jobs();
  CHECK(line_with(top_page(state, {120, 40, false}, no_color), "GPU:") ==
        top_page(state, {120, 40, false}, no_color).size());
  state.jobs[0].rates.update(
      {{"gpus", "H200 0000:3b:00.0"}, {"gpu_held_bytes", 64 << 20}, {"gpu_granted_bytes", 96 << 20}});
  auto lines = top_page(state, {120, 40, false}, no_color);
  CHECK(line_with(lines, "GPU: 64.0 MiB held of 96.0 MiB granted on H200 0000:3b:00.0") < lines.size());
  CHECK(line_with(lines, "others wait") == lines.size());
  state.jobs[0].rates["gpu_granted_bytes"] = 32 << 20;
  lines = top_page(state, {120, 40, false}, no_color);
  CHECK(line_with(lines, "others wait for this job to give memory back") < lines.size());
}
