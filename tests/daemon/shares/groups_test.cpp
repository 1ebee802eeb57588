// Groups: what is said of members together holds for them together, and for nobody else.
#include <catch2/catch.hpp>
#include <cerrno>

#include "daemon/shares/arbiter.h"
#include "daemon/shares/parts.h"
#include "tests/daemon/shares/obey.h"
#include "tests/units.h"

using namespace terrace::daemon;
using Catch::Matchers::Contains;

namespace {

using terrace::tests::gib;
using terrace::tests::mib;

constexpr std::uint32_t ada = 1000, bob = 1001, outsider = 2000;

// A machine of 10 GiB, and a group of two.
struct Lab {
  Arbiter arbiter{10 * gib};
  UserShares users;

  void say(GroupShare lab) {
    lab.name = "lab";
    users.add_group(std::move(lab), {ada, bob});
    arbiter.set_users(users);
  }
  void settle(SessionId last) { test::obey(arbiter, last); }
};

}  // namespace

TEST_CASE_METHOD(Lab, "AGuaranteeOfAGroupIsKeptForItsMembersTogether") {
  say({.guarantee_bytes = 6 * gib});
  const auto refusal = arbiter.admit(1, {outsider, "a"}, 5 * gib);
  REQUIRE(refusal);
  CHECK(refusal->available_bytes == 4 * gib);
  REQUIRE_FALSE(arbiter.admit(1, {ada, "a"}, 4 * gib));
  CHECK(arbiter.admit(2, {outsider, "a"}, 5 * gib)->available_bytes == 4 * gib);  // 2 more stay for bob
  REQUIRE_FALSE(arbiter.admit(2, {outsider, "a"}, 4 * gib));
  REQUIRE_FALSE(arbiter.admit(3, {bob, "a"}, 2 * gib));
}

TEST_CASE_METHOD(Lab, "WhatAMemberIsGuaranteedIsNoOtherMembers") {
  users.set(bob, {.guarantee_bytes = 2 * gib});
  say({.guarantee_bytes = 6 * gib, .limit_bytes = 7 * gib});
  CHECK(arbiter.admit(1, {ada, "a"}, 6 * gib)->available_bytes == 5 * gib);
  REQUIRE_FALSE(arbiter.admit(1, {ada, "a"}, 5 * gib));
  CHECK(arbiter.admit(2, {outsider, "a"}, 4 * gib)->available_bytes == 3 * gib);
  REQUIRE_FALSE(arbiter.admit(2, {bob, "a"}, 2 * gib));
}

TEST_CASE_METHOD(Lab, "ALimitOfAGroupHoldsForPromisesAndLoansOfAll") {
  say({.limit_bytes = 4 * gib});
  REQUIRE_FALSE(arbiter.admit(1, {ada, "a"}, 3 * gib));
  const auto refusal = arbiter.admit(2, {bob, "a"}, 2 * gib);
  REQUIRE(refusal);
  CHECK(refusal->available_bytes == gib);
  CHECK_THAT(refusal->reason, Contains("\"lab\"") && Contains("4.0 GiB") && Contains("[[group]]"));
  REQUIRE_FALSE(arbiter.admit(2, {bob, "a"}, 0));
  REQUIRE_FALSE(arbiter.admit(3, {outsider, "a"}, 0));
  settle(3);
  CHECK(arbiter.granted_bytes(2) == gib);
  CHECK(arbiter.granted_bytes(3) == 6 * gib);
  CHECK_FALSE(arbiter.set_job_budget({bob, "a"}, 3 * gib, Arbiter::By::administrator));
}

TEST_CASE_METHOD(Lab, "AGroupIsLentByItsWeightAndItsMembersByTheirs") {
  users.set(bob, {.weight = 2});
  say({.weight = 4});
  for (const auto& [id, uid] : {std::pair{1, ada}, {2, bob}, {3, outsider}})
    REQUIRE_FALSE(arbiter.admit(static_cast<SessionId>(id), {uid, "a"}, 0));
  settle(3);
  CHECK(arbiter.granted_bytes(1) + arbiter.granted_bytes(2) == Approx(8 * gib));
  CHECK(arbiter.granted_bytes(2) == Approx(2 * arbiter.granted_bytes(1)));
  CHECK(arbiter.granted_bytes(3) == Approx(2 * gib));
}

TEST_CASE_METHOD(Lab, "AGroupWithoutAWeightGetsWhatItsMembersWould") {
  say({.limit_bytes = 9 * gib});
  REQUIRE_FALSE(arbiter.admit(1, {ada, "a"}, 0));
  REQUIRE_FALSE(arbiter.admit(2, {outsider, "a"}, 0));
  settle(2);
  CHECK(arbiter.granted_bytes(1) == Approx(5 * gib));
  REQUIRE_FALSE(arbiter.admit(3, {bob, "a"}, 0));
  settle(3);
  for (const SessionId id : {1, 2, 3}) CHECK(arbiter.granted_bytes(id) == Approx(10 * gib / 3));
}

TEST_CASE_METHOD(Lab, "WhatAGroupIsGuaranteedIsLentWhileNoMemberIsThere") {
  say({.guarantee_bytes = 8 * gib});
  REQUIRE_FALSE(arbiter.admit(1, {outsider, "a"}, 0));
  settle(1);
  CHECK(arbiter.granted_bytes(1) == 10 * gib);
  REQUIRE_FALSE(arbiter.admit(2, {bob, "a"}, 0));
  settle(2);
  CHECK(arbiter.granted_bytes(1) == 2 * gib);
  CHECK(arbiter.granted_bytes(2) == 8 * gib);
}

TEST_CASE("AUserIsInTheFirstGroupAndTheAdministratorInNone") {
  UserShares users;
  users.add_group({.name = "first"}, {0, ada});
  users.add_group({.name = "second"}, {ada, bob});
  CHECK(users.group_of(ada) == 0U);
  CHECK(users.group_of(bob) == 1U);
  CHECK_FALSE(users.group_of(0));
  CHECK_FALSE(users.group_of(outsider));
}

TEST_CASE("WhatPartsCannotUseGoesToOthers") {
  Part limited{{.borrows = true}, {{{.borrows = true, .most = gib}, {}, 0}, {{.bytes = gib}, {}, 0}}, 0};
  std::vector<Part> parts{limited, {{.borrows = true}, {}, 0}};
  lend(10 * gib, &parts);
  CHECK(parts[0].lent_bytes == gib);
  CHECK(parts[0].parts[0].lent_bytes == gib);
  CHECK(parts[0].parts[1].lent_bytes == 0);
  CHECK(parts[1].lent_bytes == 8 * gib);
}
