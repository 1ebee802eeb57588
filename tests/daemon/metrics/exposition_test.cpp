// The text of metrics: its lines, and names that try to break out of them.
#include "daemon/metrics/exposition.h"

#include <catch2/catch.hpp>

using namespace terrace::daemon;

TEST_CASE("AFamilyIsDescribedBeforeItsSamples") {
  Exposition text;
  text.begin("job_", {"stall_seconds", MetricType::counter, "seconds", "Waited."});
  text.sample_ns(metric_label("job_name", "a"), 12'000'000'345);
  text.begin("", {"build", MetricType::info, "", "Which."});
  text.sample(metric_label("version", "1"), 1);
  text.begin("", {"jobs", MetricType::gauge, "", "That run."});
  text.sample("", 3);
  CHECK(std::move(text).finish() ==
        "# TYPE terrace_job_stall_seconds counter\n"
        "# UNIT terrace_job_stall_seconds seconds\n"
        "# HELP terrace_job_stall_seconds Waited.\n"
        "terrace_job_stall_seconds_total{job_name=\"a\"} 12.000000345\n"
        "# TYPE terrace_build info\n"
        "# HELP terrace_build Which.\n"
        "terrace_build_info{version=\"1\"} 1\n"
        "# TYPE terrace_jobs gauge\n"
        "# HELP terrace_jobs That run.\n"
        "terrace_jobs 3\n"
        "# EOF\n");
}

TEST_CASE("ALabelCannotBreakOutOfItsQuotes") {
  CHECK(metric_label("job_name", "a\"} 1\nterrace_jobs 99\n\\") ==
        R"(job_name="a\"} 1\nterrace_jobs 99\n\\")");
  CHECK(metric_label("job_name", "") == R"(job_name="")");
}
