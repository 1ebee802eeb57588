// The parts of `terrace plan`: what it refuses to read, whom it runs, what it says. The command as a whole is
// in command/plan.sh.
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <new>
#include <nlohmann/json.hpp>

#include "tests/tools/temporary_directory.h"
#include "tools/cli/base/exit_code.h"
#include "tools/cli/plan/plan_curve.h"
#include "tools/cli/plan/plan_files.h"
#include "tools/cli/plan/plan_load.h"
#include "tools/cli/plan/plan_report.h"
#include "tools/cli/plan/plan_runs.h"
#include "tools/import/gunzip.h"

using namespace terrace;
using namespace terrace::cli;
using nlohmann::json;

namespace {

constexpr const char* lifetimes = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

// Three operations in a row, the middle one with a workspace.
constexpr const char* small_trace = R"({"format":"terrace-trace","version":1,"name":"small",
 "ops":[{"name":"a","time_us":10,"inputs":[7],"outputs":[1]},
        {"name":"b","time_us":20,"inputs":[1],"outputs":[2],"workspace_bytes":100},
        {"name":"c","time_us":30,"inputs":[2,7],"outputs":[7]}],
 "tensors":[{"id":7,"bytes":1000,"kind":"weight","persistent":true},
            {"id":1,"bytes":300,"kind":"activation"},{"id":2,"bytes":200,"kind":"gradient"}]})";

class Files {
 public:
  std::string put(const std::string& name, const std::string& text) const {
    directory_.write(name, text);
    return path(name);
  }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

 private:
  TemporaryDirectory directory_;
};

void refuses(const std::string& path, int exit_code, const std::string& part) {
  const auto input = load_plan_input(path);
  INFO(path << ": " << input.result.error);
  CHECK_FALSE(input.result);
  CHECK(input.exit_code == exit_code);
  CHECK(input.result.error.find(path) != std::string::npos);
  CHECK(input.result.error.find(part) != std::string::npos);
}

// Two buffers that live at once: 12 bytes.
planner::Instance pair() {
  return {"pair", {{8, 0, 2, 1, planner::no_tensor}, {4, 1, 3, 1, planner::no_tensor}}, nullptr};
}

Result<planner::Placement> right(const planner::Instance&, const planner::SearchControl&) {
  return ok(planner::Placement{{0, 8}, 12});
}
Result<planner::Placement> wrong(const planner::Instance&, const planner::SearchControl&) {
  return ok(planner::Placement{{0, 0}, 8});
}
Result<planner::Placement> none(const planner::Instance&, const planner::SearchControl&) {
  return refused<planner::Placement>("not today");
}
// Goes on until it is told to stop, as a search would.
Result<planner::Placement> endless(const planner::Instance& instance, const planner::SearchControl& control) {
  while (!control.stop()) {
  }
  return right(instance, control);
}

// Never asks, as many published policies.
std::atomic<bool> may_end = false;
Result<planner::Placement> deaf(const planner::Instance& instance, const planner::SearchControl& control) {
  while (!may_end) {
  }
  return right(instance, control);
}
Result<planner::Placement> failing(const planner::Instance&, const planner::SearchControl&) {
  throw std::bad_alloc();
}

ReuseRun run_with(Result<planner::Placement> (*place)(const planner::Instance&,
                                                      const planner::SearchControl&),
                  double seconds = 0) {
  SearchWatch watch(seconds, false);
  const planner::Instance instance = pair();
  return run_policy(planner::ReusePolicy{"test", "tests", "here", place}, instance, {}, watch);
}

}  // namespace

TEST_CASE("FilesThatAreNoTracesAreRefusedByName") {
  const Files files;
  refuses(files.path("missing"), exit_not_found, "No such file");
  refuses(files.path(""), exit_failure, "directory");
  refuses(files.put("empty", ""), exit_failure, "empty");
  refuses(files.put("text", "hello\n"), exit_failure, "neither");
  refuses(files.put("version", R"({"format":"terrace-trace","version":2,"ops":[],"tensors":[]})"),
          exit_failure, "version");
  refuses(files.put("negative.csv", "id,lower,upper,size\n0,0,1,-4\n"), exit_failure, "-4");
  refuses(files.put("nothing.csv", "id,lower,upper,size\n"), exit_failure, "nothing");
}

TEST_CASE("TruncatedAndDamagedGzipIsRefused") {
  const Files files;
  const std::string whole = files.path("whole.json.gz");
  REQUIRE(write_whole(whole, small_trace).empty());
  REQUIRE(load_plan_input(whole).result);
  std::string packed;
  {
    std::ifstream file(whole, std::ios::binary);
    packed.assign(std::istreambuf_iterator<char>(file), {});
  }
  REQUIRE(import::is_gzip(packed));
  refuses(files.put("half.json.gz", packed.substr(0, packed.size() / 2)), exit_failure, "");
  packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 0x10);
  refuses(files.put("damaged.json.gz", packed), exit_failure, "");
}

