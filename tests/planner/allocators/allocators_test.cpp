// The allocators' rules, by sequences whose addresses follow from the rules by hand; BFC against a plain
// reading of its 21 bins; both under random use with their invariants checked after every step.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "daemon/planner/reuse/allocators/bfc.h"
#include "daemon/planner/reuse/allocators/caching.h"
#include "daemon/planner/reuse/families.h"
#include "tests/planner/reference_data.h"
#include "tests/units.h"

namespace terrace::planner {
namespace {

using terrace::tests::kib;
using terrace::tests::mib;

// BFC as written down: chunks by address, and for a request a walk over the bins upwards.
class PlainBfc {
 public:
  std::uint64_t allocate(std::uint64_t bytes) {
    const std::uint64_t rounded = (bytes + 255) / 256 * 256;
    std::size_t chunk = find(rounded);
    if (chunk == chunks_.size()) {
      extend(rounded);
      chunk = find(rounded);
    }
    const Chunk found = chunks_[chunk];
    chunks_[chunk].used = true;
    if (found.bytes >= 2 * rounded || found.bytes - rounded >= 128 * mib) {
      chunks_[chunk].bytes = rounded;
      const Chunk rest{found.address + rounded, found.bytes - rounded, found.region, false};
      chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk) + 1, rest);
    }
    return found.address;
  }

  void free(std::uint64_t address) {
    for (Chunk& chunk : chunks_) {
      if (chunk.address == address) chunk.used = false;
    }
    for (std::size_t i = 0; i + 1 < chunks_.size();) {
      Chunk& a = chunks_[i];
      const Chunk& b = chunks_[i + 1];
      if (a.used || b.used || a.region != b.region) {
        ++i;
        continue;
      }
      a.bytes += b.bytes;
      chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }

 private:
  struct Chunk {
    std::uint64_t address, bytes;
    int region;
    bool used;
  };

  static int bin_of(std::uint64_t bytes) {
    int bin = 0;
    for (std::uint64_t n = std::max<std::uint64_t>(bytes, 256) / 256; n > 1; n /= 2) ++bin;
    return std::min(bin, 20);
  }

  std::size_t find(std::uint64_t rounded) const {
    for (int bin = bin_of(rounded); bin <= 20; ++bin) {
      std::size_t best = chunks_.size();
      for (std::size_t i = 0; i < chunks_.size(); ++i) {
        if (chunks_[i].used || bin_of(chunks_[i].bytes) != bin || chunks_[i].bytes < rounded) continue;
        if (best == chunks_.size() || chunks_[i].bytes < chunks_[best].bytes) best = i;
      }
      if (best != chunks_.size()) return best;
    }
    return chunks_.size();
  }

  void extend(std::uint64_t rounded) {
    const bool large_enough = rounded <= next_;
    while (rounded > next_) next_ *= 2;
    const std::uint64_t end = chunks_.empty() ? 0 : chunks_.back().address + chunks_.back().bytes;
    chunks_.push_back({end, next_, ++regions_, false});
    if (large_enough) next_ *= 2;
  }

  std::vector<Chunk> chunks_;
  std::uint64_t next_ = 2 * mib;
  int regions_ = 0;
};

std::uint64_t random_bytes(std::mt19937_64& random) {
  const std::uint64_t scale = std::uint64_t{1} << (random() % 25);
  return 1 + random() % (scale * 16);
}

// Random use under a limit, the invariants after each step; `step` sees what was asked and what was answered.
template <class Allocator, class Step>
void exercise(Allocator& allocator, std::uint64_t seed, Step step) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> live;
  for (int i = 0; i < 3000; ++i) {
    if (!live.empty() && random() % 2 == 0) {
      std::swap(live[random() % live.size()], live.back());
      REQUIRE(allocator.free(live.back()));
      step(false, live.back(), std::optional<std::uint64_t>());
      live.pop_back();
    } else {
      const std::uint64_t bytes = random_bytes(random);
      const auto address = allocator.allocate(bytes);
      step(true, bytes, address);
      if (address) live.push_back(*address);
    }
    REQUIRE(allocator.check_invariants().empty());
  }
  for (const std::uint64_t address : live) REQUIRE(allocator.free(address));
  REQUIRE(allocator.chunks().allocated_bytes() == 0);
  REQUIRE(allocator.check_invariants().empty());
}

