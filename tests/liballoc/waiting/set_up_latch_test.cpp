#include "liballoc/agent/waiting/set_up_latch.h"

#include <catch2/catch.hpp>
#include <thread>

namespace terrace::liballoc {

TEST_CASE("OneClaimsTheSetUpAndTheOthersWaitForIt") {
  SetUpLatch latch;
  REQUIRE(latch.claim());
  CHECK_FALSE(latch.claim());
  CHECK_FALSE(latch.is_open());
  std::thread other([&] { latch.wait(); });
  latch.let_go();
  other.join();
  CHECK(latch.is_open());
  CHECK_FALSE(latch.claim());
}

TEST_CASE("AChildMaySetUpAnew") {
  SetUpLatch latch;
  REQUIRE(latch.claim());
  latch.close_in_child();
  CHECK(latch.claim());
  latch.open_in_child();
  CHECK(latch.is_open());
}

}  // namespace terrace::liballoc
