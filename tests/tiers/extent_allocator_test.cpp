// The allocator against a model that is too simple to be wrong: a map of what is reserved.
#include "tiers/extent_allocator.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <map>
#include <random>
#include <vector>

using namespace terrace::tiers;

namespace {

constexpr std::uint64_t unit = ExtentAllocator::unit_bytes;

std::uint64_t units(std::uint64_t bytes) { return (bytes + unit - 1) / unit; }

// offset in units -> length in units
class Model {
 public:
  explicit Model(std::uint64_t capacity_units) : capacity_(capacity_units) {}

  // The lowest gap of `count` units, or capacity when there is none.
  std::uint64_t first_fit(std::uint64_t count) const {
    std::uint64_t at = 0;
    for (const auto& [start, length] : used_) {
      if (start - at >= count) return at;
      at = start + length;
    }
    return capacity_ - at >= count ? at : capacity_;
  }
  std::uint64_t used() const { return total_; }
  std::uint64_t capacity() const { return capacity_; }
  std::map<std::uint64_t, std::uint64_t>& extents() { return used_; }
  void add(std::uint64_t at, std::uint64_t count) { used_[at] = count, total_ += count; }
  void remove(std::uint64_t at) { total_ -= used_[at], used_.erase(at); }

 private:
  std::uint64_t capacity_;
  std::uint64_t total_ = 0;
  std::map<std::uint64_t, std::uint64_t> used_;
};

bool reserve_agrees(ExtentAllocator& allocator, Model& model, std::uint64_t bytes) {
  const std::uint64_t expected = model.first_fit(units(bytes));
  Extent extent;
  const int error = allocator.reserve(bytes, &extent);
  if (expected == model.capacity()) return error == ENOSPC;
  if (error != 0 || extent.offset != expected * unit) return false;
  model.add(expected, units(bytes));
  return extent.bytes == (bytes + block_bytes - 1) / block_bytes * block_bytes;
}

bool release_agrees(ExtentAllocator& allocator, Model& model, std::uint64_t choice) {
  if (model.extents().empty()) return true;
  const auto victim = std::next(model.extents().begin(), static_cast<long>(choice % model.extents().size()));
  const Extent extent{victim->first * unit, victim->second * unit};
  model.remove(victim->first);
  return allocator.release(extent);
}

}  // namespace

TEST_CASE("100,000 operations agree with the model") {
  // Lengths: compressed frames, runs of one size, runs longer than the longest floor.
  const std::uint64_t max_units = GENERATE(8, 33, 64, 150);
  constexpr std::uint64_t capacity_units = 3000;  // not a multiple of 64
  ExtentAllocator allocator;
  REQUIRE(allocator.open(capacity_units * unit) == 0);
  Model model(capacity_units);
  std::mt19937 random(static_cast<unsigned>(max_units));
  bool agree = true;
  for (int i = 0; i < 100'000 && agree; ++i) {
    // Long waves of filling and emptying, so that full and nearly empty both occur.
    const bool fill = random() % 100 < (i / 2000 % 2 == 0 ? 60U : 40U);
    agree = fill ? reserve_agrees(allocator, model, random() % (max_units * unit) + 1)
                 : release_agrees(allocator, model, random());
    agree = agree && allocator.space().used_bytes == model.used() * unit;
    if (i % 5000 == 0) agree = agree && allocator.check_invariants();
  }
  CHECK(agree);
  CHECK(allocator.check_invariants());
}

TEST_CASE("The whole capacity is one extent") {
  ExtentAllocator allocator;
  REQUIRE(allocator.open(1000 * unit + unit / 2) == 0);
  CHECK(allocator.space().capacity_bytes == 1000 * unit);
  Extent extent;
  REQUIRE(allocator.reserve(1000 * unit, &extent) == 0);
  CHECK(extent == Extent{0, 1000 * unit});
  CHECK(allocator.reserve(1, &extent) == ENOSPC);
  REQUIRE(allocator.release(extent));
  CHECK(allocator.space().used_bytes == 0);
}