const ReusePolicy& policy(const std::string& name) {
  static const std::vector<ReusePolicy> all = allocator_policies();
  return *std::find_if(all.begin(), all.end(), [&](const ReusePolicy& p) { return p.name == name; });
}

}  // namespace

TEST_CASE("BFC rounds to 256 bytes and splits at twice the request") {
  BfcAllocator bfc;
  CHECK(bfc.allocate(1) == 0U);
  CHECK(bfc.allocate(512 * kib) == 256U);
  CHECK(bfc.chunks().allocated_bytes() == 512 * kib + 256);
  CHECK(bfc.allocate(mib) == 512 * kib + 256);  // less than twice that is left: all of it
  CHECK(bfc.chunks().allocated_bytes() == 2 * mib);
  CHECK(bfc.chunks().reserved_bytes() == 2 * mib);
}

TEST_CASE("BFC doubles its regions") {
  BfcAllocator bfc;
  CHECK(bfc.allocate(2 * mib) == 0U);       // region of 2 MiB, the next is 4
  CHECK(bfc.allocate(5 * mib) == 2 * mib);  // 4 do not hold it, 8 do; the next is 8 still
  CHECK(bfc.chunks().reserved_bytes() == 10 * mib);
  CHECK(bfc.allocate(mib) == 10 * mib);  // 8 hold it, the next is 16
  CHECK(bfc.chunks().reserved_bytes() == 18 * mib);
  CHECK(bfc.allocate(9 * mib) == 18 * mib);
  CHECK(bfc.chunks().reserved_bytes() == 34 * mib);
}

TEST_CASE("BFC wastes less than 128 MiB on a chunk it does not split") {
  BfcAllocator bfc;
  CHECK(bfc.allocate(200 * mib) == 0U);
  CHECK(bfc.chunks().allocated_bytes() == 256 * mib);
  CHECK(bfc.allocate(300 * mib) == 256 * mib);  // 212 of 512 MiB would be wasted
  CHECK(bfc.chunks().allocated_bytes() == 556 * mib);
}

TEST_CASE("BFC merges free neighbours, and not those of another region") {
  BfcAllocator bfc;
  CHECK(bfc.allocate(256 * kib) == 0U);
  CHECK(bfc.allocate(256 * kib) == 256 * kib);
  CHECK(bfc.allocate(256 * kib) == 512 * kib);
  CHECK(bfc.allocate(1280 * kib) == 768 * kib);
  CHECK(bfc.allocate(4 * mib) == 2 * mib);
  CHECK(bfc.free(256 * kib));
  CHECK(bfc.free(0));
  CHECK(bfc.allocate(512 * kib) == 0U);
  CHECK(bfc.free(768 * kib));
  CHECK(bfc.free(2 * mib));
  CHECK(bfc.allocate(5 * mib) == 6 * mib);  // 1.25 MiB below 2 MiB and 4 MiB above are two chunks
  CHECK_FALSE(bfc.free(2 * mib));
}

TEST_CASE("BFC gives idle regions back when the limit is reached") {
  BfcAllocator bfc(3 * mib);
  CHECK(bfc.allocate(1536 * kib) == 0U);
  CHECK(bfc.allocate(mib) == 2 * mib);  // what the limit leaves
  CHECK_FALSE(bfc.allocate(1).has_value());
  CHECK(bfc.free(0));
  CHECK_FALSE(bfc.allocate(2560 * kib).has_value());
  CHECK(bfc.free(2 * mib));
  CHECK(bfc.allocate(2560 * kib) == 0U);
  CHECK(bfc.chunks().reserved_bytes() == 3 * mib);
  CHECK(bfc.chunks().peak_reserved_bytes() == 3 * mib);
}

