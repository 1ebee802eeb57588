// Points of a budget curve: written, read back, refused; for which program they are; predicted beside
// measured.
#include "tools/cli/point/point.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/tools/says.h"
#include "tests/tools/temporary_directory.h"
#include "tests/units.h"
#include "tools/cli/point/outcome.h"

using namespace terrace::cli;
using namespace terrace::tests;
using nlohmann::json;

namespace {

PlanPoint point() { return {"step", "DRAM and the pool", "g10", "python3", gib, 2 * gib, 2e6, 1.5e6, 3e9}; }

// point_json() with one member changed, or taken away.
std::string changed(const char* member, const json& value) {
  json document = json::parse(point_json(point()));
  if (value.is_null())
    document.erase(member);
  else
    document[member] = value;
  return document.dump();
}

std::string refusal(const std::string& text) {
  const auto read = parse_point(text);
  REQUIRE_FALSE(read);
  CHECK(says(read.error, "--budget-curve --point"));  // what would be one
  return read.error;
}

}  // namespace

TEST_CASE("APointIsReadBackAsItWasWritten") {
  const auto read = parse_point(point_json(point()));
  REQUIRE(read);
  CHECK(read->trace == "step");
  CHECK(read->machine == "DRAM and the pool");
  CHECK(read->policy == "g10");
  CHECK(read->program == "python3");
  CHECK(read->budget_bytes == gib);
  CHECK(read->live_bytes == 2 * gib);
  CHECK(read->step_us == 2e6);
  CHECK(read->compute_us == 1.5e6);
  CHECK(read->moved_bytes == 3e9);
}

TEST_CASE("WhatIsNoPointIsRefusedWithWhatItIs") {
  CHECK(says(refusal(""), "no JSON object"));
  CHECK(says(refusal("[1]"), "no JSON object"));
  CHECK(says(refusal("{\"format\": "), "no JSON object"));
  CHECK(says(refusal("{}"), "has no 'format'"));
  CHECK(says(refusal(changed("format", "terrace-budget-curve")), "this is a terrace-budget-curve"));
  CHECK(says(refusal(changed("version", 2)), "its version is 2"));
  CHECK(says(refusal(changed("version", nullptr)), "its version is missing"));
}

TEST_CASE("NumbersThatCannotBeAreRefusedByName") {
  for (const json& bytes : {json(nullptr), json(0), json(-1), json(1.5), json("1G")})
    CHECK(says(refusal(changed("budget_bytes", bytes)), "'budget_bytes'"));
  for (const json& time : {json(nullptr), json(0), json(-1.0), json(1e300), json("2 s")})
    CHECK(says(refusal(changed("step_us", time)), "'step_us'"));
  CHECK(says(refusal(changed("compute_us", -1.0)), "'compute_us'"));
  CHECK(says(refusal(changed("moved_bytes", -1.0)), "'moved_bytes'"));
}

TEST_CASE("NamesFromAFileAreShortAndPrintable") {
  CHECK(parse_point(changed("policy", "g\n10\x1b"))->policy == "g?10?");
  CHECK(parse_point(changed("policy", std::string(257, 'x')))->policy.empty());
  CHECK(parse_point(changed("program", 7))->program.empty());
}

TEST_CASE("AFileThatCannotBeReadIsNamed") {
  const TemporaryDirectory directory;
  const std::string missing = (directory.path() / "missing.json").string();
  CHECK(says(load_point(missing).error, missing));
  directory.write("text", "hello\n");
  const std::string text = (directory.path() / "text").string();
  CHECK(says(load_point(text).error, text + ": this is no point"));
  directory.write("point.json", point_json(point()));
  CHECK(load_point((directory.path() / "point.json").string()));
}

TEST_CASE("APointIsForTheProgramThatWasRecorded") {
  const TemporaryDirectory directory;
  const auto executable = [&](const char* name, const std::string& content) {
    directory.write(name, content);
    const std::string path = (directory.path() / name).string();
    REQUIRE(chmod(path.c_str(), 0700) == 0);
    return path;
  };
  const std::string binary = executable("trainer",
                                        "\x7f"
                                        "ELF and so on");
  const std::string script = executable("train.sh", "#!/bin/sh\nexec trainer\n");
  const std::string starter = executable("timeout",
                                         "\x7f"
                                         "ELF and so on");
  PlanPoint recorded = point();
  CHECK(says(other_program(recorded, binary), "recorded of python3, and this command starts trainer"));
  CHECK(other_program(recorded, script).empty());
  CHECK(other_program(recorded, starter).empty());
  CHECK(other_program(recorded, "/nonexistent/trainer").empty());
  CHECK(other_program(recorded, "/somewhere/bin/python3").empty());
  recorded.program = "trainer";
  CHECK(other_program(recorded, binary).empty());
  recorded.program.clear();
  CHECK(other_program(recorded, binary).empty());
  // The same program by another name.
  std::filesystem::create_symlink(binary, directory.path() / "trainer2");
  recorded.program = binary;
  CHECK(other_program(recorded, (directory.path() / "trainer2").string()).empty());
}

TEST_CASE("PredictedStandsBesideMeasured") {
  const json counters{{"steps", 4},
                      {"steps_ns", 8'800'000'000},
                      {"written_bytes", std::uint64_t{4'000'000'000}},
                      {"read_bytes", std::uint64_t{8'000'000'000}}};
  const json outcome = outcome_json(point(), counters);
  CHECK(outcome["policy"] == "g10");
  CHECK(outcome["budget_bytes"] == gib);
  CHECK(outcome["predicted_step_seconds"] == 2.0);
  CHECK(outcome["predicted_moved_bytes"] == 3e9);
  CHECK(outcome["steps"] == 4);
  CHECK(outcome["step_seconds"].get<double>() == Approx(2.2));
  CHECK(outcome["step_error"].get<double>() == Approx(0.1));
  CHECK(outcome["moved_bytes"].get<double>() == Approx(3e9));
  const std::string text = outcome_text(point(), gib, counters);
  CHECK(says(text, "was to take 2.00 s and move 2.79 GiB; it took 2.20 s (+10.0%) and moved 2.79 GiB\n"));
  CHECK_FALSE(says(text, "for a budget of"));
  CHECK(says(outcome_text(point(), 3 * gib, counters), "for a budget of 1.00 GiB, and the job had 3.00 GiB"));
}

TEST_CASE("WithoutAStepThereIsNothingToCompare") {
  for (const json& counters : {json(nullptr), json{{"steps", 0}}, json{{"faults", 3}}}) {
    CHECK_FALSE(outcome_json(point(), counters).contains("step_seconds"));
    CHECK(says(outcome_text(point(), {}, counters), "no step was seen"));
  }
}
