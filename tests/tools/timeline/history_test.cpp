// What a recording says of objects: lives, absences, waits, and those that were there before.
#include "tools/cli/timeline/history.h"
#include "tests/tools/timeline/recorded.h"

#include <catch2/catch.hpp>

using namespace terrace::cli;
using namespace terrace::cli::test;
using terrace::wire::EventKind;

TEST_CASE("AnObjectLivesFromItsAllocationToItsEnd") {
  const History history =
      history_of(recorded({at(10, EventKind::alloc, here, 3 * run), at(40, EventKind::free, here, 3 * run)}));
  REQUIRE(history.objects.size() == 1);
  const ObjectLife& life = history.objects.front();
  CHECK(life.bytes == 3 * run);
  CHECK(life.born_ns == ms(10));
  CHECK(life.died_ns == ms(40));
  CHECK(life.evictions == 0);
  CHECK(history.peak_bytes == 3 * run);
  CHECK(history.peak_ns == ms(10));
}

TEST_CASE("AbsencesAreCountedByBytesAndTime") {
  const History history =
      history_of(recorded({at(10, EventKind::alloc, here, 2 * run), at(20, EventKind::evict, here + run, run),
                           at(70, EventKind::restore, here + run, run), at(80, EventKind::evict, here, run)},
                          100));
  const ObjectLife& life = history.objects.at(0);
  CHECK(life.evictions == 2);
  CHECK(life.returns == 1);
  CHECK(life.away_byte_seconds == Approx(static_cast<double>(run) * (0.05 + 0.02)));
  CHECK(life.away_bytes == run);
  REQUIRE(history.absences.size() == 2);
  CHECK(history.absences[0].from_ns == ms(20));
  CHECK(history.absences[0].to_ns == ms(70));
  CHECK(history.absences[1].to_ns == ms(100));  // the end of the recording
}

TEST_CASE("ADeathEndsWhatIsAway") {
  const History history =
      history_of(recorded({at(10, EventKind::alloc, here, run), at(20, EventKind::evict, here, run),
                           at(50, EventKind::free, here, run), at(60, EventKind::alloc, here, run)},
                          100));
  REQUIRE(history.objects.size() == 2);
  CHECK(history.objects[0].away_byte_seconds == Approx(static_cast<double>(run) * 0.03));
  CHECK(history.objects[0].away_bytes == 0);
  CHECK(history.objects[1].away_byte_seconds == 0);
}

TEST_CASE("AWaitIsForWhatHadToHappenMeanwhile") {
  const auto cause_of = [](std::vector<JobEvent> between) {
    std::vector<JobEvent> events{at(10, EventKind::alloc, here, run), at(20, EventKind::evict, here, run),
                                 at(30, EventKind::fault, here, run)};
    events.insert(events.end(), between.begin(), between.end());
    const History history = history_of(recorded(events));
    REQUIRE(history.waits.size() == 1);
    CHECK(history.waits[0].object == 0);
    CHECK(history.waits[0].ns == ms(5) - ms(0));
    CHECK(history.objects[0].waits == 1);
    CHECK(history.objects[0].last_touch_ns == ms(30));
    return history.waits[0].cause;
  };
  CHECK(cause_of({at(33, EventKind::read_done, here, run), at(35, EventKind::restore, here, run)}) ==
        WaitCause::pool);
  CHECK(cause_of({at(35, EventKind::restore, here, run)}) == WaitCause::put_back);
  CHECK(cause_of({at(35, EventKind::cancel, here, run)}) == WaitCause::leaving);
}

TEST_CASE("AFirstTouchIsNoWaitForWhatWasAway") {
  const History history =
      history_of(recorded({at(10, EventKind::alloc, here, run), at(11, EventKind::fault, here, run),
                           at(50, EventKind::evict, here, run), at(60, EventKind::restore, here, run)}));
  CHECK(history.waits.empty());
}

TEST_CASE("ARunBelongsToTheObjectOfItsFirstByteElseToTheFirstThatBeginsOnIt") {
  const std::uint64_t half = run / 2;
  const History history = history_of(
      recorded({at(1, EventKind::alloc, here + half, 2 * run), at(2, EventKind::alloc, there, run + half),
                at(3, EventKind::alloc, there + run + half, run), at(4, EventKind::evict, here, run),
                at(5, EventKind::evict, there + run, run)}));
  REQUIRE(history.objects.size() == 3);
  CHECK(history.objects[0].evictions == 1);
  CHECK(history.objects[1].evictions == 1);
  CHECK(history.objects[2].evictions == 0);
}