TEST_CASE("BFC finds what a walk over its 21 bins finds") {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    BfcAllocator bfc;
    PlainBfc plain;
    exercise(bfc, seed, [&](bool allocated, std::uint64_t value, std::optional<std::uint64_t> address) {
      if (!allocated) {
        plain.free(value);
        return;
      }
      REQUIRE(address.has_value());
      REQUIRE(*address == plain.allocate(value));
    });
  }
}

TEST_CASE("PyTorch packs up to 1 MiB into segments of 2 MiB") {
  CachingAllocator caching;
  CHECK(caching.allocate(1) == 0U);
  CHECK(caching.allocate(512) == 512U);
  CHECK(caching.allocate(mib) == 1024U);
  CHECK(caching.chunks().reserved_bytes() == 2 * mib);
  CHECK(caching.allocate(mib) == 2 * mib);  // 1 MiB − 1 KiB is left
  CHECK(caching.chunks().reserved_bytes() == 4 * mib);
  CHECK(caching.chunks().allocated_bytes() == 2 * mib + 1024);
}

TEST_CASE("PyTorch packs more than 1 and less than 10 MiB into segments of 20 MiB") {
  CachingAllocator caching;
  CHECK(caching.allocate(mib) == 0U);
  CHECK(caching.allocate(mib + 1) == 2 * mib);
  CHECK(caching.allocate(10 * mib - 512) == 3 * mib + 512);
  CHECK(caching.chunks().reserved_bytes() == 22 * mib);
  CHECK(caching.allocate(10 * mib) == 22 * mib);  // 9 MiB are left; this one has a segment of its own
  CHECK(caching.chunks().reserved_bytes() == 32 * mib);
  CHECK(caching.allocate(10 * mib + 1) == 32 * mib);
  CHECK(caching.chunks().reserved_bytes() == 44 * mib);
  CHECK(CachingAllocator::segment_bytes(10 * mib - 512) == 20 * mib);
}

TEST_CASE("PyTorch splits a large block only if more than 1 MiB remains") {
  CachingAllocator caching;
  CHECK(caching.allocate(11 * mib) == 0U);
  CHECK(caching.chunks().allocated_bytes() == 12 * mib);
  CHECK(caching.allocate(11 * mib - 512) == 12 * mib);
  CHECK(caching.chunks().allocated_bytes() == 12 * mib + 11 * mib - 512);
}

TEST_CASE("PyTorch takes the smallest block that fits, then the lowest address") {
  CachingAllocator caching;
  const std::uint64_t sizes[] = {20, 12, 14, 12};
  const std::uint64_t begins[] = {0, 20, 32, 46};
  for (int i = 0; i < 4; ++i) CHECK(caching.allocate(sizes[i] * mib) == begins[i] * mib);
  for (const std::uint64_t begin : {46, 32, 0, 20}) CHECK(caching.free(begin * mib));
  CHECK(caching.allocate(12 * mib) == 20 * mib);
  CHECK(caching.allocate(12 * mib) == 46 * mib);
  CHECK(caching.allocate(12 * mib) == 32 * mib);
  CHECK(caching.allocate(12 * mib) == 0U);
  CHECK(caching.allocate(8 * mib) == 12 * mib);  // what was split off the first
}

TEST_CASE("PyTorch never serves one pool from the other") {
  CachingAllocator caching;
  CHECK(caching.allocate(2 * mib) == 0U);
  CHECK(caching.free(0));
  CHECK(caching.allocate(mib) == 20 * mib);
  CHECK(caching.allocate(512 * kib) == 21 * mib);
  CHECK(caching.chunks().reserved_bytes() == 22 * mib);
}

