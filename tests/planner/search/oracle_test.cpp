// The search against trying everything: for small instances every canonical placement is enumerated (buffers
// in an order of rising offsets, each at its lowest offset above all that came before), and the verdict must
// be right on both sides of the optimum.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "daemon/planner/reuse/families.h"
#include "daemon/planner/reuse/search/search.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner {
namespace {

using search::Verdict;

class Oracle {
 public:
  explicit Oracle(const std::vector<Buffer>& buffers)
      : buffers_(buffers), offsets_(buffers.size(), unplaced) {}

  std::uint64_t optimum() {
    extend(0, 0, 0);
    return best_;
  }

 private:
  static constexpr std::uint64_t unplaced = std::numeric_limits<std::uint64_t>::max();

  void extend(std::size_t placed, std::uint64_t last_offset, std::uint64_t height) {
    if (placed == buffers_.size()) best_ = std::min(best_, height);
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (offsets_[i] != unplaced) continue;
      const std::uint64_t offset = lowest(i);
      if (offset < last_offset || std::max(height, offset + buffers_[i].bytes) >= best_) continue;
      offsets_[i] = offset;
      extend(placed + 1, offset, std::max(height, offset + buffers_[i].bytes));
      offsets_[i] = unplaced;
    }
  }

  std::uint64_t lowest(std::size_t i) const {
    std::uint64_t top = 0;
    for (std::size_t k = 0; k < buffers_.size(); ++k)
      if (offsets_[k] != unplaced && overlap_in_time(buffers_[i], buffers_[k]))
        top = std::max(top, offsets_[k] + buffers_[k].bytes);
    return (top + buffers_[i].alignment - 1) / buffers_[i].alignment * buffers_[i].alignment;
  }

  const std::vector<Buffer>& buffers_;
  std::vector<std::uint64_t> offsets_;
  std::uint64_t best_ = unplaced;
};

// Shapes that reach different rules: few sizes make twins and exchanges, short times make crowds, long ones
// make parts that fall apart.
Instance small_instance(std::uint64_t seed, std::uint32_t most_buffers) {
  const auto count = static_cast<std::uint32_t>(1 + seed % most_buffers);
  const auto end_time = static_cast<std::uint32_t>(2 + seed / 7 % 9);
  Instance instance = test::random_instance(seed, count, end_time, seed % 3 == 0 ? 3 : 20);
  if (seed % 4 == 1)
    for (std::size_t i = 0; i < instance.buffers.size(); ++i)
      instance.buffers[i].alignment = std::uint64_t{1} << ((seed >> i) % 4);
  return instance;
}

void check_both_sides(const Instance& instance, std::uint64_t optimum) {
  INFO(instance.name << ", optimum " << optimum);
  const search::SearchResult at = search::solve(instance, optimum);
  REQUIRE(at.verdict == Verdict::found);
  CHECK(check_placement(instance, at.placement).empty());
  CHECK(at.placement.total_bytes == optimum);
  CHECK(search::solve(instance, optimum - 1).verdict == Verdict::infeasible);
}

}  // namespace

TEST_CASE("The verdict is that of trying everything, on both sides of the optimum") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Instance instance = small_instance(seed, 6);
    check_both_sides(instance, Oracle(instance.buffers).optimum());
  }
}

TEST_CASE("Larger instances, fewer of them") {
  for (std::uint64_t seed = 10000; seed < 10100; ++seed) {
    const Instance instance = small_instance(seed, 9);
    check_both_sides(instance, Oracle(instance.buffers).optimum());
  }
}

TEST_CASE("The policy reaches the optimum") {
  const ReusePolicy policy = search_policies().at(0);
  for (std::uint64_t seed = 20000; seed < 20300; ++seed) {
    const Instance instance = small_instance(seed, 6);
    const Result<Placement> placement = policy.place(instance, {});
    REQUIRE(placement);
    INFO(instance.name);
    CHECK(check_placement(instance, *placement).empty());
    CHECK(placement->total_bytes == Oracle(instance.buffers).optimum());
  }
}

}  // namespace terrace::planner
