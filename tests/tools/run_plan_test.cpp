#include "tools/cli/run_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/tools/temporary_directory.h"

using namespace terrace::cli;

namespace {

constexpr std::uint64_t gib = 1 << 30;
const Ceiling eight_gib{8 * gib, "this machine"};

RunOptions command(const char* name = "python3") {
  RunOptions options;
  options.command = {name, "train.py"};
  return options;
}

using Text = std::string RunOptions::*;

RunOptions asking(std::initializer_list<std::pair<Text, std::string>> values) {
  RunOptions options = command();
  for (const auto& [member, value] : values) options.*member = value;
  return options;
}

Result<RunPlan> plan(const RunOptions& options) { return plan_run(options, eight_gib, 42); }

std::string variable(const RunPlan& plan, const std::string& name) {
  const auto found = std::find_if(plan.environment.begin(), plan.environment.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found == plan.environment.end() ? "" : found->second;
}

}  // namespace

TEST_CASE("NothingAskedForSetsNothingButTheName") {
  const auto made = plan(command());
  REQUIRE(made);
  CHECK(made->environment.size() == 1);
  CHECK(variable(*made, "TERRACE_JOB") == "python3-42");
}

TEST_CASE("PercentagesReachTheLibraryAsSizes") {
  const RunOptions options = asking({{&RunOptions::dram, "50%"}});
  CHECK(variable(*plan(options), "TERRACE_DRAM") == "4096M");
}

TEST_CASE("LimitAloneIsAlsoTheBudget") {
  const RunOptions options = asking({{&RunOptions::limit, "2G"}});
  CHECK(variable(*plan(options), "TERRACE_DRAM") == "2048M");
}

TEST_CASE("BudgetUnderALimitIsKept") {
  const RunOptions options = asking({{&RunOptions::limit, "2G"}, {&RunOptions::dram, "1G"}});
  CHECK(variable(*plan(options), "TERRACE_DRAM") == "1024M");
}

TEST_CASE("BudgetAboveTheLimitIsRefused") {
  const RunOptions options = asking({{&RunOptions::limit, "1G"}, {&RunOptions::dram, "2G"}});
  const auto made = plan(options);
  REQUIRE_FALSE(made);
  CHECK(made.error.find("--limit") != std::string::npos);
}

TEST_CASE("PoolThatIsNoDirectoryIsRefused") {
  RunOptions options = command();
  options.pool = GENERATE(as<std::string>{}, "/nonexistent", "/etc/passwd", "/dev/null");
  const auto made = plan(options);
  REQUIRE_FALSE(made);
  CHECK(made.error.starts_with("--pool"));
  CHECK(made.error.find(options.pool) != std::string::npos);
}

TEST_CASE("RelativePoolBecomesAbsolute") {
  const RunOptions options = asking({{&RunOptions::pool, "."}});
  CHECK(plan(options)->pool_directory.starts_with('/'));
}

TEST_CASE("PoolLargerThanItsFileSystemIsRefused") {
  const TemporaryDirectory directory;
  RunOptions options = command();
  options.pool = directory.path().string();
  options.pool_size = "4000T";
  const auto made = plan(options);
  REQUIRE_FALSE(made);
  CHECK(made.error.find("free") != std::string::npos);
}

TEST_CASE("UnparsableSizesNameTheirOption") {
  const auto [name, member] = GENERATE(table<const char*, std::string RunOptions::*>({
      {"--dram", &RunOptions::dram},
      {"--limit", &RunOptions::limit},
      {"--pool-size", &RunOptions::pool_size},
      {"--threshold", &RunOptions::threshold},
  }));
  const RunOptions options = asking({{member, "much"}});
  const auto made = plan(options);
  REQUIRE_FALSE(made);
  CHECK(made.error.starts_with(name));
}

TEST_CASE("ThresholdBelowAPageIsRefused") {
  const RunOptions options = asking({{&RunOptions::threshold, "1K"}});
  CHECK_FALSE(plan(options));
}

TEST_CASE("NamesFitTheProtocol") {
  RunOptions options = command();
  options.name = std::string(63, 'x');
  CHECK(plan(options)->job == options.name);
  options.name += 'x';
  CHECK_FALSE(plan(options));
}

TEST_CASE("LongProgramNamesKeepTheirProcessId") {
  const std::string program(200, 'p');
  const auto made = plan(command(program.c_str()));
  REQUIRE(made);
  CHECK(made->job.size() == 63);
  CHECK(made->job.ends_with("-42"));
}

TEST_CASE("PreloadKeepsWhatWasThere") {
  CHECK(preload_list("/t.so", nullptr) == "/t.so");
  CHECK(preload_list("/t.so", "") == "/t.so");
  CHECK(preload_list("/t.so", "/jemalloc.so") == "/t.so:/jemalloc.so");
}

TEST_CASE("PreloadIsNotAddedTwice") {
  CHECK(preload_list("/t.so", "/t.so") == "/t.so");
  CHECK(preload_list("/t.so", "/t.so:/jemalloc.so") == "/t.so:/jemalloc.so");
}
