#include "tools/cli/run/run_plan.h"
#include "tests/units.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "tests/tools/temporary_directory.h"
#include "tools/cli/run/run_plan_gpu.h"

using namespace terrace::cli;

namespace {

using terrace::tests::gib;
const Ceiling eight_gib{8 * gib, "this machine"};

RunOptions command(const char* name = "python3") {
  RunOptions options;
  options.command = {name, "train.py"};
  return options;
}

using Text = std::string RunOptions::*;

RunOptions asking(const std::vector<std::pair<Text, std::string>>& values) {
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
  REQUIRE(plan(options)->pool_directories.size() == 1);
  CHECK(plan(options)->pool_directories[0].starts_with('/'));
}

TEST_CASE("SeveralPoolsReachTheLibraryAsAList") {
  const TemporaryDirectory one, other;
  const std::string list = one.path().string() + "," + other.path().string();
  const auto made = plan(asking({{&RunOptions::pool, list}}));
  REQUIRE(made);
  CHECK(made->pool_directories == PoolList{one.path(), other.path()});
  CHECK(variable(*made, "TERRACE_POOL_DIR") == list);
}

TEST_CASE("PoolsWithAFaultAreRefusedByName") {
  const std::string good = "/var/tmp";
  const auto refusal = [](const std::string& list) {
    const auto made = plan(asking({{&RunOptions::pool, list}}));
    return made ? std::string() : made.error;
  };
  CHECK(refusal(good + ",/nonexistent").starts_with("--pool /nonexistent is not a directory"));
  for (const std::string& list : {good + ",," + good, good + ",", "," + good}) {
    CHECK(refusal(list).starts_with("--pool " + list + ": "));
    CHECK(refusal(list).find("write /a,/b") != std::string::npos);
  }
  std::string many = good;
  for (int i = 0; i < 8; ++i) many += "," + good;
  CHECK(refusal(many).find("more than 8 directories") != std::string::npos);
  CHECK(refusal(good + "," + std::string(600, 'x')).find("511 characters") != std::string::npos);
}

TEST_CASE("RelativePoolUnderANameWithACommaIsRefused") {
  const TemporaryDirectory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directory(directory.path() / "a,b");
  std::filesystem::current_path(directory.path() / "a,b");
  const auto made = plan(asking({{&RunOptions::pool, "."}}));
  std::filesystem::current_path(before);
  REQUIRE_FALSE(made);
  CHECK(made.error.find("comma") != std::string::npos);
}

TEST_CASE("FreeSpaceOfPoolsOnOneFileSystemCountsOnce") {
  const TemporaryDirectory one, other;
  const PoolList twins{one.path(), other.path()};
  const auto alone = free_pool_bytes({one.path()});
  CHECK(free_pool_bytes(twins) < alone + alone / 2);
  CHECK(pool_twin(twins) == other.path());
  CHECK(pool_twin({one.path()}).empty());
  CHECK(pool_twin({one.path(), "/proc"}).empty());
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

TEST_CASE("CheckpointsInputsAreSomethingToOffload") {
  const auto made =
      plan(asking({{&RunOptions::offload, "checkpoints"}, {&RunOptions::offload_limit, "none"}}));
  REQUIRE(made);
  CHECK(made->offload);
  CHECK(variable(*made, "TERRACE_OFFLOAD") == "checkpoints");
}

TEST_CASE("GpuOptionsReachTheLibraries") {
  const RunOptions options = asking({{&RunOptions::gpu, "emulated:2G,h2d=12G"},
                                     {&RunOptions::gpu_budget, "50%"},
                                     {&RunOptions::offload, "activations"},
                                     {&RunOptions::offload_budget, "1.5G"},
                                     {&RunOptions::offload_tiers, "dram,nvme"},
                                     {&RunOptions::offload_min, "64K"},
                                     {&RunOptions::offload_limit, "none"},
                                     {&RunOptions::writes_per_day, "100G"},
                                     {&RunOptions::writes_total, "3T"}});
  const auto made = plan(options);
  REQUIRE(made);
  CHECK(made->gpu);
  CHECK(made->offload);
  CHECK(variable(*made, "TERRACE_GPU") == "emulated:2G,h2d=12G");
  CHECK(variable(*made, "TERRACE_GPU_BUDGET") == "1024M");
  CHECK(variable(*made, "TERRACE_OFFLOAD") == "activations");
  CHECK(variable(*made, "TERRACE_OFFLOAD_BUDGET") == "1536M");
  CHECK(variable(*made, "TERRACE_OFFLOAD_TIERS") == "dram,nvme");
  CHECK(variable(*made, "TERRACE_OFFLOAD_MIN") == "65536");
  CHECK(variable(*made, "TERRACE_OFFLOAD_LIMIT") == "none");
  CHECK(variable(*made, "TERRACE_WRITES_PER_DAY") == "102400M");
  CHECK(variable(*made, "TERRACE_WRITES_TOTAL") == "3145728M");
}

TEST_CASE("ADaysWritesAreForTheDaemonAndForTheEngine") {
  const auto made = plan(asking({{&RunOptions::writes_per_day, "1.5G"}}));
  REQUIRE(made);
  CHECK(made->writes_per_day == 3ULL << 29);
  CHECK_FALSE(made->offloads_to_drive);
  CHECK(variable(*made, "TERRACE_WRITES_PER_DAY") == "1536M");
}

TEST_CASE("APolicyReachesTheJob") {
  const auto made = plan(asking({{&RunOptions::policy, "joint"}}));
  REQUIRE(made);
  CHECK(variable(*made, "TERRACE_POLICY") == "joint");
}

TEST_CASE("AWeightIsForJobsThatAreLentTo") {
  const auto made = plan(asking({{&RunOptions::weight, "3"}}));
  REQUIRE(made);
  CHECK(made->weight == 3);
  CHECK(variable(*made, "TERRACE_WEIGHT") == "3");
  for (const char* wrong : {"0", "1001", "-1", "3x", "1.5", " 3"})
    CHECK(plan(asking({{&RunOptions::weight, wrong}})).error.find("from 1 to 1000") != std::string::npos);
  CHECK(plan(asking({{&RunOptions::weight, "3"}, {&RunOptions::dram, "1G"}})).error.find("--dram") !=
        std::string::npos);
  RunOptions alone = asking({{&RunOptions::weight, "3"}});
  alone.is_private = true;
  CHECK(plan(alone).error.find("--private") != std::string::npos);
}

TEST_CASE("GpuAndDramBudgetsStandBesideEachOther") {
  const auto made = plan(asking({{&RunOptions::dram, "1G"}, {&RunOptions::gpu, "emulated:1G"}}));
  REQUIRE(made);
  CHECK(variable(*made, "TERRACE_DRAM") == "1024M");
  CHECK(made->gpu);
  CHECK_FALSE(made->offload);
}

TEST_CASE("AShareOfARealGpuIsLeftForTheHeapToWorkOut") {
  const auto made = plan(asking({{&RunOptions::gpu, "cuda:1"}, {&RunOptions::gpu_budget, "60.5%"}}));
  REQUIRE(made);
  CHECK(variable(*made, "TERRACE_GPU_BUDGET") == "60.5%");
}

TEST_CASE("GpuOptionsThatCannotBeMetAreRefusedByName") {
  struct Row {
    std::vector<std::pair<Text, std::string>> values;
    const char* says;
  };
  const Row row = GENERATE(
      Row{{{&RunOptions::gpu, "rocm"}}, "--gpu: "}, Row{{{&RunOptions::gpu, "emulated:lots"}}, "accepted"},
      Row{{{&RunOptions::gpu_budget, "1G"}}, "need --gpu"},
      Row{{{&RunOptions::gpu, "cuda"}, {&RunOptions::gpu_budget, "120%"}}, "--gpu-budget"},
      Row{{{&RunOptions::gpu, "emulated:1G"}, {&RunOptions::gpu_budget, "2G"}}, "the emulated GPU's memory"},
      Row{{{&RunOptions::offload_budget, "1G"}}, "needs --offload activations"},
      Row{{{&RunOptions::writes_total, "1G"}}, "needs --offload activations"},
      Row{{{&RunOptions::offload, "activations"}, {&RunOptions::offload_budget, "9G"}}, "at most"},
      Row{{{&RunOptions::offload, "activations"}, {&RunOptions::offload_budget, "1M"}}, "smallest possible"},
      Row{{{&RunOptions::offload, "activations"}, {&RunOptions::offload_min, "small"}}, "--offload-min: "},
      Row{{{&RunOptions::offload, "activations"},
           {&RunOptions::offload_tiers, "nvme"},
           {&RunOptions::writes_per_day, "0"}},
          "smallest possible"},
      Row{{{&RunOptions::writes_per_day, "all"}}, "--writes-per-day: "},
      Row{{{&RunOptions::writes_per_day, "1G"}, {&RunOptions::pool, "/tmp,/var/tmp"}}, "one drive"},
      Row{{{&RunOptions::offload, "activations"}, {&RunOptions::writes_total, "1G"}}, "dram,nvme"},
      Row{{{&RunOptions::offload, "activations"},
           {&RunOptions::offload_tiers, "dram"},
           {&RunOptions::writes_total, "1G"}},
          "dram,nvme"});
  const auto made = plan(asking(row.values));
  REQUIRE_FALSE(made);
  INFO(made.error);
  CHECK(made.error.find(row.says) != std::string::npos);
  CHECK(made.error.find('\n') == std::string::npos);
}

TEST_CASE("ExpandableSegmentsAreRefusedOnARealGpuOnly") {
  setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64, expandable_segments:True", 1);
  const auto real = plan(asking({{&RunOptions::gpu, "cuda"}}));
  const auto emulated = plan(asking({{&RunOptions::gpu, "emulated:1G"}}));
  unsetenv("PYTORCH_CUDA_ALLOC_CONF");
  REQUIRE_FALSE(real);
  CHECK(real.error.find("expandable_segments") != std::string::npos);
  CHECK(emulated);
  CHECK_FALSE(asks_for_expandable_segments("expandable_segments:False"));
  CHECK_FALSE(asks_for_expandable_segments(nullptr));
}

TEST_CASE("PreloadKeepsWhatWasThere") {
  CHECK(before_list("/t.so", nullptr) == "/t.so");
  CHECK(before_list("/t.so", "") == "/t.so");
  CHECK(before_list("/t.so", "/jemalloc.so") == "/t.so:/jemalloc.so");
}

TEST_CASE("PreloadIsNotAddedTwice") {
  CHECK(before_list("/t.so", "/t.so") == "/t.so");
  CHECK(before_list("/t.so", "/t.so:/jemalloc.so") == "/t.so:/jemalloc.so");
}

TEST_CASE("--tiers is passed on, and refused where it cannot be met") {
  const auto with = [](const std::string& tiers) {
    return asking({{&RunOptions::tiers, tiers}, {&RunOptions::dram, "1G"}});
  };
  REQUIRE(plan(with("compressed=20%")));
  CHECK(variable(*plan(with("compressed=20%")), "TERRACE_TIERS") == "compressed=20%");
  CHECK(plan(with("compressed=600M")).error ==
        "--tiers compressed=600M: more than half of the DRAM budget of 1.00 GiB");
  CHECK(plan(with("compressed=60%")).error.find("at most 50%") != std::string::npos);
  CHECK(plan(with("dax=/x")).error.find("write compressed=SIZE") != std::string::npos);
  REQUIRE(plan(with("nvm=4M@/tmp,compressed=20%")));
  REQUIRE(plan(with("nvm=16G")));  // what the service has of it, the service says
  CHECK(plan(with("nvm=4M@/nonexistent"))
            .error.find("--tiers nvm=4M@/nonexistent: /nonexistent is not a directory; "
                        "name one on persistent memory") == 0);
  CHECK(plan(with("nvm=4T@/tmp")).error.find("free; ask for less") != std::string::npos);
  CHECK(plan(with("nvm=4M@node1023")).error.find("node1023 has 0 B free") != std::string::npos);
  RunOptions off = with("nvm=4M@/tmp");
  off.compress = "off";
  CHECK(plan(off));
  off = with("compressed=20%");
  off.compress = "off";
  CHECK(plan(off).error.find("leave one of them out") != std::string::npos);
}

TEST_CASE("AChosenPointIsTheBudget") {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "point.json").string();
  directory.write("point.json",
                  point_json({"step", "DRAM and the pool", "g10", "python3", gib, 2 * gib, 2e6, 1e6, 0}));
  const auto at = [&](Text member, const char* value) {
    return plan(asking({{&RunOptions::plan, file}, {member, value}}));
  };
  const auto made = plan(asking({{&RunOptions::plan, file}}));
  REQUIRE(made);
  CHECK(variable(*made, "TERRACE_DRAM") == "1024M");
  CHECK(variable(*made, "TERRACE_POLICY") == "g10");
  CHECK(made->point->step_us == 2e6);

  const auto told_otherwise = at(&RunOptions::dram, "2G");
  CHECK(variable(*told_otherwise, "TERRACE_DRAM") == "2048M");
  CHECK(told_otherwise->point);  // predicted is still compared
  CHECK(variable(*at(&RunOptions::limit, "2G"), "TERRACE_DRAM") == "1024M");
  CHECK(at(&RunOptions::limit, "512M").error.find("its budget of 1.00 GiB is more than --limit 512 MiB") !=
        std::string::npos);
  CHECK(at(&RunOptions::weight, "2").error.find("--weight") != std::string::npos);
}

TEST_CASE("APointThatCannotBeRunIsRefusedByName") {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "point.json").string();
  const auto refusal_of = [&](const PlanPoint& point) {
    directory.write("point.json", point_json(point));
    const auto made = plan(asking({{&RunOptions::plan, file}}));
    CHECK(made.error.find("--plan " + file) == 0);
    return made.error;
  };
  const PlanPoint good{"step", "m", "lru", "", gib, 2 * gib, 2e6, 1e6, 0};
  PlanPoint small = good, large = good;
  small.budget_bytes = 1000;
  large.budget_bytes = 9 * gib;
  CHECK(refusal_of(small).find("smallest possible is 32.0 MiB") != std::string::npos);
  CHECK(refusal_of(large).find("ask for at most 8192M") != std::string::npos);
  directory.write("point.json", "{}");
  CHECK(plan(asking({{&RunOptions::plan, file}})).error.find("no point of a budget curve") !=
        std::string::npos);

  // A policy that no daemon plans with is not the job's, and another program is not this one.
  directory.write("point.json", point_json(good));
  CHECK(variable(*plan(asking({{&RunOptions::plan, file}})), "TERRACE_POLICY").empty());
  PlanPoint others = good;
  others.program = "gups";
  directory.write("point.json", point_json(others));
  directory.write("trainer",
                  "\x7f"
                  "ELF and so on");
  RunOptions options = command((directory.path() / "trainer").c_str());
  options.plan = file;
  CHECK(plan(options).error.find("recorded of gups, and this command starts trainer") != std::string::npos);
}
