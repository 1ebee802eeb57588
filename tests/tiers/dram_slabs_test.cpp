// DRAM whose memory comes and goes in slabs: from the kernel, or from a source that may have none left.
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <random>
#include <set>

#include "support.h"
#include "tiers/extent_allocator.h"
#include "tiers/memory/dram_tier.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

constexpr std::uint64_t slabs = 8;
constexpr std::uint64_t capacity = slabs * slab_bytes;

// As much memory as it is given. A touch of an empty slab ends the process.
class CountingSource final : public MemorySource {
 public:
  int adopt(std::byte* arena, std::uint64_t bytes) noexcept override {
    if (refuses) return ENOTSUP;
    ::mprotect(arena, bytes, PROT_NONE);
    return 0;
  }
  int fill(std::byte* slab) noexcept override {
    if (left == 0) return ENOMEM;
    --left;
    ::mprotect(slab, slab_bytes, PROT_READ | PROT_WRITE);
    return filled.insert(slab).second ? 0 : EEXIST;
  }
  void take(std::byte* slab) noexcept override {
    wrong += filled.erase(slab) == 1 ? 0 : 1;
    ++left;
    ::madvise(slab, slab_bytes, MADV_DONTNEED);
    ::mprotect(slab, slab_bytes, PROT_NONE);
  }

  std::uint64_t left = slabs;
  std::uint64_t wrong = 0;
  bool refuses = false;
  std::set<std::byte*> filled;
};

struct Slabs {
  explicit Slabs(bool has_source) {
    REQUIRE(tier.open(capacity, 16, DramTier::Memory::of_slabs) == 0);
    if (has_source) tier.set_memory_source(&source);
  }
  Extent reserve(std::uint64_t bytes) {
    Extent extent;
    REQUIRE(tier.reserve(bytes, &extent) == 0);
    return extent;
  }
  int carry(Direction direction, const Extent& extent, void* buffer) {
    if (const int error = tier.submit({direction, extent, buffer, 1})) return error;
    Completion done;
    return tier.poll({&done, 1}) == 1 ? done.error : EIO;
  }
  std::uint64_t memory() const { return tier.bytes_on(Medium::dram); }

  CountingSource source;
  DramTier tier;
};

}  // namespace

TEST_CASE("A slab has memory while something lies in it") {
  Slabs f(GENERATE(true, false));
  CHECK(f.memory() == 0);
  const Extent one = f.reserve(mib), two = f.reserve(mib / 2);
  CHECK(f.memory() == slab_bytes);
  const Extent across = f.reserve(mib);
  CHECK(f.memory() == 2 * slab_bytes);
  f.tier.release(one);
  f.tier.release(two);
  CHECK(f.memory() == 2 * slab_bytes);  // the third begins in the first
  f.tier.release(across);
  CHECK(f.memory() == 0);
  CHECK(f.source.filled.empty());
  CHECK(f.source.wrong == 0);
}

TEST_CASE("A source that has no more refuses the extent, and what it has is used") {
  Slabs f(true);
  f.source.left = 1;
  const Extent first = f.reserve(mib);
  Extent refused{7, 7};
  CHECK(f.tier.reserve(3 * mib, &refused) == ENOMEM);
  CHECK(refused == Extent{7, 7});
  CHECK(f.tier.space().used_bytes == mib);
  CHECK(f.memory() == slab_bytes);
  const Extent second = f.reserve(mib);  // there is room in the slab that is there
  f.tier.release(first);
  f.tier.release(second);
  CHECK(f.source.left == 1);
  // The first of two slabs is given back when there is none for the second.
  CHECK(f.tier.reserve(3 * mib, &refused) == ENOMEM);
  CHECK(f.source.left == 1);
  CHECK(f.memory() == 0);
  CHECK(f.source.wrong == 0);
}

TEST_CASE("A tier whose source declines, or comes too late, has the kernel's memory") {
  const bool is_late = GENERATE(true, false);
  Slabs f(false);
  f.source.refuses = !is_late;
  Extent early;
  if (is_late) early = f.reserve(mib);
  f.tier.set_memory_source(&f.source);
  const Extent extent = f.reserve(4 * mib);
  Buffer buffer(4 * mib);
  buffer.fill(1);
  CHECK(f.carry(Direction::write, extent, buffer.data()) == 0);
  CHECK(f.source.filled.empty());
  f.tier.release(extent);
  CHECK(f.memory() == (is_late ? slab_bytes : 0));
}

TEST_CASE("A tier without slabs asks no source") {
  CountingSource source;
  DramTier tier;
  tier.set_memory_source(&source);  // not open
  REQUIRE(tier.open(capacity, 16) == 0);
  tier.set_memory_source(&source);
  Extent extent;
  REQUIRE(tier.reserve(mib, &extent) == 0);
  CHECK(source.filled.empty());
  CHECK(tier.bytes_on(Medium::dram) == mib);
}

TEST_CASE("In any history what is stored stays and the slabs are those that are used") {
  Slabs f(GENERATE(true, false));
  f.source.left = 5;  // of eight
  std::mt19937_64 random(GENERATE(1U, 2U, 3U));
  struct Stored {
    Extent extent;
    std::uint64_t seed;
  };
  std::vector<Stored> all;
  std::uint64_t refused = 0;
  for (std::uint64_t step = 1; step < 1000; ++step) {
    if (random() % 5 < 3) {
      const std::uint64_t bytes = (1 + random() % 40) * 64 * kib;
      Extent extent;
      const int error = f.tier.reserve(bytes, &extent);
      refused += error != 0 ? 1 : 0;
      if (error != 0) continue;
      Buffer buffer(bytes);
      buffer.fill(step);
      REQUIRE(f.carry(Direction::write, extent, buffer.data()) == 0);
      all.push_back({extent, step});
    } else if (!all.empty()) {
      const std::size_t i = random() % all.size();
      Buffer buffer(all[i].extent.bytes);
      REQUIRE(f.carry(Direction::read, all[i].extent, buffer.data()) == 0);
      REQUIRE(buffer.holds(all[i].seed));
      f.tier.release(all[i].extent);
      all[i] = all.back();
      all.pop_back();
    }
    std::set<std::uint64_t> used;
    for (const Stored& one : all)
      for (std::uint64_t at = one.extent.offset; at < one.extent.offset + whole_units(one.extent.bytes);
           at += ExtentAllocator::unit_bytes)
        used.insert(at / slab_bytes);
    REQUIRE(f.memory() == used.size() * slab_bytes);
  }
  CHECK(refused > 0);
  for (const Stored& one : all) f.tier.release(one.extent);
  CHECK(f.memory() == 0);
  CHECK(f.source.wrong == 0);
}