TEST_CASE("ProcessesDoNotShareAddresses") {
  const History history =
      history_of(recorded({at(1, EventKind::alloc, here, run, 1), at(2, EventKind::alloc, here, run, 2),
                           at(3, EventKind::evict, here, run, 2)}));
  CHECK(history.objects.at(0).evictions == 0);
  CHECK(history.objects.at(1).evictions == 1);
}

TEST_CASE("WhoseEndAloneWasSeenWasThereBefore") {
  const History history = history_of(
      recorded({at(10, EventKind::evict, here + run, run), at(40, EventKind::free, here, 4 * run)}));
  REQUIRE(history.objects.size() == 1);
  CHECK(history.objects[0].born_ns == 0);
  CHECK(history.objects[0].bytes == 4 * run);
  CHECK(history.objects[0].evictions == 1);
  CHECK(history.objects[0].away_byte_seconds == Approx(static_cast<double>(run) * 0.03));
}

TEST_CASE("RunsOfNoKnownObjectAreJoinedByNeighbourhoodAndCaller") {
  auto other = at(13, EventKind::evict, here + 2 * run, run);
  other.call_site = 99;
  const History history = history_of(
      recorded({at(10, EventKind::evict, here + run, run), at(11, EventKind::evict, here, run),
                at(12, EventKind::restore, here, run), other, at(14, EventKind::evict, there, run)}));
  REQUIRE(history.objects.size() == 3);
  CHECK(history.objects[0].address == here);
  CHECK(history.objects[0].bytes == 2 * run);
  CHECK(history.objects[0].evictions == 2);
  CHECK(history.objects[1].bytes == run);
  CHECK(history.objects[2].address == there);
}

TEST_CASE("AnAllocationWhereOneStillLivedEndsThatOneUnseen") {
  const History history =
      history_of(recorded({at(10, EventKind::alloc, here, run), at(20, EventKind::alloc, here, 2 * run),
                           at(30, EventKind::evict, here + run, run)}));
  REQUIRE(history.objects.size() == 2);
  CHECK(history.objects[0].died_ns == 0);
  CHECK(history.objects[1].evictions == 1);
}

TEST_CASE("AllocationsAreNumberedWithinTheirStep") {
  const auto step = [](std::uint64_t milliseconds, std::uint64_t kind, std::uint64_t events) {
    return at(milliseconds, EventKind::step, kind, events);
  };
  const History history = history_of(recorded(
      {at(5, EventKind::alloc, here, run), step(10, 3, 4), at(11, EventKind::alloc, there, run),
       at(12, EventKind::alloc, there + run, run), step(20, 3, 4),
       at(24, EventKind::alloc, there + 2 * run, run), at(25, EventKind::alloc, there + 8 * run, run, 2),
       step(30, 0, 0), at(31, EventKind::alloc, there + 3 * run, run)}));
  REQUIRE(history.objects.size() == 6);
  CHECK(history.objects[0].place == no_place);
  CHECK(history.objects[1].place == 0);
  CHECK(history.objects[2].place == 1);
  CHECK(history.objects[3].place == 0);
  CHECK(history.objects[3].since_step_ns == ms(4) - ms(0));
  CHECK(history.objects[3].step_kind == 3);
  CHECK(history.objects[4].place == no_place);  // of another process
  CHECK(history.objects[5].place == no_place);  // it has left its steps
  REQUIRE(history.steps.size() == 2);
  CHECK(history.steps[1].time_ns == ms(20));
}

// Whatever a daemon says, in whatever order.
TEST_CASE("AnyEventsMakeAHistory") {
  std::uint64_t state = 7;
  const auto draw = [&](std::uint64_t below) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % below;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<JobEvent> events;
    for (std::uint64_t i = 0; i < 300; ++i)
      events.push_back(at(i / 2, static_cast<EventKind>(draw(static_cast<std::uint64_t>(EventKind::count))),
                          draw(4) == 0 ? draw(UINT64_MAX) : draw(12) * run,
                          draw(4) == 0 ? draw(UINT64_MAX) : draw(4) * run, draw(2)));
    const History history = history_of(recorded(events, 150));
    for (const Absence& absence : history.absences) {
      REQUIRE(absence.object < history.objects.size());
      REQUIRE(absence.from_ns <= absence.to_ns);
    }
    for (const ObjectWait& wait : history.waits)
      REQUIRE((wait.object == no_object || wait.object < history.objects.size()));
  }
}