TEST_CASE("PyTorch releases cached segments when the limit is reached, those in use excepted") {
  CachingAllocator caching(24 * mib);
  CHECK(caching.allocate(12 * mib) == 0U);
  CHECK(caching.free(0));
  CHECK(caching.allocate(14 * mib) == 12 * mib);
  CHECK(caching.chunks().reserved_bytes() == 14 * mib);
  CHECK_FALSE(caching.allocate(11 * mib).has_value());  // needs 12
  CHECK(caching.allocate(10 * mib) == 0U);              // where the first segment was
  CHECK(caching.chunks().reserved_bytes() == 24 * mib);
  CHECK(caching.empty_cache() == 0);
  CHECK(caching.free(0));
  CHECK(caching.empty_cache() == 10 * mib);
  CHECK_FALSE(caching.allocate(25 * mib).has_value());
  CHECK(caching.check_invariants().empty());
}

TEST_CASE("PyTorch keeps its invariants under random use, with and without a limit") {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    CachingAllocator unlimited;
    exercise(unlimited, seed, [](bool allocated, std::uint64_t, std::optional<std::uint64_t> address) {
      REQUIRE(allocated == address.has_value());
    });
    CHECK(unlimited.empty_cache() == unlimited.chunks().line_end());
    CachingAllocator limited(256 * mib);
    exercise(limited, seed, [](auto&&...) {});
    CHECK(limited.chunks().peak_reserved_bytes() <= 256 * mib);
  }
}

TEST_CASE("BFC keeps its invariants under a limit") {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    BfcAllocator limited(256 * mib);
    exercise(limited, seed, [](auto&&...) {});
    CHECK(limited.chunks().peak_reserved_bytes() <= 256 * mib);
  }
}

TEST_CASE("Sizes beyond any device are refused") {
  BfcAllocator bfc;
  CachingAllocator caching;
  CHECK_FALSE(bfc.allocate(~std::uint64_t{0}).has_value());
  CHECK_FALSE(caching.allocate(~std::uint64_t{0}).has_value());
  const Instance huge{"huge", {{most_request_bytes, 0, 1, 1, 0}, {most_request_bytes, 0, 1, 1, 1}}, nullptr};
  for (const ReusePolicy& p : allocator_policies()) {
    const Result<Placement> result = p.place(huge, {});
    CHECK_FALSE(result);
    CHECK(result.error.find("buffer 1") != std::string::npos);
  }
}

TEST_CASE("As policies they free at a time before they allocate, and report what is reserved") {
  const Instance instance{
      "three", {{4 * mib, 0, 1, 1, 0}, {4 * mib, 1, 2, 512, 1}, {0, 0, 2, 1, 2}, {100, 0, 2, 1, 3}}, nullptr};
  const Result<Placement> pytorch = policy("pytorch").place(instance, {});
  REQUIRE(pytorch);
  CHECK(pytorch->offsets == std::vector<std::uint64_t>{0, 0, 0, 20 * mib});
  CHECK(pytorch->total_bytes == 22 * mib);
  CHECK(check_placement(instance, *pytorch).empty());
  const Result<Placement> bfc = policy("bfc").place(instance, {});
  CHECK_FALSE(bfc);
  CHECK(bfc.error.find("buffer 1 needs 512") != std::string::npos);
}

TEST_CASE("Their placements are right on random instances") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Instance instance = test::random_instance(seed, 150, 60, seed % 2 == 0 ? 3000 : 40 * mib);
    for (const ReusePolicy& p : allocator_policies()) {
      const Result<Placement> result = p.place(instance, {});
      INFO(p.name << ", seed " << seed);
      REQUIRE(result);
      REQUIRE(check_placement(instance, *result).empty());
      REQUIRE(result->total_bytes >= max_live_bytes(instance.buffers));
    }
  }
}

}  // namespace terrace::planner
