// What an administrator says that a job has at most: promised, lent, and asked for by its next process.
#include <catch2/catch.hpp>
#include <cerrno>

#include "daemon/shares/arbiter.h"
#include "tests/daemon/shares/obey.h"
#include "tests/units.h"

using namespace terrace::daemon;
using Catch::Matchers::Contains;
using terrace::daemon::test::obey;

namespace {

using terrace::tests::gib;
using terrace::tests::mib;
using By = Arbiter::By;

const JobKey limited{1000, "a"}, sister{1000, "b"}, another{2000, "a"};

}  // namespace

TEST_CASE("ALimitCutsWhatWasPromisedAndOthersHaveIt") {
  Arbiter arbiter(10 * gib);
  REQUIRE_FALSE(arbiter.admit(1, limited, 6 * gib));
  REQUIRE_FALSE(arbiter.set_job_limit(limited, 2 * gib, By::administrator));
  CHECK(arbiter.job_budget_bytes(limited) == 2 * gib);
  REQUIRE_FALSE(arbiter.admit(2, another, 8 * gib));
  REQUIRE_FALSE(arbiter.admit(3, limited, 6 * gib));  // a second process of it, started like the first
  CHECK(arbiter.job_budget_bytes(limited) == 2 * gib);
  arbiter.leave(3);
  CHECK(arbiter.job_budget_bytes(limited) == 2 * gib);
  arbiter.leave(2);
  REQUIRE_FALSE(arbiter.set_job_limit(limited, no_limit, By::administrator));
  CHECK(arbiter.job_budget_bytes(limited) == 6 * gib);
}

TEST_CASE("WithoutItsLimitAJobHasBackOnlyWhatIsLeft") {
  Arbiter arbiter(10 * gib);
  REQUIRE_FALSE(arbiter.admit(1, limited, 6 * gib));
  REQUIRE_FALSE(arbiter.set_job_limit(limited, 2 * gib, By::administrator));
  REQUIRE_FALSE(arbiter.admit(2, another, 7 * gib));
  REQUIRE_FALSE(arbiter.set_job_limit(limited, no_limit, By::administrator));
  CHECK(arbiter.job_budget_bytes(limited) == 3 * gib);
  CHECK(arbiter.promised_bytes() == 10 * gib);
}

TEST_CASE("ALimitBoundsWhatAJobIsLent") {
  Arbiter arbiter(10 * gib);
  REQUIRE_FALSE(arbiter.admit(1, limited, 0));
  REQUIRE_FALSE(arbiter.admit(2, sister, 0));
  REQUIRE_FALSE(arbiter.admit(3, another, 0));
  REQUIRE_FALSE(arbiter.set_job_limit(limited, gib, By::owner));
  obey(arbiter, 3);
  CHECK(arbiter.granted_bytes(1) == gib);
  CHECK(arbiter.granted_bytes(2) == Approx(4 * gib));  // the rest of their user's half
  REQUIRE_FALSE(arbiter.set_job_limit(sister, gib, By::owner));
  obey(arbiter, 3);
  CHECK(arbiter.granted_bytes(3) == 8 * gib);  // what one user may not use another may
}

TEST_CASE("WhatAnAdministratorLimitsItsOwnerCannotRaise") {
  Arbiter arbiter(10 * gib);
  REQUIRE_FALSE(arbiter.admit(1, limited, gib));
  REQUIRE_FALSE(arbiter.set_job_limit(limited, 3 * gib, By::owner));
  REQUIRE_FALSE(arbiter.set_job_limit(limited, 2 * gib, By::administrator));
  CHECK(arbiter.job_limit(limited) == Arbiter::JobLimit{2 * gib, By::administrator});
  const auto refusal = arbiter.set_job_limit(limited, no_limit, By::owner);
  REQUIRE(refusal);
  CHECK(refusal->error == EPERM);
  CHECK_THAT(refusal->reason, Contains("\"a\"") && Contains("2.0 GiB"));
  for (const By by : {By::owner, By::administrator}) {
    const auto beyond = arbiter.set_job_budget(limited, 3 * gib, by);
    REQUIRE(beyond);
    CHECK_THAT(beyond->reason, Contains("2.0 GiB") && Contains("--dram-limit"));
  }
  CHECK(arbiter.set_job_limit(limited, mib, By::administrator)->error == EINVAL);
  CHECK(arbiter.set_job_limit(sister, gib, By::administrator)->error == ENOENT);
  REQUIRE_FALSE(arbiter.pause(limited, true));
  CHECK(arbiter.set_job_limit(limited, gib, By::administrator)->error == EBUSY);
}

TEST_CASE("NoJobHasMoreThanTheCapForAllUnlessAnAdministratorSaysSo") {
  Arbiter arbiter(10 * gib);
  UserShares users;
  users.set_job_cap(3 * gib);
  arbiter.set_users(users);
  const auto refusal = arbiter.admit(1, limited, 4 * gib);
  REQUIRE(refusal);
  CHECK_THAT(refusal->reason, Contains("per_job") && Contains("3.0 GiB"));
  REQUIRE_FALSE(arbiter.admit(1, limited, 0));
  obey(arbiter, 1);
  CHECK(arbiter.granted_bytes(1) == 3 * gib);
  REQUIRE_FALSE(arbiter.set_job_limit(limited, 8 * gib, By::owner));
  CHECK(arbiter.job_budget_bytes(limited) == 3 * gib);
  REQUIRE_FALSE(arbiter.set_job_limit(limited, 8 * gib, By::administrator));
  CHECK(arbiter.job_budget_bytes(limited) == 8 * gib);
  REQUIRE_FALSE(arbiter.admit(2, {0, "root's"}, 0));
  CHECK(arbiter.job_budget_bytes({0, "root's"}) == 5 * gib);
}
