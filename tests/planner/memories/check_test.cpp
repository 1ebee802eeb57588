// The judge finds each kind of damage to a right timeline.
#include <catch2/catch.hpp>

#include "tests/planner/memories/two_memories.h"

namespace terrace::planner::memories {
namespace {

using namespace test;
using Catch::Matchers::Contains;

// Tensor 0 leaves after its birth and comes back for the last operation; tensor 1 is born slow.
struct Moved {
  Step step = on_two(test::step({tensor(10), tensor(5)},
                                {op(10, {}, {0}), op(200, {}, {1}), op(100, {1}, {}), op(10, {0}, {})}),
                     10);
  Report report =
      simulate(step, {{true, false}, {{1, 0, Move::out}, {2, 0, Move::in}}}, {.steps = 1, .timeline = true});
  std::string wrong() const { return check(step, report); }
};

}  // namespace

TEST_CASE("The judge has nothing against a right timeline") {
  const Moved m;
  REQUIRE(m.report.transfers.size() == 2);
  REQUIRE(m.report.stays.size() == 2);
  CHECK(m.wrong().empty());
}

TEST_CASE("The judge finds what is faster than it can be") {
  Moved m;
  SECTION("an operation") {
    m.report.runs[1].end_us -= 20;
    CHECK_THAT(m.wrong(), Contains("faster than its accesses"));
  }
  SECTION("a move out") {
    m.report.transfers[0].end_us -= 5;
    CHECK_THAT(m.wrong(), Contains("moves faster"));
  }
  SECTION("a move in") {
    m.report.transfers[1].end_us -= 5;
    CHECK_THAT(m.wrong(), Contains("moves faster"));
  }
  SECTION("a step") {
    m.report.total_us -= 5;
    CHECK_THAT(m.wrong(), Contains("the step's time"));
  }
  SECTION("an operation that begins before the one before it ends") {
    m.report.runs[1].start_us = m.report.runs[1].ready_us = m.report.runs[0].end_us - 1;
    CHECK_THAT(m.wrong(), Contains("in this order"));
  }
}

TEST_CASE("The judge finds content that is not where it is used") {
  Moved m;
  SECTION("it never left, and its stay ended") {
    m.report.transfers.erase(m.report.transfers.begin());
    CHECK_THAT(m.wrong(), Contains("tensor 0"));
  }
  SECTION("it never came") {
    m.report.transfers.pop_back();
    CHECK_THAT(m.wrong(), Contains("from nowhere"));
  }
  SECTION("it left while the operation used it") {
    m.report.stays[1].end_us -= 5;
    CHECK_THAT(m.wrong(), Contains("left the fast memory in use"));
  }
  SECTION("it was not in the fast memory when it left") {
    m.report.stays[0].end_us = m.report.transfers[0].end_us - 1;
    CHECK_THAT(m.wrong(), Contains("was not in the fast memory meanwhile"));
  }
}

TEST_CASE("The judge finds more in the fast memory than it holds") {
  Moved m;
  m.step.fast_bytes = 9;
  CHECK_THAT(m.wrong(), Contains("the fast memory holds 10 bytes"));
}

TEST_CASE("The judge finds moves of one direction at the same time") {
  Moved m;
  m.report.transfers.insert(m.report.transfers.begin() + 1, m.report.transfers[0]);
  CHECK_THAT(m.wrong(), Contains("overlap"));
}

TEST_CASE("The judge finds a write to what is on its way") {
  const Step s = on_two(test::step({tensor(10)}, {op(10, {}, {0}), op(20, {0}, {0}), op(10, {0}, {})}), 10);
  Report r = simulate(s, {{false}, {{1, 0, Move::in}}}, {.steps = 1, .timeline = true});
  REQUIRE(check(s, r) == "");
  r.transfers[0].end_us += 1;
  CHECK_THAT(check(s, r), Contains("is written on its way"));
}

}  // namespace terrace::planner::memories
