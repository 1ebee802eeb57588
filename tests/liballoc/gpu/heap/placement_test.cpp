#include "liballoc/gpu/heap/placement.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "tests/units.h"

namespace terrace::liballoc::gpu {
namespace {

constexpr std::uint64_t frame = std::uint64_t{2} << 20;
using terrace::tests::kib;

// A placement of 16 frames whose first `mapped` are there.
Placement with_mapped(std::uint64_t mapped) {
  Placement placement(0, 16 * frame, frame);
  if (mapped > 0) placement.set_mapped(0, {0, mapped * frame}, true);
  return placement;
}

Placement::Handle take(Placement& placement, std::uint64_t bytes) {
  const Placement::Handle piece = placement.best_fit(bytes, 1);
  REQUIRE(piece != Placement::none);
  const std::uint64_t begin = placement.piece(piece).begin;
  return placement.take(piece, {begin, begin + bytes});
}

void check(const Placement& placement) { REQUIRE_THAT(placement.check_invariants(), Catch::Equals("")); }

}  // namespace

TEST_CASE("Nothing fits where nothing is mapped, and the cheapest span says how many frames are missing") {
  Placement placement = with_mapped(0);
  CHECK(placement.best_fit(512, 1) == Placement::none);
  const auto choice = placement.cheapest_span(frame + 512, 1);
  REQUIRE(choice.has_value());
  CHECK(choice->missing_frames == 2);
  CHECK(choice->span.begin == 0);
  CHECK(!placement.cheapest_span(17 * frame, 1).has_value());
}

TEST_CASE("The smallest mapped range is taken, of equals the lowest, and blocks may share a frame") {
  Placement placement = with_mapped(4);
  const auto a = take(placement, 100 * kib);
  const auto b = take(placement, 200 * kib);
  const auto c = take(placement, 100 * kib);
  const auto d = take(placement, 300 * kib);
  CHECK(placement.piece(b).begin == 100 * kib);
  placement.release(a, {});
  placement.release(c, {});
  CHECK(placement.piece(placement.best_fit(100 * kib, 1)).begin == 0);
  CHECK(placement.piece(placement.best_fit(101 * kib, 1)).begin == 700 * kib);
  placement.release(b, {});
  CHECK(placement.piece(placement.best_fit(101 * kib, 1)).begin == 0);
  placement.release(d, {});
  check(placement);
  CHECK(placement.used_bytes() == 0);
}

TEST_CASE("What another stream used last is not joined with ours, until it has passed") {
  Placement placement = with_mapped(1);
  const auto a = take(placement, frame / 2);
  const auto b = take(placement, frame / 2);
  placement.release(a, {7, 1});
  const auto other = placement.release(b, {3, 2});
  CHECK(placement.best_fit(frame, 1) == Placement::none);
  CHECK(placement.best_fit(frame / 2, 1) != placement.best_fit(frame / 2, 2));
  CHECK(placement.best_fit(512, 3) == Placement::none);
  CHECK(placement.foreign_fit(512, 3, [](const auto& p) { return p.mark.owner == 2; }) == other);
  CHECK(placement.foreign_fit(512, 3, [](const auto&) { return false; }) == Placement::none);
  const auto joined = placement.settle(other);
  CHECK(placement.piece(joined).mark == Mark{7, 1});
  CHECK(placement.best_fit(frame, 1) == joined);
  check(placement);
}

TEST_CASE("A span grows over mapped memory first, on both sides of it") {
  Placement placement = with_mapped(0);
  placement.set_mapped(0, {4 * frame, 6 * frame}, true);
  const auto behind = placement.cheapest_span(3 * frame, 1);
  REQUIRE(behind.has_value());
  CHECK(behind->span.begin == 4 * frame);
  CHECK(behind->missing_frames == 1);
  const auto near_end = placement.find(0, 6 * frame);
  placement.take(near_end, {6 * frame, 16 * frame});
  const auto before = placement.cheapest_span(3 * frame, 1);
  REQUIRE(before.has_value());
  CHECK(before->span.begin == 3 * frame);
  CHECK(before->missing_frames == 1);
  const auto block = placement.take(before->first, before->span);
  CHECK(placement.piece(block).end == 6 * frame);
  check(placement);
}

TEST_CASE("Frames vanish from the middle of a free range, and it is three") {
  Placement placement = with_mapped(8);
  placement.set_mapped(placement.best_fit(512, 1), {2 * frame, 3 * frame}, false);
  check(placement);
  CHECK(placement.piece(placement.best_fit(512, 1)).end == 2 * frame);
  CHECK(placement.piece(placement.best_fit(3 * frame, 1)).begin == 3 * frame);
  const auto whole = placement.cheapest_span(8 * frame, 1);
  REQUIRE(whole.has_value());
  CHECK(whole->missing_frames == 1);
}

TEST_CASE("Random takes, releases and frames agree with a map of bytes") {
  std::mt19937_64 random(7);
  Placement placement = with_mapped(16);
  std::map<std::uint64_t, Placement::Handle> blocks;  // by begin
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t bytes = (1 + random() % (i % 3 == 0 ? 4096 : 64)) * 512;
    const auto owner = static_cast<Owner>(1 + random() % 3);
    const Placement::Handle piece = placement.best_fit(bytes, owner);
    if (random() % 2 == 0 && piece != Placement::none) {
      const std::uint64_t begin = placement.piece(piece).begin;
      const auto after = blocks.lower_bound(begin);
      REQUIRE((after == blocks.end() || after->first >= begin + bytes));
      if (after != blocks.begin()) REQUIRE(placement.piece(std::prev(after)->second).end <= begin);
      blocks[begin] = placement.take(piece, {begin, begin + bytes});
    } else if (!blocks.empty()) {
      auto victim = blocks.lower_bound(random() % (16 * frame));
      if (victim == blocks.end()) victim = blocks.begin();
      placement.release(victim->second, {static_cast<std::uint64_t>(i), owner});
      blocks.erase(victim);
    }
    if (i % 64 == 0) check(placement);
  }
  for (const auto& [begin, block] : blocks) placement.release(block, {});
  check(placement);
  CHECK(placement.used_bytes() == 0);
}

}  // namespace terrace::liballoc::gpu
