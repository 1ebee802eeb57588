// Who is written first, who is read next, and what may be asked for ahead, as tensors come and go.
#include "liballoc/gpu/offload/tensors/step_tensors.h"

#include <catch2/catch.hpp>
#include <memory>

using terrace::liballoc::offload::FetchOrder;
using terrace::liballoc::offload::StepTensors;
using terrace::liballoc::offload::Tensor;
using terrace::liballoc::offload::TensorPtr;

namespace {

std::vector<TensorPtr> stored(StepTensors& step, int count) {
  std::vector<TensorPtr> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(std::make_shared<Tensor>());
    step.enter(all.back());
    step.confirm();
  }
  return all;
}

std::vector<std::uint64_t> expected(const StepTensors& step, std::uint64_t behind) {
  std::vector<std::uint64_t> numbers(16);
  numbers.resize(step.expect(behind, numbers.data(), numbers.size()));
  return numbers;
}

std::vector<std::uint64_t> ahead(const StepTensors& step, std::size_t most) {
  std::vector<std::uint64_t> numbers;
  step.look_ahead(most, [&](const TensorPtr& tensor) {
    numbers.push_back(tensor->id);
    return numbers.size() < 3;
  });
  return numbers;
}

using Numbers = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("TensorsAreExpectedInReverseAndThoseThatLeftOrAreAskedForAreNot") {
  StepTensors step;
  const auto all = stored(step, 5);
  CHECK(all.front()->id == 1);
  CHECK(all.back()->position == 4);
  CHECK(expected(step, 0) == Numbers{5, 4, 3, 2, 1});
  step.leave(*all[3]);
  std::byte place{};
  all[1]->to = &place;
  CHECK(expected(step, 0) == Numbers{5, 3, 1});
  CHECK(expected(step, 3) == Numbers{1});
  CHECK(expected(step, 6).empty());  // no such number
}

TEST_CASE("WhatIsWithdrawnHasNeverBeen") {
  StepTensors step;
  stored(step, 2);
  const auto refused = std::make_shared<Tensor>();
  step.enter(refused);
  CHECK(refused->id == 3);
  step.withdraw();
  const auto next = stored(step, 1);
  CHECK(next.front()->id == 3);
  CHECK(next.front()->position == 2);
  CHECK(expected(step, 0) == Numbers{3, 2, 1});
}

TEST_CASE("WhoIsExpectedLastIsFoundOnceAndAgainWhenNobodyIsLeft") {
  StepTensors step;
  const auto all = stored(step, 4);
  std::vector<bool> taken(5);
  const auto next = [&] {
    const TensorPtr found =
        step.last_expected([&](const TensorPtr& tensor) { return tensor != nullptr && !taken[tensor->id]; });
    if (found != nullptr) taken[found->id] = true;
    return found == nullptr ? 0 : found->id;
  };
  CHECK(next() == 1);
  CHECK(next() == 2);
  taken[1] = false;  // behind the cursor: not before the rest
  CHECK(next() == 3);
  CHECK(next() == 4);
  CHECK(next() == 1);
  CHECK(next() == 0);
}

TEST_CASE("LookingAheadBeginsBehindTheLastFetchAndHasABound") {
  StepTensors step;
  const auto all = stored(step, 6);
  CHECK(ahead(step, 10).empty());
  CHECK_FALSE(step.is_fetching());
  step.fetch(*all[5]);
  CHECK(step.is_fetching());
  CHECK(ahead(step, 2) == Numbers{5, 4});
  step.leave(*all[4]);
  CHECK(ahead(step, 10) == Numbers{4, 3, 2});
}

TEST_CASE("ANewStepKnowsTheOrderOfTheLastAndThoseThatStayAreOfNone") {
  StepTensors step;
  const auto first = stored(step, 3);
  for (const int i : {1, 2, 0}) step.fetch(*first[static_cast<std::size_t>(i)]);
  step.end_step();
  step.stay(first[0]);
  CHECK(first[0]->position == FetchOrder::none);
  CHECK_FALSE(step.is_fetching());
  const auto second = stored(step, 3);
  CHECK(expected(step, 0) == Numbers{5, 6, 4});
  CHECK(expected(step, 2).empty());  // of the step before
  const auto any = [](const TensorPtr& tensor) { return tensor != nullptr; };
  CHECK(step.last_expected(any) == second[0]);
  for (const TensorPtr& tensor : second) step.leave(*tensor);
  CHECK(step.last_expected(any) == first[0]);
  step.fetch(*first[0]);  // teaches nothing
  CHECK_FALSE(step.is_fetching());
  first[0]->gone = true;
  CHECK(step.last_expected(any) == nullptr);
}
