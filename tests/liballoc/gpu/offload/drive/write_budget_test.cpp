#include "liballoc/gpu/offload/drive/write_budget.h"

#include <catch2/catch.hpp>
#include <cerrno>

using terrace::liballoc::offload::WriteBudget;

TEST_CASE("ALeaseIsNeverPassedAndWhatIsGivenBackMayBeTakenAgain") {
  WriteBudget budget;
  budget.use_lease();
  CHECK(budget.take(1000) == 0);  // before the daemon has said anything
  budget.submitted(1000);
  budget.set_lease(1500);
  CHECK(budget.take(501) == EDQUOT);
  CHECK(budget.take(500) == 0);
  CHECK(budget.take(1) == EDQUOT);
  budget.untake(500);
  CHECK(budget.take(400) == 0);
  budget.submitted(400);
  CHECK(budget.written_bytes() == 1400);
  CHECK(budget.take(~std::uint64_t{0}) == EDQUOT);
}

TEST_CASE("ALeaseBelowWhatWasTakenTakesNothingMore") {
  WriteBudget budget;
  budget.use_lease();
  REQUIRE(budget.take(1000) == 0);
  budget.set_lease(10);
  CHECK(budget.take(1) == EDQUOT);
  budget.set_lease(1001);
  CHECK(budget.take(1) == 0);
  CHECK(budget.take(1) == EDQUOT);
}
