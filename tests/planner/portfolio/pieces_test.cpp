// The portfolio's pieces against what is obviously right: trees against loops, reductions against the judge.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "daemon/planner/reuse/portfolio/exact.h"
#include "daemon/planner/reuse/portfolio/fit.h"
#include "daemon/planner/reuse/skyline/cut.h"
#include "daemon/planner/reuse/skyline/pass.h"
#include "daemon/planner/reuse/skyline/pick_tree.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner::portfolio {
namespace {

using skyline::cut;
using skyline::Parts;

using skyline::Fill;
using skyline::no_block;
using skyline::Pass;
using skyline::PickTree;
using skyline::Rule;

Instance instance_of_lives(const std::vector<Buffer>& buffers) { return {"lives", buffers, nullptr}; }

// What first() must find, by looking at every block that is left.
std::uint32_t first_by_looking(const std::vector<Block>& blocks, const std::vector<float>& priority,
                               const std::vector<bool>& gone, const PickTree::Range& range) {
  std::uint32_t best = no_block;
  for (std::uint32_t i = range.begin; i < range.end; ++i) {
    if (gone[i] || blocks[i].upper <= range.after || blocks[i].upper > range.until) continue;
    if (best == no_block || priority[i] > priority[best]) best = i;
  }
  return best;
}

// Offsets of a part's blocks as a placement of the whole instance.
Placement whole(const Parts& parts, const Part& part, const std::vector<std::uint64_t>& offsets) {
  Placement placement{parts.offsets, parts.settled_bytes};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Block& b = part.blocks[i];
    placement.offsets[b.buffer] = offsets[i];
    placement.total_bytes = std::max(placement.total_bytes, b.end_at(offsets[i]));
  }
  return placement;
}

}  // namespace

TEST_CASE("The pick tree finds the block that a loop over all finds") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 20; ++round) {
    std::vector<Block> blocks(1 + random() % 60);
    std::vector<float> priority;
    for (Block& b : blocks) {
      b.upper = static_cast<std::uint32_t>(1 + random() % 40);
      priority.push_back(static_cast<float>(random() % 10));
    }
    PickTree tree;
    tree.reset(blocks, priority);
    std::vector<bool> gone(blocks.size());
    for (int step = 0; step < 200; ++step) {
      const auto begin = static_cast<std::uint32_t>(random() % blocks.size());
      const auto end = static_cast<std::uint32_t>(begin + random() % (blocks.size() - begin + 1));
      const auto after = static_cast<std::uint32_t>(random() % 40);
      const PickTree::Range range{begin, end, after, static_cast<std::uint32_t>(after + random() % 10)};
      REQUIRE(tree.first(range) == first_by_looking(blocks, priority, gone, range));
      if (step % 4 != 0 || gone[begin]) continue;
      tree.remove(begin);
      gone[begin] = true;
    }
  }
}

TEST_CASE("What no time connects becomes parts of its own, and what lives all the time their bottom") {
  const Parts parts = cut(instance_of_lives({{10, 0, 100, 1, 0},
                                             {7, 0, 10, 1, 0},
                                             {5, 0, 6, 1, 0},
                                             {5, 4, 10, 1, 0},
                                             {0, 2, 3, 1, 0},
                                             {9, 20, 40, 1, 0}}));
  REQUIRE(parts.parts.size() == 1);  // of buffers 2 and 3; the rest is settled
  CHECK(parts.parts[0].blocks.size() == 2);
  CHECK(parts.parts[0].floor_bytes == 17);
  CHECK(parts.parts[0].bound_bytes == 27);
  CHECK(parts.offsets == std::vector<std::uint64_t>{0, 10, 0, 0, 0, 10});
  CHECK(parts.settled_bytes == 19);
  CHECK(parts.bound_bytes == 27);
}

TEST_CASE("Sizes are rounded to the alignment that all share, and only to that") {
  const Parts parts =
      cut(instance_of_lives({{5, 0, 3, 64, 0}, {70, 2, 5, 256, 0}, {1, 4, 6, 64, 0}, {0, 0, 9, 1, 0}}));
  REQUIRE(parts.parts.size() == 1);
  std::vector<std::uint64_t> bytes;
  for (const Block& b : parts.parts[0].blocks) bytes.push_back(b.bytes);
  CHECK(bytes == std::vector<std::uint64_t>{64, 128, 64});
}

TEST_CASE("Lives nested ten thousand deep are cut without a round for each") {
  std::vector<Buffer> nested;
  for (std::uint32_t i = 0; i < 10'000; ++i) nested.push_back({3, i, 20'000 - i, 1, 0});
  const Parts parts = cut(instance_of_lives(nested));
  REQUIRE(parts.parts.size() == 1);
  CHECK(parts.parts[0].blocks.size() > 9'000);
  CHECK(parts.bound_bytes == 30'000);
}

TEST_CASE("A pass of the skyline is a placement whatever the priorities are") {
  std::mt19937_64 random(3);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Instance instance = test::random_instance(seed, static_cast<std::uint32_t>(2 + seed % 60), 40, 100);
    for (Buffer& b : instance.buffers) b.alignment = seed % 3 == 0 ? 1 : std::uint64_t{1} << random() % 4;
    const Parts parts = cut(instance);
    if (parts.parts.size() != 1) continue;
    std::vector<float> priority;
    for (std::size_t i = 0; i < parts.parts[0].blocks.size(); ++i) {
      priority.push_back(static_cast<float>(random() % 8));
    }
    std::vector<std::uint64_t> offsets;
    const auto top =
        Pass(parts.parts[0])
            .place({parts.bound_bytes, ~std::uint64_t{0},
                    seed % 2 == 0 ? Fill::tightest : Fill::tightest_where_scarce, priority, nullptr},
                   &offsets);
    REQUIRE(top.has_value());
    const Placement placement = whole(parts, parts.parts[0], offsets);
    CHECK(placement.total_bytes == std::max(*top, parts.settled_bytes));
    CHECK_THAT(check_placement(instance, placement), Catch::Equals(""));
  }
}

