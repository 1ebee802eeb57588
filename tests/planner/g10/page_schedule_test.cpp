// Any schedule under G10's rules: made by hand, and made from a tensor schedule of another policy.
#include "daemon/planner/g10/page_schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/simulate/machines.h"
#include "daemon/planner/simulate/simulator.h"
#include "tests/planner/g10/small_trace.h"

namespace terrace::planner {
namespace {

using test::machine_of_pages;
using test::op_of_ticks;
using test::tensor_of_pages;
using wire::Action;

// Two weights that take turns; the GPU has no room for both and the third.
wire::Trace turns() {
  wire::Trace trace;
  trace.tensors = {tensor_of_pages(1000, true), tensor_of_pages(1000, true), tensor_of_pages(100)};
  trace.ops = {op_of_ticks(200, {0}, {}), op_of_ticks(200, {1}, {2}), op_of_ticks(200, {2}, {2})};
  return trace;
}

bool same(const PageScheduleEntry& a, const PageScheduleEntry& b) {
  return a.op == b.op && a.action == b.action && a.tensor == b.tensor;
}

bool holds(const PageSchedule& schedule, const PageScheduleEntry& entry) {
  return std::any_of(schedule.entries.begin(), schedule.entries.end(),
                     [&](const PageScheduleEntry& e) { return same(e, entry); });
}

std::uint64_t second_cycles(const wire::Trace& trace, const G10Machine& machine,
                            const PageSchedule& schedule) {
  const auto report = simulate_g10(trace, machine, schedule);
  INFO(report.error);
  REQUIRE(report);
  return report->iterations[1].cycles;
}

TEST_CASE("A schedule by hand hides what demand paging waits for") {
  const G10Machine machine = machine_of_pages(1200, 5000);
  const PageSchedule turn{{{0, PageAction::fetch, 2},
                           {1, PageAction::evict_to_host, 0},
                           {2, PageAction::evict_to_host, 1},
                           {2, PageAction::fetch, 0},
                           {3, PageAction::release, 2}},
                          PageVictims::oldest};
  const auto report = simulate_g10(turns(), machine, turn);
  REQUIRE(report);
  CHECK(report->iterations[1].traffic.gpu_to_host == 2000 * test::page);
  CHECK(report->iterations[1].traffic.gpu_to_ssd == 0);
  CHECK(report->iterations[1].cycles < second_cycles(turns(), machine, {}));
}

TEST_CASE("A schedule that cannot be obeyed is refused with its entry") {
  const G10Machine machine = machine_of_pages(1200, 5000);
  const auto why = [&](std::vector<PageScheduleEntry> entries) {
    const auto report = simulate_g10(turns(), machine, {std::move(entries), PageVictims::oldest});
    CHECK_FALSE(report);
    return report.error;
  };
  CHECK(why({{4, PageAction::fetch, 0}}) ==
        "entry 0 of the page schedule names operation 4, which the trace lacks");
  CHECK(why({{0, PageAction::fetch, 3}}) ==
        "entry 0 of the page schedule names tensor 3, which the trace lacks");
  CHECK(why({{1, PageAction::fetch, 0}, {0, PageAction::fetch, 0}}) ==
        "entry 1 of the page schedule stands behind one of a later operation");
}

TEST_CASE(
    "A tensor schedule becomes evictions to the tiers that its routes lead to, and the lives of tensors") {
  const G10Machine machine = machine_of_pages(1200, 5000);
  const wire::Schedule tensors{
      "", "by hand", {{1, 0, Action::out, 1, {}}, {2, 1, Action::out, 2, {}}, {2, 0, Action::in, 1, {}}}};
  const auto pages = page_schedule(turns(), *built_in_machine("a100-g10"), tensors, machine);
  INFO(pages.error);
  REQUIRE(pages);
  CHECK(pages->entries.size() == 5);
  CHECK(holds(*pages, {1, PageAction::evict_to_host, 0}));
  CHECK(holds(*pages, {2, PageAction::evict_to_ssd, 1}));
  CHECK(holds(*pages, {2, PageAction::fetch, 0}));
  CHECK(holds(*pages, {0, PageAction::fetch, 2}));  // allocated ahead of the operation that makes it
  CHECK(holds(*pages, {3, PageAction::release, 2}));
  CHECK(std::is_sorted(pages->entries.begin(), pages->entries.end(),
                       [](const auto& a, const auto& b) { return a.op < b.op; }));
  const auto ssd_alone = page_schedule(turns(), *built_in_machine("a100-ssd"),
                                       {"", "by hand", {{1, 0, Action::out, 1, {}}}}, machine);
  REQUIRE(ssd_alone);
  CHECK(holds(*ssd_alone, {1, PageAction::evict_to_ssd, 0}));
}

TEST_CASE("Workspaces are allocated and released, too") {
  wire::Trace trace = turns();
  trace.ops[1].workspace_bytes = 50 * test::page;
  const auto pages = page_schedule(trace, *built_in_machine("a100-g10"), {}, machine_of_pages(1200, 5000));
  REQUIRE(pages);
  CHECK(holds(*pages, {0, PageAction::fetch, 3}));
  CHECK(holds(*pages, {2, PageAction::release, 3}));
}

TEST_CASE("An eviction while the tensor is read waits for the next operation") {
  const wire::Schedule early{"", "by hand", {{1, 1, Action::out, 1, {}}}};
  const auto pages =
      page_schedule(turns(), *built_in_machine("a100-g10"), early, machine_of_pages(1200, 5000));
  REQUIRE(pages);
  CHECK(holds(*pages, {2, PageAction::evict_to_host, 1}));
}

TEST_CASE("What G10's rules do not know is refused by its entry") {
  Machine tiers = *built_in_machine("a100-g10");
  tiers.codecs = {{"half", 1e9, 1e9, 0.5, false, 0}};
  const auto why = [&](wire::ScheduleEntry entry) {
    return page_schedule(turns(), tiers, {"", "by hand", {std::move(entry)}}, machine_of_pages(1200, 5000))
        .error;
  };
  CHECK(why({1, 0, Action::redo, 0, {}}) == "entry 0: G10's rules have no recomputation");
  CHECK(why({1, 0, Action::wait, 0, {}}) == "entry 0: G10's rules have no wait");
  CHECK(why({1, 0, Action::out, 1, 1}) == "entry 0: G10's rules have no codec");
  CHECK(why({1, 9, Action::out, 1, {}}).find("entries[0]") == 0);
  CHECK(why({1, 0, Action::out, 7, {}}).find("entries[0]") == 0);
}

TEST_CASE("Every swap policy's schedule runs under G10's rules") {
  Machine tiers = *built_in_machine("a100-g10");
  std::uint32_t done = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    wire::Trace trace = test::random_trace(seed);
    for (std::size_t i = 1; i < trace.tensors.size(); i += 2) {
      if (!trace.tensors[i].persistent) trace.tensors[i].kind = wire::TensorKind::gradient;
    }
    const G10Machine machine = machine_of_pages(1500 + 30 * seed, 2000);
    tiers.tiers[0].capacity_bytes = machine.gpu_bytes;
    tiers.tiers[1].capacity_bytes = machine.host_bytes;
    for (const SwapPolicy& policy : swap_policies()) {
      const auto schedule = policy.plan(trace, tiers);
      if (!schedule) continue;
      const auto pages = page_schedule(trace, tiers, *schedule, machine);
      INFO(seed << " " << policy.name << " " << pages.error);
      REQUIRE((pages || pages.error.find("G10's rules have no") != std::string::npos));
      if (!pages) continue;
      const auto report = simulate_g10(trace, machine, *pages);
      INFO(report.error);
      REQUIRE(report);
      CHECK(report->iterations[1].cycles >= report->ideal_cycles);
      ++done;
    }
  }
  CHECK(done > 100);
}

}  // namespace
}  // namespace terrace::planner
