#include "tests/tools/says.h"
#include "tools/cli/run/run_summary.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "tools/cli/run/run_offload.h"

using namespace terrace::cli;
using nlohmann::json;

namespace {

RunReport report() {
  RunReport made{};
  made.plan.job = "train";
  made.plan.limit_bytes = std::uint64_t{1} << 30;
  made.outcome.wall_ns = 10'000'000'000;
  made.peak_bytes = std::uint64_t{900} << 20;
  made.oom_kills = 0;
  made.counters = {{"heap_peak_bytes", std::uint64_t{3} << 30},
                   {"resident_peak_bytes", std::uint64_t{1} << 30},
                   {"stall_ns", 2'000'000'000},
                   {"faults", 5},
                   {"pager", "active"},
                   {"mover", "move"},
                   {"io", "pread"}};
  return made;
}

}  // namespace

TEST_CASE("SummarySaysWhatWasSaved") {
  const std::string text = summary_text(report());
  CHECK(says(text, "peak 900 MiB under a limit of 1.00 GiB"));
  CHECK(says(text, "2.00 GiB of DRAM saved"));
  CHECK(says(text, "20.0% of the time"));
  CHECK(says(text, "active (move, pread)"));
}

TEST_CASE("SummarySaysForHowLongTheKernelSwapped") {
  RunReport made = report();
  made.counters["kernel_swap_ns"] = 0;
  CHECK_FALSE(says(summary_text(made), "swapped"));
  made.counters["kernel_swap_ns"] = 15'000'000'000;
  CHECK(says(summary_text(made), "swapped  by the kernel for 15.0 s"));
}

TEST_CASE("APoolInMemorySavesNothing") {
  RunReport made = report();
  made.pool_in_memory = true;
  CHECK(says(summary_text(made), "none saved: the pool is in memory as well"));
  CHECK_FALSE(says(summary_text(made), "of DRAM saved"));
}

TEST_CASE("SummaryWithoutCountersSaysWhy") {
  RunReport made = report();
  made.counters = nullptr;
  made.counters_why = "no daemon answers";
  CHECK(says(summary_text(made), "no counters: no daemon answers"));
  CHECK_FALSE(summary_json(made).contains("counters"));
}

TEST_CASE("SummaryShoutsWhenTheKernelKilled") {
  RunReport made = report();
  made.oom_kills = 1;
  CHECK(says(summary_text(made), "KILLED"));
}

TEST_CASE("UnknownPeakIsAbsentAndNotZero") {
  RunReport made = report();
  made.peak_bytes.reset();
  CHECK_FALSE(summary_json(made).contains("peak_bytes"));
}

TEST_CASE("JsonSummaryIsVersionedAndHasTheEnd") {
  const json out = summary_json(report());
  CHECK(out["format"] == "terrace-run-summary");
  CHECK(out["version"] == 1);
  CHECK(out["exit"]["code"] == 0);
  CHECK(out["stall_seconds"] == 2.0);
}

TEST_CASE("LostDataIsNotPassedOver") {
  RunReport made = report();
  made.counters["lost_runs"] = 2;
  CHECK(says(summary_text(made), "DAMAGE"));
}

TEST_CASE("WhatProcessesOffloadedIsSummed") {
  const json totals = sum_offload_lines(
      "{\"stored\": 2, \"stored_bytes\": 1073741824, \"dram_peak_bytes\": 7}\n"
      "{\"stored\": 3, \"nvme_written_bytes\": 1048576, \"host_wait_ns\": 5, \"dram_peak_bytes\": 5}\n");
  CHECK(totals["processes"] == 2);
  CHECK(totals["stored"] == 5);
  CHECK(totals["stored_bytes"] == std::uint64_t{1} << 30);
  CHECK(totals["dram_peak_bytes"] == 7);
  CHECK(says(offload_text(totals), "offload  1.00 GiB stored in 5 tensors, 1.00 MiB to NVMe, waited 5 ns"));
}

TEST_CASE("OffloadLinesAreNotBelieved") {
  const json totals = sum_offload_lines(
      "not json\n[1]\n\n{\"stored\": -1, \"stored_bytes\": \"many\", \"fetched\": 1e30, \"fetched_bytes\": "
      "2.5}\n"
      "{\"host_wait_ns\": 18446744073709551615}\n{\"host_wait_ns\": 18446744073709551615}\n{\"stored\": 4");
  CHECK(totals["damaged_lines"] == 3);
  CHECK(totals["processes"] == 3);
  for (const char* name : {"stored", "stored_bytes", "fetched", "fetched_bytes"}) CHECK(totals[name] == 0);
  CHECK(totals["host_wait_ns"] == UINT64_MAX);
  CHECK(sum_offload_lines("").is_null());
  CHECK(sum_offload_lines(std::string(100'000, '[')).at("damaged_lines") == 1);
}

TEST_CASE("OffloadFileIsReadThroughItsOwnDescriptorAndGoesAtTheEnd") {
  std::string path;
  {
    const auto file = OffloadFile::create();
    REQUIRE(file);
    path = file->path();
    std::ofstream(path, std::ios::app) << "{\"stored\": 1}\n";
    CHECK(file->totals()["stored"] == 1);
    std::filesystem::remove(path);
    std::filesystem::create_symlink("/dev/zero", path);
    CHECK(file->totals()["stored"] == 1);
  }
  CHECK_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path)));
}

TEST_CASE("SummaryTellsOfOffloadingWhereItWasAskedFor") {
  RunReport made = report();
  CHECK_FALSE(says(summary_text(made), "offload"));
  made.plan.offload = true;
  CHECK(says(summary_text(made), "offload  nothing is known"));
  made.offload = sum_offload_lines("{\"stored\": 1, \"checksum_failures\": 1}\n");
  CHECK(says(summary_text(made), "DAMAGE"));
  CHECK(summary_json(made)["offload"]["stored"] == 1);
}

TEST_CASE("SummaryComparesAChosenPointWithWhatCameOfIt") {
  RunReport made = report();
  CHECK_FALSE(says(summary_text(made), "  plan "));
  CHECK_FALSE(summary_json(made).contains("plan"));
  made.plan.point = PlanPoint{"step", "m", "g10", "", std::uint64_t{1} << 30, 0, 2e6, 1e6, 0};
  made.counters["steps"] = 2;
  made.counters["steps_ns"] = 3'000'000'000;
  CHECK(says(summary_text(made), "was to take 2.00 s and move 0 B; it took 1.50 s (-25.0%)"));
  CHECK(summary_json(made)["plan"]["step_seconds"] == 1.5);
}