TEST_CASE("A pass that cannot get below the cutoff gives up, and one below it does not") {
  const Parts parts = cut(test::random_instance(7, 60, 40, 100));
  REQUIRE(parts.parts.size() == 1);
  const std::vector<float> priority(parts.parts[0].blocks.size());
  std::vector<std::uint64_t> offsets;
  Pass skyline(parts.parts[0]);
  const Rule rule{parts.bound_bytes, ~std::uint64_t{0}, Fill::tightest_where_scarce, priority, nullptr};
  const std::uint64_t top = skyline.place(rule, &offsets).value();
  Rule tight = rule;
  tight.cutoff_bytes = top;
  CHECK_FALSE(skyline.place(tight, &offsets).has_value());
  tight.cutoff_bytes = top + 1;
  CHECK(skyline.place(tight, &offsets) == top);
}

TEST_CASE("Best fit takes the smallest gap, first fit the lowest") {
  // In this order 0 to 3 lie on each other; when 0 and 2 have ended, 4 has a gap of 6 bytes and one of 3.
  const Parts parts = cut(instance_of_lives(
      {{6, 0, 2, 1, 0}, {2, 0, 8, 1, 0}, {3, 0, 2, 1, 0}, {5, 1, 9, 1, 0}, {3, 2, 9, 1, 0}}));
  REQUIRE(parts.parts.size() == 1);
  const Part& part = parts.parts[0];
  std::vector<std::uint32_t> order(part.blocks.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return part.blocks[a].buffer < part.blocks[b].buffer; });
  const auto offset_of_4 = [&](bool best) {
    const Fit fit = fit_in_order(part, order, best, {});
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (part.blocks[i].buffer == 4) return fit.offsets[i];
    }
    return ~std::uint64_t{0};
  };
  CHECK(offset_of_4(true) == 8);   // between 1 (ends at 8) and 3 (begins at 11)
  CHECK(offset_of_4(false) == 0);  // below 1, in the gap of 6
}

TEST_CASE("Tries of the exact search have Luby's lengths") {
  std::vector<std::uint64_t> lengths;
  for (std::uint64_t n = 1; n <= 15; ++n) lengths.push_back(ExactTries::luby(n));
  CHECK(lengths == std::vector<std::uint64_t>{1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8});
}

TEST_CASE("A try of the exact search finds a placement or proves a bound, above the part's floor") {
  const Instance instance = instance_of_lives({{100, 0, 9, 1, 0},
                                               {3, 0, 3, 1, 0},
                                               {4, 2, 5, 1, 0},
                                               {5, 4, 7, 1, 0},
                                               {2, 2, 6, 1, 0},
                                               {2, 6, 9, 1, 0}});
  const Parts parts = cut(instance);
  REQUIRE(parts.parts.size() == 1);
  const std::function<bool()> never;
  ExactTries exact(parts.parts[0], 1, never);
  REQUIRE(exact.possible());
  const ExactTries::Answer found = exact.look(parts.bound_bytes + 20, parts.bound_bytes + 40);
  REQUIRE(found.offsets.has_value());
  CHECK_THAT(check_placement(instance, whole(parts, parts.parts[0], *found.offsets)), Catch::Equals(""));
  const ExactTries::Answer none = exact.look(parts.parts[0].floor_bytes, parts.parts[0].floor_bytes + 2);
  CHECK(none.bound_bytes == parts.parts[0].floor_bytes + 1);
}

TEST_CASE("Every classic order places every block once and rightly") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Instance instance = test::random_instance(seed, 50, 40, 100);
    const Parts parts = cut(instance);
    if (parts.parts.size() != 1) continue;
    for (std::uint32_t k = 0; k < fit_orders * 2; ++k) {
      const Fit fit = fit_in_order(parts.parts[0], order_of(parts.parts[0], static_cast<FitOrder>(k / 2)),
                                   k % 2 == 0, {});
      REQUIRE(fit.top_bytes.has_value());
      CHECK_THAT(check_placement(instance, whole(parts, parts.parts[0], fit.offsets)), Catch::Equals(""));
    }
  }
}

TEST_CASE("Orders by breadth and conflicts count what a loop counts") {
  const Parts parts = cut(test::random_instance(11, 80, 60, 100));
  REQUIRE(parts.parts.size() == 1);
  const Part& part = parts.parts[0];
  const auto conflicts = [&](std::uint32_t i) {
    const Block& b = part.blocks[i];
    return std::count_if(part.blocks.begin(), part.blocks.end(),
                         [&](const Block& o) { return o.lower < b.upper && b.lower < o.upper; });
  };
  const std::vector<std::uint32_t> order = order_of(part, FitOrder::conflicts);
  CHECK(std::is_sorted(order.begin(), order.end(),
                       [&](auto a, auto b) { return conflicts(a) > conflicts(b); }));
  const auto breadth = [&](std::uint32_t i) {
    std::uint64_t most = 0;
    for (std::uint32_t s = part.blocks[i].lower; s < part.blocks[i].upper; ++s) {
      std::uint64_t load = 0;
      for (const Block& o : part.blocks) load += o.lower <= s && s < o.upper ? o.bytes : 0;
      most = std::max(most, load);
    }
    return most;
  };
  const std::vector<std::uint32_t> broad = order_of(part, FitOrder::breadth);
  CHECK(std::is_sorted(broad.begin(), broad.end(), [&](auto a, auto b) { return breadth(a) > breadth(b); }));
}

}  // namespace terrace::planner::portfolio
