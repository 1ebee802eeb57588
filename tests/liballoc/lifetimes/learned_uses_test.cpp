// Uses that several periods have shown, each a part of them.
#include "liballoc/lifetimes/learned_uses.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <vector>

namespace terrace::liballoc {
namespace {

constexpr LearnedUses::Frame whole{0, 100};

std::vector<std::uint32_t> counted(const LearnedUses& uses) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < uses.size(); ++i)
    if (uses[i].counts()) all.push_back(uses[i].interval);
  return all;
}
using Intervals = std::vector<std::uint32_t>;

// One period in which the object's run is taken out behind every touch, as by a prober that is quick.
void follow(LearnedUses* uses, const LearnedUses::Frame& frame, std::uint32_t period,
            const Intervals& touched) {
  PeriodPosition left{period, frame.born};
  for (const std::uint32_t interval : touched) {
    const PeriodPosition at{period, interval};
    uses->note_touch(frame, at);
    uses->note_idle(frame, left, at);
    left = at;
  }
  uses->note_idle(frame, left, {period + 1, frame.born});
}

}  // namespace

TEST_CASE("What is touched in a period is a use") {
  LearnedUses uses;
  follow(&uses, whole, 1, {7, 30, 90});
  CHECK(counted(uses) == Intervals{7, 30, 90});
  follow(&uses, whole, 2, {7, 30, 90});
  CHECK(counted(uses) == Intervals{7, 30, 90});
}

TEST_CASE("What one period hides another shows") {
  LearnedUses uses;
  // Taken out late in each: only one touch is seen, and nothing is known of the others.
  for (std::uint32_t period = 1; period < 13; ++period) {
    const std::uint32_t interval = Intervals{7, 30, 90}[period % 3];
    uses.note_touch(whole, {period, interval});
    uses.note_idle(whole, {period, interval - 1}, {period, interval});
  }
  CHECK(counted(uses) == Intervals{7, 30, 90});
}

TEST_CASE("A touch that came once goes again") {
  LearnedUses uses;
  follow(&uses, whole, 1, {7, 50, 90});
  for (std::uint32_t period = 2; period < 4; ++period) follow(&uses, whole, period, {7, 90});
  CHECK(counted(uses) == Intervals{7, 90});
  for (std::uint32_t period = 4; period < 12; ++period) follow(&uses, whole, period, {7, 90});
  CHECK(uses.size() == 2);
}

TEST_CASE("A use that is there in every other period counts") {
  LearnedUses uses;
  for (std::uint32_t period = 1; period < 200; ++period)
    follow(&uses, whole, period, period % 2 == 1 ? Intervals{7, 50, 90} : Intervals{7, 90});
  CHECK(counted(uses) == Intervals{7, 50, 90});
}

TEST_CASE("Several touches in one interval are one use of one period") {
  LearnedUses uses;
  for (int i = 0; i < 10; ++i) uses.note_touch(whole, {1, 5});
  CHECK(uses.size() == 1);
  CHECK(uses[0].possible == 1);
}

TEST_CASE("Uses stand in their order from birth on") {
  LearnedUses uses;
  const LearnedUses::Frame late{80, 100};
  uses.note_touch(late, {2, 10});
  uses.note_touch(late, {1, 95});
  uses.note_touch(late, {1, 80});
  CHECK(counted(uses) == Intervals{80, 95, 10});
}

TEST_CASE("Being away over the end of a period judges what comes behind it") {
  LearnedUses uses;
  uses.note_touch(whole, {1, 10});
  uses.note_touch(whole, {1, 60});
  uses.note_idle(whole, {1, 70}, {2, 30});  // 10 of the next period went by untouched
  CHECK(uses[0].possible == 2);
  CHECK(uses[1].possible == 1);
}

TEST_CASE("Of many uses those around the long pauses stay") {
  LearnedUses uses;
  Intervals touched;
  for (std::uint32_t i = 0; i < 30; ++i) touched.push_back(i);
  touched.push_back(60);
  touched.push_back(99);
  for (std::uint32_t period = 1; period < 5; ++period) follow(&uses, whole, period, touched);
  REQUIRE(uses.size() == LearnedUses::most);
  const Intervals kept = counted(uses);
  CHECK(kept.front() == 0);
  CHECK(std::set<std::uint32_t>(kept.begin(), kept.end()).count(60) == 1);
  CHECK(kept.back() == 99);
}

TEST_CASE("Noise does not hide what repeats") {
  std::mt19937 random(GENERATE(1U, 2U, 3U));
  LearnedUses uses;
  for (std::uint32_t period = 1; period < 60; ++period) {
    std::set<std::uint32_t> touched{7, 30, 90};
    if (random() % 2 == 0) touched.insert(static_cast<std::uint32_t>(random() % 100));  // another thread's
    if (random() % 8 == 0) touched.erase(30);
    follow(&uses, whole, period, Intervals(touched.begin(), touched.end()));
  }
  const Intervals found = counted(uses);
  for (const std::uint32_t interval : {7U, 30U, 90U})
    CHECK(std::count(found.begin(), found.end(), interval) == 1);
  CHECK(found.size() <= 6);
}

}  // namespace terrace::liballoc