TEST_CASE("LifetimesAndTracesAreRecognised") {
  const Files files;
  const auto csv = load_plan_input(files.put("five.csv", lifetimes));
  REQUIRE(csv.result);
  CHECK(csv.result->trace == nullptr);
  CHECK(csv.result->instance.name == "five");
  CHECK(csv.result->instance.buffers.size() == 5);
  const auto trace = load_plan_input(files.put("step.json", small_trace));
  REQUIRE(trace.result);
  CHECK(trace.result->instance.trace == trace.result->trace.get());
  CHECK(trace.result->instance.name == "small");
  CHECK(trace.result->instance.buffers.size() == 4);
  CHECK(input_summary(*trace.result, true) ==
        "small (terrace): 3 operations of 60.0 µs, 3 tensors, 4 buffers; 1600 in all, at most 1600 alive at "
        "once\nat the peak, operation 1 ('b'): weight 1000, rounding to 512 bytes 960, activation 300, "
        "gradient 200, workspace 100\n");
}

TEST_CASE("AFormatThatIsNotKnownIsAQuestionOfUsage") {
  const Files files;
  const auto input = load_plan_input(files.put("step.json", small_trace), "msgpack");
  CHECK(input.exit_code == exit_usage);
  CHECK(input.result.error.find("kineto") != std::string::npos);
}

TEST_CASE("MachinesComeByNameOrFile") {
  const Files files;
  const auto built_in = load_machine("a100-g10");
  REQUIRE(built_in.result);
  CHECK(built_in.result->tiers.front().capacity_bytes == std::uint64_t{40} << 30);
  CHECK(load_machine("a9000").exit_code == exit_not_found);
  CHECK(load_machine("a9000").result.error.find("a100-g10") != std::string::npos);
  CHECK(load_machine(files.put("machine.json", R"({"format":"terrace-machine","version":9})")).exit_code ==
        exit_failure);
}

TEST_CASE("PoliciesAreChosenByNameOnceEach") {
  const auto chosen = choose_policies({"tflite_naive", "tflite_naive", "bfc"}, false);
  REQUIRE(chosen);
  REQUIRE(chosen->reuse.size() == 2);
  CHECK(std::string(chosen->reuse[1].name) == "bfc");
  CHECK(choose_policies({"nonsense"}, false).error.find("--list") != std::string::npos);
  CHECK(choose_policies({"minimalloc"}, false).error.find("'exact'") != std::string::npos);
  CHECK(choose_policies({"exact"}, false)->reuse.size() == 1);
  CHECK(choose_policies({"lru"}, false).error.find("--machine") != std::string::npos);
  CHECK(choose_policies({"lru"}, true)->swap.size() == 1);
  const auto compressing = choose_policies({"swapadvisor+cdma", "g10+cswap", "swapadvisor+cdma"}, true);
  REQUIRE(compressing);
  REQUIRE(compressing->swap.size() == 2);
  CHECK(compressing->swap[1].name == "g10+cswap");
  CHECK(choose_policies({"lru+cdma"}, true).error.find("--policy lru+cdma: 'lru' plans no move") == 0);
  CHECK(choose_policies({"tflite_naive+cdma"}, true).error.find("no policy 'tflite_naive'") !=
        std::string::npos);
  CHECK(choose_policies({"g10+cdma"}, false).error.find("--machine") != std::string::npos);
  CHECK(choose_policies({"all"}, false)->swap.empty());
  CHECK(choose_policies({"all"}, true)->swap.size() == planner::swap_policies().size());
  CHECK(choose_policies({"all"}, true)->update.size() == planner::update_policies().size());
  CHECK(choose_policies({"all"}, false)->update.empty());
}

TEST_CASE("EveryPlacementIsJudged") {
  CHECK(run_with(right).valid());
  const ReuseRun damaged = run_with(wrong);
  CHECK_FALSE(damaged.valid());
  CHECK(damaged.wrong.find("overlaps") != std::string::npos);
  const ReuseRun without = run_with(none);
  CHECK_FALSE(without.valid());
  CHECK(without.why_not == "not today");
  const std::vector<ReuseRun> runs{damaged, without, run_with(right)};
  CHECK(best_of(runs) == &runs[2]);
}

TEST_CASE("ASearchEndsWhenItsTimeIsUpWithTheBestSoFar") {
  const ReuseRun stopped = run_with(endless, 1e-9);
  CHECK(stopped.stopped);
  CHECK(stopped.valid());
}

