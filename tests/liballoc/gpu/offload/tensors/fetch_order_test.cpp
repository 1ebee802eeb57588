#include "liballoc/gpu/offload/tensors/fetch_order.h"

#include <catch2/catch.hpp>

using terrace::liballoc::offload::FetchOrder;

namespace {

std::vector<std::size_t> walk(const FetchOrder& order) {
  std::vector<std::size_t> out;
  for (std::size_t p = order.first(); p != FetchOrder::none; p = order.after(p)) out.push_back(p);
  return out;
}

std::vector<std::size_t> walk_back(const FetchOrder& order) {
  std::vector<std::size_t> out;
  for (std::size_t p = order.last(); p != FetchOrder::none; p = order.before(p)) out.insert(out.begin(), p);
  return out;
}

void store(FetchOrder& order, int count) {
  for (int i = 0; i < count; ++i) order.store();
}

}  // namespace

TEST_CASE("AnEmptyStepHasNoOrder") {
  const FetchOrder order;
  CHECK(walk(order).empty());
  CHECK(walk_back(order).empty());
}

TEST_CASE("BeforeAnythingIsLearnedTheOrderIsReversed") {
  FetchOrder order;
  store(order, 4);
  CHECK(walk(order) == std::vector<std::size_t>{3, 2, 1, 0});
  CHECK(walk_back(order) == walk(order));
}

TEST_CASE("TheLastStepsFetchesComeFirstAndTheRestReversed") {
  FetchOrder order;
  store(order, 5);
  for (const std::size_t p : {2, 0, 2, 4}) order.fetch(p);
  order.end_step();
  store(order, 6);
  CHECK(walk(order) == std::vector<std::size_t>{2, 0, 4, 5, 3, 1});
  CHECK(walk_back(order) == walk(order));
}

TEST_CASE("AShorterStepLeavesOutWhatItHasNot") {
  FetchOrder order;
  store(order, 5);
  for (const std::size_t p : {4, 1, 3, 0}) order.fetch(p);
  order.end_step();
  store(order, 3);
  CHECK(walk(order) == std::vector<std::size_t>{1, 0, 2});
  CHECK(walk_back(order) == walk(order));
}

TEST_CASE("AStepWithoutFetchesTeachesNothing") {
  FetchOrder order;
  store(order, 3);
  for (const std::size_t p : {0, 1, 2}) order.fetch(p);
  order.end_step();
  store(order, 3);
  order.end_step();
  store(order, 3);
  CHECK(walk(order) == std::vector<std::size_t>{0, 1, 2});
}
