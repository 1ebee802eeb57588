#include "tools/cli/daemon/stall_causes.h"
#include "tests/tools/says.h"

#include <catch2/catch.hpp>

using namespace terrace::cli;
using nlohmann::json;

namespace {

json event(const char* kind, std::uint64_t milliseconds, std::uint64_t address = 0x1000,
           std::uint64_t session = 1) {
  return {{"kind", kind},
          {"time_ns", milliseconds * 1'000'000},
          {"address", address},
          {"session", session},
          {"job", "j"}};
}

StallCauses causes(std::initializer_list<json> events) {
  StallAttribution attribution;
  for (const json& one : events) attribution.take("/s", one);
  return attribution.collect("/s", "j");
}

}  // namespace

TEST_CASE("WaitWithAReadIsForThePool") {
  const auto found = causes({event("fault", 10), event("read_done", 15), event("restore", 20)});
  CHECK(found.pool_seconds == Approx(0.010));
  CHECK(found.put_back_seconds == 0);
  CHECK(found.waits == 1);
}

TEST_CASE("WaitWithoutAReadIsForDataStillInDram") {
  const auto found = causes({event("fault", 10), event("restore", 12)});
  CHECK(found.put_back_seconds == Approx(0.002));
}

TEST_CASE("WaitOfAnotherUsersJobIsNotExplained") {
  json fault = event("fault", 10), restore = event("restore", 12);
  fault.erase("address");
  restore.erase("address");
  const auto found = causes({fault, restore});
  CHECK(found.waits == 0);
  CHECK(says(why_slow({{"pager", "active"}, {"stall_seconds", 0.9}}, found, true), "administrators"));
}

TEST_CASE("WaitEndedByCancelIsForDataThatWasLeaving") {
  const auto found = causes({event("fault", 10), event("cancel", 11)});
  CHECK(found.leaving_seconds == Approx(0.001));
}

TEST_CASE("FirstFaultCountsWhenSeveralThreadsWait") {
  const auto found =
      causes({event("fault", 10), event("fault", 14), event("read_done", 15), event("restore", 20)});
  CHECK(found.pool_seconds == Approx(0.010));
}

TEST_CASE("RestoresThatNobodyWaitedForDoNotCount") {
  CHECK(causes({event("read_done", 15), event("restore", 20)}).known_seconds() == 0);
}

TEST_CASE("FirstTouchesAreForgottenWhenTheRunLeaves") {
  CHECK(causes({event("fault", 10), event("evict", 500), event("restore", 900)}).known_seconds() == 0);
}

TEST_CASE("ProcessesAndAddressesAreKeptApart") {
  const auto found = causes({event("fault", 10, 0x1000, 1), event("fault", 10, 0x2000, 1),
                             event("read_done", 11, 0x2000, 1), event("restore", 12, 0x1000, 2),
                             event("restore", 13, 0x1000, 1), event("restore", 14, 0x2000, 1)});
  CHECK(found.put_back_seconds == Approx(0.003));
  CHECK(found.pool_seconds == Approx(0.004));
}

TEST_CASE("CollectingStartsOver") {
  StallAttribution attribution;
  attribution.take("/s", event("fault", 10));
  attribution.take("/s", event("restore", 12));
  CHECK(attribution.collect("/s", "j").waits == 1);
  CHECK(attribution.collect("/s", "j").waits == 0);
}

TEST_CASE("TimeThatRunsBackwardsIsNoWait") {
  CHECK(causes({event("fault", 10), event("restore", 5)}).known_seconds() == 0);
}

TEST_CASE("WhySlowNamesTheLargestCause") {
  const json rates{
      {"pager", "active"}, {"stall_seconds", 0.5}, {"read_bytes", 1 << 20}, {"written_bytes", 2 << 20}};
  CHECK(says(why_slow(rates, {0.4, 0.05, 0.05, 9}, true), "data in the pool"));
  CHECK(says(why_slow(rates, {0.0, 0.4, 0.05, 9}, true), "still in DRAM"));
  CHECK(says(why_slow(rates, {0.0, 0.0, 0.4, 9}, true), "while it leaves"));
  CHECK(says(why_slow(rates, {0.1, 0.0, 0.0, 9}, true), "free memory"));
}

TEST_CASE("MissedEventsAreNotTakenForWaitsForMemory") {
  const json rates{{"pager", "active"}, {"stall_seconds", 0.9}};
  CHECK(says(why_slow(rates, {0.1, 0, 0, 3}, false), "data in the pool"));
}

TEST_CASE("WhySlowSaysWhenItIsNotTerrace") {
  CHECK(why_slow({{"pager", "active"}, {"stall_seconds", 0.001}}, {}, true) == "not waiting for Terrace");
}

TEST_CASE("WhySlowPutsErrorsFirst") {
  CHECK(says(why_slow({{"stall_seconds", 0.5}, {"io_errors", 1.0}}, {}, true), "errors"));
  CHECK(says(why_slow({{"stall_seconds", 0.5}, {"pager", "unavailable"}}, {}, true), "unavailable"));
}
