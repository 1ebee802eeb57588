// What is to be taken out and when, and how the time for it ends.
#include "liballoc/paging/learning/probe_queue.h"

#include <catch2/catch.hpp>

namespace terrace::liballoc {

TEST_CASE("The time for probing ends when it is spent and a period brings new time") {
  ProbeQueue queue;
  CHECK_FALSE(queue.may_spend());
  CHECK_FALSE(queue.add(1, 0));
  queue.begin_period(100);
  queue.spend(99);
  CHECK(queue.may_spend());
  CHECK(queue.add(1, 0));
  queue.spend(1);
  CHECK_FALSE(queue.may_spend());
  CHECK_FALSE(queue.add(2, 0));
  CHECK(queue.size() == 1);
  queue.begin_period(100);
  CHECK(queue.may_spend());
  CHECK(queue.add(2, 0));
  queue.begin_period(0);
  CHECK_FALSE(queue.may_spend());
}

TEST_CASE("Blocks are taken out at their positions and not before") {
  ProbeQueue queue;
  queue.begin_period(1);
  CHECK(queue.earliest() == UINT64_MAX);
  REQUIRE(queue.add(1, 30));
  REQUIRE(queue.add(2, 10));
  REQUIRE(queue.add(3, 20));
  CHECK(queue.earliest() == 10);
  std::uint32_t block = 0;
  CHECK_FALSE(queue.take_due(9, &block));
  CHECK(queue.take_due(10, &block));
  CHECK(block == 2);
  CHECK_FALSE(queue.take_due(19, &block));
  CHECK(queue.earliest() == 20);
  queue.remove(3);
  CHECK_FALSE(queue.take_due(29, &block));
  CHECK(queue.take_due(30, &block));
  CHECK(block == 1);
  CHECK_FALSE(queue.take_due(UINT64_MAX, &block));
  CHECK_FALSE(queue.take_any(&block));
}

TEST_CASE("So many blocks wait to be taken out and no more") {
  ProbeQueue queue;
  queue.begin_period(1);
  for (std::uint32_t i = 0; i < ProbeQueue::most; ++i) REQUIRE(queue.add(i, i));
  CHECK_FALSE(queue.has_room());
  CHECK_FALSE(queue.add(ProbeQueue::most, 0));
  std::uint32_t block = 0, taken = 0;
  while (queue.take_any(&block)) ++taken;
  CHECK(taken == ProbeQueue::most);
  CHECK(queue.has_room());
}

}  // namespace terrace::liballoc
