// What the job keeps of the schedules that it is offered, and what it refuses.
#include "liballoc/paging/planned/schedule_store.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/liballoc/planned/sealed_plan.h"

using namespace terrace;
using namespace terrace::liballoc;
using namespace terrace::liballoc::test;

namespace {

std::string small_plan(std::uint64_t hash, std::uint32_t period = 10) {
  PlanMaker plan(period, hash);
  const std::uint32_t object = plan.object(1, 8 << 20);
  plan.out(object, 2, 5);
  plan.in(object, 6, 8);
  return plan.image();
}

std::string_view offer(ScheduleStore& store, const std::string& image, std::uint32_t phase,
                       std::uint64_t hash, int seals = all_seals) {
  const SealedPlan sealed(image, seals);
  return store.take(sealed.offer(phase, hash, 1000));
}

struct Store : ScheduleStore {
  ~Store() { forget_all(); }
};

}  // namespace

TEST_CASE("AScheduleIsTakenForAPeriodThatWasSent") {
  Store store;
  CHECK(offer(store, small_plan(7), 1, 7) == "it is for a period that was not asked about");
  store.expect(1, 7);
  CHECK(offer(store, small_plan(7), 2, 7) == "it is for a period that was not asked about");
  CHECK(offer(store, small_plan(8), 1, 8) == "it is for a period that was not asked about");
  CHECK(offer(store, small_plan(8), 1, 7) == "it is for another period");
  CHECK(store.use(1) == nullptr);
  CHECK(offer(store, small_plan(7), 1, 7).empty());
  REQUIRE(store.use(1) != nullptr);
  CHECK(store.use(1)->budget_bytes() == 1000);
  CHECK(store.use(1)->view().entries.size() == 2);
}

TEST_CASE("WhatCouldStillChangeIsRefused") {
  Store store;
  store.expect(1, 7);
  const std::string image = small_plan(7);
  for (const int missing : {F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_GROW})
    CHECK(offer(store, image, 1, 7, all_seals & ~missing).substr(0, 16) == "it is not sealed");
  const int fds[2] = {::open("/dev/zero", O_RDONLY), ::open("/dev/null", O_RDONLY)};
  for (const int fd : fds) {
    CHECK(std::string_view(store.take({1, 7, image.size(), 0, fd})).substr(0, 16) == "it is not sealed");
    ::close(fd);
  }
  CHECK(std::string_view(store.take({1, 7, image.size(), 0, -1})).substr(0, 16) == "it is not sealed");
  CHECK(store.use(1) == nullptr);
}

TEST_CASE("DamagedImagesAreRefusedAndTheOneBeforeStays") {
  Store store;
  store.expect(1, 7);
  const std::string image = small_plan(7);
  REQUIRE(offer(store, image, 1, 7).empty());
  for (std::size_t at = 0; at < image.size(); at += 3) {
    std::string damaged = image;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    CHECK_FALSE(offer(store, damaged, 1, 7).empty());
  }
  const SealedPlan cut(image.substr(0, image.size() - 8));
  PlanOffer longer = cut.offer(1, 7);
  longer.image_bytes = image.size();
  CHECK(std::string_view(store.take(longer)) == "it is shorter than was said");
  longer.image_bytes = ~std::uint64_t{0};
  CHECK(std::string_view(store.take(longer)) == "it is longer than any schedule of a job");
  longer.image_bytes = 8;
  CHECK(std::string_view(store.take(longer)) == "it is too short to be a schedule");
  REQUIRE(store.use(1) != nullptr);
  CHECK(store.use(1)->view().entries.size() == 2);
}

TEST_CASE("AScheduleOfAnotherClockIsRefused") {
  Store store;
  store.expect(1, 7);
  PlanMaker plan(10, 7);
  plan.out(plan.object(1, 8 << 20), 2, 5);
  plan.schedule().clock = wire::Clock::saves;
  CHECK(offer(store, plan.image(), 1, 7) == "its clock does not count allocations");
}

TEST_CASE("AMillionEntriesAreRefused") {
  Store store;
  store.expect(1, 7);
  PlanMaker plan(10, 7);
  const std::uint32_t object = plan.object(1, 8 << 20);
  for (std::uint32_t i = 0; i <= HeldSchedule::most_entries; ++i) plan.out(object, 2, 5);
  CHECK(offer(store, plan.image(), 1, 7) == "it has more entries or objects than any period of a job");
}

TEST_CASE("ANewerScheduleComesIntoForceWhenItIsUsed") {
  Store store;
  store.expect(1, 7);
  REQUIRE(offer(store, small_plan(7), 1, 7).empty());
  const HeldSchedule* const first = store.use(1);
  REQUIRE(first != nullptr);
  CHECK_FALSE(store.is_outdated(1));
  PlanMaker plan(10, 7);
  plan.out(plan.object(3, 8 << 20), 4, 5);
  REQUIRE(offer(store, plan.image(), 1, 7).empty());
  CHECK(store.is_outdated(1));
  CHECK(first->view().entries.size() == 2);  // still mapped
  REQUIRE(store.use(1) != nullptr);
  CHECK(store.use(1)->view().entries.size() == 1);
  CHECK_FALSE(store.is_outdated(1));
  CHECK(store.is_outdated(2));
}

TEST_CASE("TheNewestWinsAlsoWhereAnotherOneWaited") {
  Store store;
  store.expect(1, 7);
  REQUIRE(offer(store, small_plan(7), 1, 7).empty());
  REQUIRE(store.use(1) != nullptr);
  REQUIRE(offer(store, small_plan(7), 1, 7).empty());  // waits
  store.let_go();
  PlanMaker plan(10, 7);
  plan.out(plan.object(3, 8 << 20), 4, 5);
  REQUIRE(offer(store, plan.image(), 1, 7).empty());
  REQUIRE(store.use(1) != nullptr);
  CHECK(store.use(1)->view().entries.size() == 1);
}

TEST_CASE("FourPhasesAreKeptAndTheOneInUseIsNotDropped") {
  Store store;
  for (std::uint32_t phase = 1; phase <= 4; ++phase) {
    store.expect(phase, 7);
    REQUIRE(offer(store, small_plan(7), phase, 7).empty());
  }
  REQUIRE(store.use(1) != nullptr);
  REQUIRE(store.use(2) != nullptr);
  REQUIRE(store.use(1) != nullptr);
  for (std::uint32_t phase = 5; phase <= 9; ++phase) {
    store.expect(phase, 7);
    REQUIRE(offer(store, small_plan(7), phase, 7).empty());
    CHECK_FALSE(store.is_outdated(1));
  }
  CHECK(store.use(1) != nullptr);
  CHECK(store.use(2) == nullptr);
  CHECK(store.use(9) != nullptr);
}