TEST_CASE("ASignalEndsASearchWithTheBestSoFar") {
  SearchWatch watch(0, false);
  CHECK_FALSE(SearchWatch::interrupted());
  std::raise(SIGINT);
  CHECK(SearchWatch::interrupted());
  CHECK(SearchWatch::signal_number() == SIGINT);
  const planner::Instance instance = pair();
  const ReuseRun stopped =
      run_policy(planner::ReusePolicy{"test", "tests", "here", endless}, instance, {}, watch);
  CHECK(stopped.stopped);
  CHECK(stopped.valid());
}

TEST_CASE("APolicyThatNeverAsksIsLeftBehindAfterASignal") {
  const planner::Instance instance = pair();
  SearchWatch watch(0, false, std::chrono::milliseconds(30));
  std::raise(SIGTERM);
  const ReuseRun left = run_policy(planner::ReusePolicy{"test", "tests", "here", deaf}, instance, {}, watch);
  may_end = true;
  CHECK(watch.left_behind());
  CHECK_FALSE(left.valid());
  CHECK(left.why_not == "interrupted before it had an answer");
}

TEST_CASE("WhatAPolicyThrowsReachesTheCaller") { CHECK_THROWS_AS(run_with(failing), std::bad_alloc); }

TEST_CASE("ABoundThatNoTransferMeetsIsImpossible") {
  const Files files;
  const auto input = load_plan_input(files.put("step.json", small_trace));
  planner::Machine machine;
  machine.name = "tiny";
  machine.tiers = {{"gpu", 100}};
  PlanReport report;
  report.input = &*input.result;
  report.machine = &machine;
  CHECK(plan_tables(report, true).find("transfers impossible") != std::string::npos);
  CHECK_FALSE(plan_json(report)["bounds"].contains("transfer_us"));
}

namespace {

// Both tensors live at once in the trace's order, and never in this one.
constexpr const char* two_lives = R"({"format":"terrace-trace","version":1,"name":"two",
 "ops":[{"name":"a","time_us":10,"inputs":[],"outputs":[1]},{"name":"b","time_us":10,"inputs":[],"outputs":[2]},
        {"name":"c","time_us":10,"inputs":[1],"outputs":[]},{"name":"d","time_us":10,"inputs":[2],"outputs":[]}],
 "tensors":[{"id":1,"bytes":100},{"id":2,"bytes":100}]})";

Result<wire::Schedule> in_its_order(const wire::Trace& trace, const planner::Machine&) {
  wire::Schedule schedule{trace.name, "by hand", {}};
  schedule.operations = {0, 2, 1, 3};
  return ok(std::move(schedule));
}

}  // namespace

TEST_CASE("APlanInAnotherOrderSaysSoAndHasTheBoundOfThatOrder") {
  const Files files;
  const auto input = load_plan_input(files.put("two.json", two_lives));
  REQUIRE(input.result);
  planner::Machine machine;
  machine.name = "small";
  machine.tiers = {{"gpu", 100}};
  SearchWatch watch(0, false);
  PlanReport report;
  report.input = &*input.result;
  report.machine = &machine;
  const planner::SwapPolicy policy{"by hand", "test", "", planner::Victims::none, in_its_order};
  report.swap.push_back(run_policy(policy, *input.result->trace, machine, report.limits, watch));
  REQUIRE(report.swap[0].valid());
  report.bounds.emplace().moving.step_us = 80;  // of the trace's order: not this plan's
  json step = json::parse(plan_json(report).dump())["steps"][0];
  CHECK(step["reordered"] == 2);
  CHECK_FALSE(step.contains("bound"));
  report.swap[0].bounds_in_its_order.emplace().moving.step_us = 40;
  step = json::parse(plan_json(report).dump())["steps"][0];
  CHECK((step["bound"] == 1.0 && step["to_bound"] == 1.0));
  CHECK(plan_tables(report, true).find("2 operations in another place, BOUND of that order") !=
        std::string::npos);
}