TEST_CASE("Low offsets are used again first") {
  ExtentAllocator allocator;
  REQUIRE(allocator.open(64 * unit) == 0);
  Extent low;
  Extent high;
  REQUIRE(allocator.reserve(2 * unit, &low) == 0);
  REQUIRE(allocator.reserve(2 * unit, &high) == 0);
  REQUIRE(allocator.release(low));
  Extent again;
  REQUIRE(allocator.reserve(unit, &again) == 0);
  CHECK(again.offset == low.offset);
}

TEST_CASE("ReleaseOfWhatIsNotReserved is refused and changes nothing") {
  ExtentAllocator allocator;
  REQUIRE(allocator.open(64 * unit) == 0);
  Extent extent;
  REQUIRE(allocator.reserve(4 * unit, &extent) == 0);
  CHECK_FALSE(allocator.release({8 * unit, unit}));
  CHECK_FALSE(allocator.release({extent.offset, 5 * unit}));
  CHECK_FALSE(allocator.release({extent.offset + block_bytes, block_bytes}));
  CHECK_FALSE(allocator.release({extent.offset, 0}));
  CHECK_FALSE(allocator.release({extent.offset, 100}));
  CHECK_FALSE(allocator.release({64 * unit, unit}));
  CHECK_FALSE(allocator.release({0, UINT64_MAX / block_bytes * block_bytes}));
  CHECK(allocator.space().used_bytes == 4 * unit);
  CHECK(allocator.release(extent));
  CHECK_FALSE(allocator.release(extent));
}

TEST_CASE("Four tebibytes are served, and no more") {
  ExtentAllocator allocator;
  CHECK(allocator.open(ExtentAllocator::max_capacity_bytes + unit) == EINVAL);
  CHECK(allocator.open(unit - 1) == EINVAL);
  REQUIRE(allocator.open(ExtentAllocator::max_capacity_bytes) == 0);
  CHECK(allocator.open(unit) == EBUSY);
  Extent first;
  Extent last;
  REQUIRE(allocator.reserve(ExtentAllocator::max_capacity_bytes - 2 * unit, &first) == 0);
  REQUIRE(allocator.reserve(2 * unit, &last) == 0);
  CHECK(last.offset + last.bytes == ExtentAllocator::max_capacity_bytes);
  CHECK(allocator.reserve(unit, &first) == ENOSPC);
  REQUIRE(allocator.release(last));
  CHECK(allocator.reserve(unit, &last) == 0);
}

TEST_CASE("Stretches that nobody has reserved, from one to the next, and where the last extent ends") {
  constexpr std::uint64_t part = 16 * unit;
  ExtentAllocator extents;
  REQUIRE(extents.open(64 * part) == 0);
  std::vector<Extent> all;
  for (unsigned n = 0; n < 8; ++n) {
    all.emplace_back();
    REQUIRE(extents.reserve(part, &all.back()) == 0);
  }
  CHECK(extents.end_of_reserved() == 8 * part);
  CHECK(extents.free_stretch(0, 8 * part) == Extent{});
  CHECK(extents.free_stretch(0, 64 * part) == Extent{8 * part, 56 * part});
  for (const unsigned n : {0U, 3U, 4U, 7U}) REQUIRE(extents.release(all[n]));
  CHECK(extents.end_of_reserved(8 * part) == 7 * part);
  CHECK(extents.free_stretch(0, 8 * part) == Extent{0, part});
  CHECK(extents.free_stretch(part / 2, 8 * part) == Extent{part / 2, part / 2});
  CHECK(extents.free_stretch(part, 8 * part) == Extent{3 * part, 2 * part});
  CHECK(extents.free_stretch(5 * part, 8 * part) == Extent{7 * part, part});
  CHECK(extents.free_stretch(8 * part, 8 * part) == Extent{});
  CHECK(extents.free_stretch(64 * part, UINT64_MAX) == Extent{});
}
