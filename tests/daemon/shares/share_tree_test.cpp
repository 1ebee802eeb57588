// What is kept for those who are not there, of what does not come back in time.
#include "daemon/shares/share_tree.h"

#include <catch2/catch.hpp>

#include "tests/units.h"

using namespace terrace::daemon;

namespace {

using terrace::tests::gib;

constexpr std::uint32_t iris = 1000, jack = 1001, kate = 3000;
constexpr Holding anything{.borrows = true};

struct Kept {
  UserShares users;
  std::vector<std::uint64_t> lend(std::uint64_t whole, const std::vector<std::uint32_t>& there) const {
    ShareTree tree(users);
    for (const std::uint32_t uid : there) tree.add(uid, anything);
    tree.keep_guarantees();
    return tree.lend(whole);
  }
};

}  // namespace

TEST_CASE_METHOD(Kept, "WhatAUserIsGuaranteedIsKeptUntilHeComes") {
  users.set(iris, {.guarantee_bytes = 3 * gib});
  CHECK(lend(10 * gib, {kate}) == std::vector<std::uint64_t>{7 * gib});
  CHECK(lend(10 * gib, {kate, iris}) == std::vector<std::uint64_t>{5 * gib, 5 * gib});
  CHECK(lend(5 * gib, {kate, iris}) == std::vector<std::uint64_t>{2 * gib, 3 * gib});
}

TEST_CASE_METHOD(Kept, "WhatAGroupIsGuaranteedIsKeptForIt") {
  users.set(jack, {.guarantee_bytes = gib});
  users.add_group({.name = "lab", .guarantee_bytes = 4 * gib}, {iris, jack});
  CHECK(lend(10 * gib, {kate}) == std::vector<std::uint64_t>{6 * gib});
  CHECK(lend(5 * gib, {kate, iris}) == std::vector<std::uint64_t>{gib, 3 * gib});  // of that Jack's stays
  CHECK(lend(10 * gib, {iris}) == std::vector<std::uint64_t>{9 * gib});
}

TEST_CASE_METHOD(Kept, "WhatAJobIsGuaranteedByNameIsKeptFromItsUsersOthers") {
  JobShares jobs;
  jobs.add({iris}, "nightly", {.guarantee_bytes = 3 * gib});
  users.set_jobs(std::move(jobs));
  CHECK(lend(10 * gib, {kate}) == std::vector<std::uint64_t>{7 * gib});
  CHECK(lend(10 * gib, {iris}) == std::vector<std::uint64_t>{7 * gib});
  ShareTree tree(users);
  tree.add(iris, {.borrows = true, .least = 3 * gib});  // it is there
  tree.add(iris, anything);
  tree.keep_guarantees();
  CHECK(tree.lend(4 * gib) == std::vector<std::uint64_t>{3 * gib, gib});
}

TEST_CASE_METHOD(Kept, "WhatLimitedJobsOfAGuaranteedUserCannotHaveIsKeptForHisNext") {
  users.set(iris, {.guarantee_bytes = 6 * gib});
  ShareTree tree(users);
  tree.add(iris, {.borrows = true, .most = 2 * gib});
  tree.add(kate, anything);
  tree.keep_guarantees();
  CHECK(tree.lend(10 * gib) == std::vector<std::uint64_t>{2 * gib, 4 * gib});
}

TEST_CASE_METHOD(Kept, "WhatLimitedMembersCannotHaveOfTheirGroupsGuaranteeIsKeptForOthersOfIt") {
  users.set(iris, {.limit_bytes = gib});
  users.add_group({.name = "lab", .guarantee_bytes = 4 * gib}, {iris, jack});
  CHECK(lend(10 * gib, {iris, kate}) == std::vector<std::uint64_t>{gib, 6 * gib});
}

TEST_CASE_METHOD(Kept, "WhatHasBeenUsedUpOfAGuaranteeIsNotKeptAgain") {
  users.set(iris, {.guarantee_bytes = 6 * gib});
  ShareTree tree(users);
  tree.add_rest(iris, 5 * gib);
  tree.add(kate, anything);
  tree.keep_guarantees();
  CHECK(tree.lend(10 * gib) == std::vector<std::uint64_t>{4 * gib});
}

TEST_CASE_METHOD(Kept, "MembersWhoAreNotThereDoNotWeighInTheirGroup") {
  users.set(jack, {.weight = 8, .guarantee_bytes = gib});
  users.add_group({.name = "lab"}, {iris, jack});
  CHECK(lend(9 * gib, {kate, iris}) == std::vector<std::uint64_t>{9 * gib / 2, 9 * gib / 2 - gib});
  CHECK(lend(10 * gib, {kate, jack}) == std::vector<std::uint64_t>{10 * gib / 9, 10 * gib / 9 * 8});
}

TEST_CASE("SharesAreScaledToAnotherWhole") {
  UserShares users;
  users.set_cap(8 * gib);
  users.set(iris, {.guarantee_bytes = 4 * gib, .limit_bytes = 6 * gib});
  users.add_group({.name = "lab", .guarantee_bytes = 6 * gib}, {jack});
  JobShares jobs;
  jobs.add({iris}, "nightly", {.guarantee_bytes = 2 * gib});
  users.set_jobs(std::move(jobs));
  const UserShares half = users.scaled(16 * gib, 8 * gib);
  CHECK(half.cap_of(kate) == 4 * gib);
  CHECK(half.of(iris).guarantee_bytes == 2 * gib);
  CHECK(half.of(iris).limit_bytes == 3 * gib);
  CHECK(half.of(kate).limit_bytes == no_limit);
  CHECK(half.groups()[0].guarantee_bytes == 3 * gib);
  CHECK(half.groups()[0].limit_bytes == no_limit);
  CHECK(half.of(JobKey{iris, "nightly"}).guarantee_bytes == gib);
  CHECK(half.jobs().guaranteed_bytes(iris) == gib);
}

TEST_CASE("ACapBoundsWhatIsLentOnlyWhereThatIsSaid") {
  UserShares users;
  users.set_cap(4 * gib);
  users.set(iris, {.guarantee_bytes = 5 * gib});
  CHECK(users.of(kate).limit_bytes == no_limit);
  users.set_caps_loans(true);
  CHECK(users.of(kate).limit_bytes == 4 * gib);
  CHECK(users.of(iris).limit_bytes == 5 * gib);
  CHECK(users.of(0U).limit_bytes == no_limit);
}