TEST_CASE("AReportSaysTheSameAsTableAndAsJson") {
  const Files files;
  const auto input = load_plan_input(files.put("five.csv", lifetimes));
  SearchWatch watch(0, false);
  PlanReport report;
  report.input = &*input.result;
  report.limits.capacity_bytes = 16;
  const auto chosen = choose_policies({"tflite_naive", "tflite_by_size"}, false);
  for (const auto& policy : chosen->reuse)
    report.reuse.push_back(run_policy(policy, report.input->instance, report.limits, watch));
  const std::string table = plan_tables(report, true);
  CHECK(table.find("tflite_naive           20      +66.7%") != std::string::npos);
  CHECK(table.find("does not fit") != std::string::npos);
  CHECK(table.find("least memory: tflite_by_size, 12") != std::string::npos);
  const json document = json::parse(plan_json(report).dump());
  CHECK(document["version"] == 1);
  CHECK(document["bounds"]["max_live_bytes"] == 12);
  CHECK(document["placements"][0]["total_bytes"] == 20);
  CHECK(document["placements"][1]["to_bound"] == 1.0);
  CHECK(document["placements"][1]["valid"] == true);
  CHECK_FALSE(document.contains("machine"));
}

TEST_CASE("AWrittenPlacementHasEachBufferWithItsTensor") {
  const Files files;
  const auto input = load_plan_input(files.put("step.json", small_trace));
  SearchWatch watch(0, false);
  const ReuseRun placed =
      run_policy(choose_policies({"tflite_naive"}, false)->reuse[0], input.result->instance, {}, watch);
  REQUIRE(placed.valid());
  const json document = json::parse(placement_json(input.result->instance, placed));
  CHECK(document["format"] == "terrace-placement");
  CHECK(document["total_bytes"] == 1600);
  REQUIRE(document["buffers"].size() == 4);
  CHECK(document["buffers"][0]["tensor"] == 7);
  CHECK_FALSE(document["buffers"][3].contains("tensor"));
  CHECK(document["buffers"][3]["bytes"] == 100);
}

TEST_CASE("AnOutputThatCannotBeWrittenKeepsNoOtherFromBeing") {
  const Files files;
  const auto input = load_plan_input(files.put("five.csv", lifetimes));
  SearchWatch watch(0, false);
  PlanReport report;
  report.input = &*input.result;
  report.reuse = {
      run_policy(choose_policies({"tflite_naive"}, false)->reuse[0], report.input->instance, {}, watch)};
  PlanOptions options;
  options.plot = files.path("none/picture");
  options.out = files.path("placement.json");
  const PlanFiles written = write_plan_files(options, report);
  CHECK(written.written == std::vector<std::string>{options.out});
  REQUIRE(written.errors.size() == 2);  // both pictures
  CHECK(written.errors[0].find("--plot: " + options.plot) == 0);
}

TEST_CASE("WhatAnInterruptedSearchHasNotFoundIsNoError") {
  const Files files;
  const auto input = load_plan_input(files.put("step.json", small_trace));
  PlanReport report;
  report.input = &*input.result;
  PlanOptions options;
  options.plot = files.path("picture");
  options.out = files.path("out.json");
  options.perfetto = files.path("timeline.json");
  CHECK(write_plan_files(options, report).errors.size() == 3);
  report.interrupted = true;
  CHECK(write_plan_files(options, report).errors.empty());
  CHECK(write_plan_files(options, report).written.empty());
}

TEST_CASE("AFileIsReplacedWholeOrNotAtAll") {
  const Files files;
  const std::string path = files.put("out.json", "before");
  CHECK(write_whole(path, "after").empty());
  CHECK(*load_text(path).result == "after");
  CHECK(write_whole(files.path("none/out.json"), "x").find("No such file") != std::string::npos);
}

TEST_CASE("TheBudgetThatIsAskedForIsAPointOfTheCurve") {
  const Files files;
  const auto input = load_plan_input(files.put("step.json", small_trace));
  const auto machine = load_machine("a100-g10");
  const auto lru = choose_policies({"lru"}, true);
  SearchWatch watch(0, false);
  const auto curve_with = [&](const char* asked) {
    return budget_curve(lru->swap.front(), *input.result->trace, *machine.result, {}, watch, {},
                        *wire::parse_amount(asked));
  };
  const BudgetCurve all = curve_with("100%");
  const auto point = asked_point(all, "python3");
  REQUIRE(point);
  CHECK(point->budget_bytes == all.live_bytes);
  CHECK(point->live_bytes == all.live_bytes);
  CHECK(point->compute_us == 60);
  CHECK(point->step_us >= 60);
  CHECK(point->trace == "small");
  CHECK(point->policy == "lru");
  CHECK(point->program == "python3");
  // One that is none of the ten.
  const std::uint64_t odd = all.smallest_bytes + (all.live_bytes - all.smallest_bytes) / 2 + 1;
  CHECK(asked_point(curve_with(std::to_string(odd).c_str()), "")->budget_bytes == odd);
  const std::string refusal = asked_point(curve_with("1"), "").error;
  CHECK(refusal.find("not planned for 1 B") != std::string::npos);
  CHECK(refusal.find("smallest budget that fits") != std::string::npos);
}
