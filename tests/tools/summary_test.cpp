#include "tools/cli/run_summary.h"

#include <catch2/catch.hpp>

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

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("SummarySaysWhatWasSaved") {
  const std::string text = summary_text(report());
  CHECK(says(text, "peak 900 MiB under a limit of 1.00 GiB"));
  CHECK(says(text, "2.00 GiB of DRAM saved"));
  CHECK(says(text, "20.0% of the time"));
  CHECK(says(text, "active (move, pread)"));
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
