// The worked example of docs/formats/trace.md and schedule.md is what it says.
#include <catch2/catch.hpp>
#include <vector>

#include "daemon/planner/machine_json.h"
#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/trace_json.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner {
namespace {

std::vector<std::string> blocks(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t begin = text.find("```\n"); begin != std::string::npos;) {
    const std::size_t end = text.find("\n```", begin + 4);
    REQUIRE(end != std::string::npos);
    all.push_back(text.substr(begin + 4, end - begin - 4));
    begin = text.find("```\n", end + 5);
  }
  return all;
}

// What the operation needs if the tensors with these indices are elsewhere.
std::uint64_t bytes_at(const wire::Trace& trace, std::uint32_t op,
                       const std::vector<std::uint32_t>& elsewhere) {
  std::uint64_t bytes = 0;
  for (const Buffer& b : instance_of(trace).buffers) {
    bool here = b.lower <= op && op < b.upper;
    for (const std::uint32_t t : elsewhere) here = here && b.tensor != t;
    bytes += here ? b.bytes : 0;
  }
  return bytes;
}

}  // namespace

TEST_CASE("The documented example has the documented sizes") {
  const std::vector<std::string> examples = blocks(test::fixture("../../../docs/formats/trace.md"));
  REQUIRE(examples.size() == 2);
  const std::vector<std::string> schedules = blocks(test::fixture("../../../docs/formats/schedule.md"));
  REQUIRE(schedules.size() == 1);
  const Result<wire::Trace> trace = parse_trace(examples[0]);
  INFO(trace.error);
  REQUIRE(trace);
  CHECK(bytes_at(*trace, 0, {}) == 18000);
  CHECK(bytes_at(*trace, 1, {}) == 18000);
  CHECK(bytes_at(*trace, 2, {}) == 27000);
  CHECK(bytes_at(*trace, 3, {}) == 24000);
  CHECK(max_live_bytes(instance_of(*trace).buffers) == 27000);
  CHECK(bytes_at(*trace, 2, {3}) == 19000);
  CHECK(bytes_at(*trace, 3, {1}) == 20000);
  const Result<Machine> machine = parse_machine(examples[1]);
  INFO(machine.error);
  REQUIRE(machine);
  const Result<wire::Schedule> schedule = parse_schedule(schedules[0], *trace, *machine);
  INFO(schedule.error);
  REQUIRE(schedule);
  REQUIRE(schedule->entries.size() == 4);
  CHECK(schedule->entries[0].by == 3);  // as JSON says where it is left out: the next use
  CHECK(schedule->entries[1].by == 4 + 1);
  CHECK(schedule->entries[3].by == 4 + 1);
}

}  // namespace terrace::planner
