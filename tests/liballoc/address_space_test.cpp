// The address space against a model that knows only what was handed out: a map of live ranges and, for every
// granule, whether anybody ever had it.
#include "liballoc/heap/space/address_space.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "tests/liballoc/support.h"

namespace terrace::liballoc {
namespace {

using test::mib;
using test::Random;
using test::Region;

struct Space {
  // `odd`: begin on an odd run, as the heap's blocks do after its bootstrap arena; alignment gaps depend on
  // it.
  explicit Space(std::size_t bytes, bool odd = false) : region(bytes + run_bytes, PROT_NONE), total(bytes) {
    const bool is_odd = reinterpret_cast<std::uintptr_t>(region.base()) / run_bytes % 2 != 0;
    base = region.base() + (odd == is_odd ? 0 : run_bytes);
    REQUIRE(space.initialise(base, bytes) == 0);
  }
  Region region;
  AddressSpace space;
  std::byte* base = nullptr;
  std::size_t total;
};

class Model {
 public:
  Model(AddressSpace& space, std::byte* base, std::size_t bytes, std::uint64_t seed)
      : space_(space), base_(base), used_(bytes / granule_bytes), random_(seed) {}

  void step() {
    const std::uint64_t choice = random_.below(10);
    if (live_.empty() || choice < 5) return allocate();
    auto at = live_.lower_bound(base_ + random_.below(used_.size()) * granule_bytes);
    if (at == live_.end()) at = live_.begin();
    if (choice < 8) return release(at);
    choice == 8 ? grow(at->second) : shrink(at->second);
  }

  void release_all() {
    while (!live_.empty()) release(live_.begin());
  }

  // Every lookup from the start, the middle and just outside of every live block.
  void check_lookups() const {
    for (const auto& [address, id] : live_) {
      const std::size_t bytes = space_.capacity(id);
      check(space_.live_block_at(address) == id, "live_block_at the start");
      check(space_.live_block_at(address + 1) == 0, "live_block_at inside");
      check(space_.live_block_covering(address) == id, "covering the first byte");
      check(space_.live_block_covering(address + bytes / 2) == id, "covering the middle");
      check(space_.live_block_covering(address + bytes - 1) == id, "covering the last byte");
    }
  }

  std::size_t live() const { return live_.size(); }
  std::size_t grown() const { return grown_; }
  std::size_t virgins() const { return virgins_; }
  const char* wrong() const { return wrong_; }

 private:
  using Iterator = std::map<std::byte*, std::uint32_t>::iterator;

  // Remembers the first thing that was wrong; Catch2's own assertions are too slow for millions of them.
  void check(bool right, const char* what) const {
    if (!right && wrong_[0] == '\0') wrong_ = what;
  }

  std::size_t random_bytes() {
    static constexpr std::size_t most[] = {granule_bytes, 256 * test::kib, 2 * mib, 12 * mib};
    return 1 + random_.below(most[random_.below(4)]);
  }

  void allocate() {
    const std::size_t bytes = random_bytes();
    const std::size_t alignment = std::size_t{1} << (random_.below(4) == 0 ? 6 + random_.below(18) : 6);
    const std::uint32_t id = space_.allocate(bytes, alignment);
    if (id == 0) return;
    std::byte* const address = space_.address(id);
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    check(space_.capacity(id) >= bytes, "smaller than asked for");
    check(number % alignment == 0, "not aligned");
    check(bytes <= run_bytes - granule_bytes || number % run_bytes == 0,
          "a large block does not start on a run");
    if (space_.block(id).virgin) {
      ++virgins_;
      check(!any_used(address, space_.capacity(id)), "virgin, but handed out before");
    }
    insert(address, id);
  }

  void insert(std::byte* address, std::uint32_t id) {
    const std::size_t bytes = space_.capacity(id);
    const auto next = live_.upper_bound(address);
    check(next == live_.end() || address + bytes <= next->first, "overlaps the next block");
    if (next != live_.begin()) {
      const auto before = std::prev(next);
      check(before->first + space_.capacity(before->second) <= address, "overlaps the block before");
    }
    live_[address] = id;
    mark_used(address, bytes);
  }

  void release(Iterator at) {
    space_.free(at->second);
    check(space_.live_block_at(at->first) == 0, "freed and still live");
    check(space_.live_block_covering(at->first) == 0, "freed and still covered");
    live_.erase(at);
  }

  void grow(std::uint32_t id) {
    std::byte* const address = space_.address(id);
    const std::size_t before = space_.capacity(id);
    const std::size_t wanted = before + random_bytes();
    const bool done = space_.grow(id, wanted);
    check(space_.address(id) == address, "moved by grow");
    check(done ? space_.capacity(id) >= wanted : space_.capacity(id) == before, "wrong size after grow");
    grown_ += done ? 1 : 0;
    live_.erase(address);
    insert(address, id);
  }

  void shrink(std::uint32_t id) {
    const std::size_t before = space_.capacity(id);
    const std::size_t wanted = 1 + random_.below(before);
    space_.shrink(id, wanted);
    const std::size_t after = space_.capacity(id);
    check(after >= wanted && after < wanted + granule_bytes, "wrong size after shrink");
    check(after == before || space_.live_block_covering(space_.address(id) + after) == 0, "the tail is live");
  }

  bool any_used(const std::byte* address, std::size_t bytes) const {
    const auto first = used_.begin() + (address - base_) / static_cast<std::ptrdiff_t>(granule_bytes);
    return std::find(first, first + static_cast<std::ptrdiff_t>(bytes / granule_bytes), true) !=
           first + static_cast<std::ptrdiff_t>(bytes / granule_bytes);
  }
  void mark_used(const std::byte* address, std::size_t bytes) {
    const auto first = used_.begin() + (address - base_) / static_cast<std::ptrdiff_t>(granule_bytes);
    std::fill_n(first, bytes / granule_bytes, true);
  }

  AddressSpace& space_;
  std::byte* base_;
  std::vector<bool> used_;
  std::map<std::byte*, std::uint32_t> live_;
  Random random_;
  std::size_t grown_ = 0;
  std::size_t virgins_ = 0;
  mutable const char* wrong_ = "";
};

}  // namespace

TEST_CASE("Random operations agree with a model of live ranges") {
  constexpr std::size_t total = 1024 * mib;
  const auto seed = GENERATE(1U, 2U, 3U, 4U);
  Space s(total, seed % 2 != 0);
  Model model(s.space, s.base, total, seed);
  for (int i = 0; i < 100'000; ++i) {
    model.step();
    if (i % 1000 != 0) continue;
    s.space.check_invariants();
    model.check_lookups();
    REQUIRE(std::string(model.wrong()).empty());
  }
  CHECK(model.live() > 100);
  CHECK(model.grown() > 100);
  CHECK(model.virgins() > 100);
  model.release_all();
  s.space.check_invariants();
  CHECK(std::string(model.wrong()).empty());

  const std::size_t touched = std::size_t{s.space.top()} * granule_bytes;
  const std::uint32_t whole = s.space.allocate(touched, 64);
  REQUIRE(whole != 0);
  CHECK(s.space.address(whole) == s.base);
  CHECK_FALSE(s.space.block(whole).virgin);
}

TEST_CASE("Freed neighbours become one block") {
  Space s(64 * mib);
  std::uint32_t ids[3];
  for (auto& id : ids) id = s.space.allocate(4 * mib, 64);
  const std::uint32_t guard = s.space.allocate(2 * mib, 64);
  REQUIRE(guard != 0);
  std::byte* const first = s.space.address(ids[0]);
  // Left, right, then the middle joins both.
  s.space.free(ids[0]);
  s.space.free(ids[2]);
  s.space.free(ids[1]);
  s.space.check_invariants();
  const std::uint32_t joined = s.space.allocate(12 * mib, 64);
  REQUIRE(joined != 0);
  CHECK(s.space.address(joined) == first);
}

TEST_CASE("A gap left for alignment joins both its neighbours when address space is short") {
  Space s(64 * mib, true);
  const std::uint32_t first = s.space.allocate(2 * mib, 64);
  const std::uint32_t second = s.space.allocate(2 * mib, 8 * mib);
  REQUIRE(second != 0);
  s.space.free(first);
  const std::uint32_t third = s.space.allocate(2 * mib, 16 * mib);
  s.space.free(second);
  s.space.check_invariants();
  s.space.free(third);
  s.space.check_invariants();
  const std::size_t touched = std::size_t{s.space.top()} * granule_bytes;
  REQUIRE(s.space.allocate(64 * mib - touched, 64) != 0);
  const std::uint32_t whole = s.space.allocate(touched, 64);
  REQUIRE(whole != 0);
  CHECK(s.space.address(whole) == s.base);
  s.space.check_invariants();
}

TEST_CASE("What is claimed is nobody else's until it is free again") {
  Space s(64 * mib);
  const std::uint32_t used = s.space.allocate(5 * mib, 64);
  REQUIRE(s.space.allocate(2 * mib, 64) != 0);
  CHECK(s.space.claim(0, granules_per_run) == 0);
  s.space.free(used);
  CHECK(s.space.recycled_granules() == 5 * mib / granule_bytes);
  // The third run was used in part, the rest of it is virgin.
  const std::uint32_t claimed = s.space.claim(2 * granules_per_run, granules_per_run);
  REQUIRE(claimed != 0);
  s.space.check_invariants();
  CHECK(s.space.claim(2 * granules_per_run, 1) == 0);
  const std::uint32_t next = s.space.allocate(4 * mib, 64);
  CHECK(s.space.address(next) == s.base);
  s.space.free(claimed, true);
  s.space.check_invariants();
  CHECK(s.space.recycled_granules() == 0);
  const std::uint32_t fresh = s.space.allocate(2 * mib, 64);
  CHECK(s.space.address(fresh) == s.base + 4 * mib);
  CHECK(s.space.block(fresh).virgin);
}

TEST_CASE("Memory that was used before goes first") {
  Space s(64 * mib);
  const std::uint32_t a = s.space.allocate(8 * mib, 64);
  const std::uint32_t b = s.space.allocate(8 * mib, 64);
  REQUIRE(s.space.allocate(2 * mib, 64) != 0);
  s.space.free(a, true);
  s.space.free(b);
  CHECK(s.space.address(s.space.allocate(4 * mib, 64)) == s.base + 8 * mib);
  const std::uint32_t all = s.space.claim_recycled(~0U);
  REQUIRE(all != 0);
  CHECK(s.space.capacity(all) == 4 * mib);
  CHECK(s.space.claim_recycled(~0U) == 0);
  s.space.check_invariants();
}

TEST_CASE("Blocks of a run or more start on a run, smaller ones fill the gaps") {
  Space s(64 * mib);
  const std::uint32_t small = s.space.allocate(granule_bytes, 64);
  const std::uint32_t large = s.space.allocate(2 * mib, 64);
  CHECK(reinterpret_cast<std::uintptr_t>(s.space.address(large)) % run_bytes == 0);
  const std::uint32_t filler = s.space.allocate(3 * granule_bytes, 64);
  CHECK(s.space.address(filler) > s.space.address(small));
  CHECK(s.space.address(filler) < s.space.address(large));
}

TEST_CASE("An exhausted space answers 0 and recovers") {
  Space s(64 * mib);
  std::vector<std::uint32_t> ids;
  while (const std::uint32_t id = s.space.allocate(2 * mib, 64)) ids.push_back(id);
  CHECK(ids.size() == 32);
  CHECK(s.space.allocate(1, 64) == 0);
  std::byte* const place = s.space.address(ids[7]);
  s.space.free(ids[7]);
  const std::uint32_t again = s.space.allocate(2 * mib, 64);
  REQUIRE(again != 0);
  CHECK(s.space.address(again) == place);
  s.space.check_invariants();
}

TEST_CASE("A space full of the smallest blocks answers 0 and recovers") {
  Space s(16 * mib);
  std::vector<std::uint32_t> ids;
  while (const std::uint32_t id = s.space.allocate(1, 64)) ids.push_back(id);
  CHECK(ids.size() + 4 >= s.total / granule_bytes);
  s.space.check_invariants();
  for (std::size_t i = 0; i < ids.size(); i += 2) s.space.free(ids[i]);
  for (std::size_t i = 0; i < ids.size(); i += 2) CHECK((ids[i] = s.space.allocate(1, 64)) != 0);
  for (const std::uint32_t id : ids) s.space.free(id);
  s.space.check_invariants();
  CHECK(s.space.allocate(8 * mib, 64) != 0);
}

TEST_CASE("Without a record left, blocks keep their size") {
  Space s(16 * mib);
  const std::uint32_t pair = s.space.allocate(2 * granule_bytes, 64);
  REQUIRE(pair != 0);
  while (s.space.allocate(1, 64) != 0) continue;
  s.space.shrink(pair, 1);
  s.space.check_invariants();
  s.space.grow(pair, 2 * granule_bytes);
  s.space.check_invariants();
}

TEST_CASE("Absurd sizes and alignments are refused") {
  Space s(64 * mib);
  CHECK(s.space.allocate(64 * mib + 1, 64) == 0);
  CHECK(s.space.allocate(~std::size_t{0}, 64) == 0);
  CHECK(s.space.allocate(1, std::size_t{1} << 41) == 0);
  CHECK(s.space.allocate(1, std::size_t{1} << 63) == 0);
  const std::uint32_t id = s.space.allocate(1, 64);
  CHECK_FALSE(s.space.grow(id, ~std::size_t{0}));
  CHECK(s.space.capacity(id) == granule_bytes);
}

TEST_CASE("Alignments beyond a run hold for addresses, not for offsets") {
  Space s(64 * mib, true);
  for (const std::size_t alignment : {4 * mib, 8 * mib, 16 * mib}) {
    const std::uint32_t id = s.space.allocate(mib, alignment);
    REQUIRE(id != 0);
    CHECK(reinterpret_cast<std::uintptr_t>(s.space.address(id)) % alignment == 0);
  }
  s.space.check_invariants();
}

TEST_CASE("Addresses outside of every block belong to none") {
  Space s(64 * mib);
  const std::uint32_t id = s.space.allocate(2 * mib, 64);
  std::byte* const base = s.space.address(id);
  CHECK(s.space.live_block_at(base + 2 * mib) == 0);
  CHECK(s.space.live_block_covering(base + 2 * mib) == 0);
  CHECK(s.space.live_block_at(base + 32 * mib) == 0);
  // 2^32 granules away: the same granule number in 32 bits.
  std::byte* const alias = base + (std::size_t{granule_bytes} << 32);
  CHECK(s.space.live_block_at(alias) == 0);
  CHECK(s.space.live_block_covering(alias) == 0);
  CHECK(s.space.live_block_at(base - granule_bytes) == 0);
}

TEST_CASE("A block whose memory went back in part is used again for one of its size") {
  Space s(256 * mib);
  const std::uint32_t block = s.space.allocate(64 * mib, 64);
  const std::uint32_t first = s.space.block(block).first;
  s.space.free(block);
  const std::uint32_t part = s.space.claim_recycled(1024);
  REQUIRE(part != 0);
  s.space.free(part, true);
  const std::uint32_t top = s.space.top();
  const std::uint32_t again = s.space.allocate(64 * mib, 64);
  REQUIRE(again != 0);
  CHECK(s.space.block(again).first == first);
  CHECK_FALSE(s.space.block(again).virgin);
  CHECK(s.space.top() == top);
  s.space.free(again);
  s.space.check_invariants();
}

TEST_CASE("Fresh addresses are virgin, used ones are not") {
  Space s(64 * mib);
  const std::uint32_t first = s.space.allocate(4 * mib, 64);
  CHECK(s.space.block(first).virgin);
  s.space.free(first);
  const std::uint32_t again = s.space.allocate(2 * mib, 64);
  CHECK_FALSE(s.space.block(again).virgin);
  const std::uint32_t tail = s.space.allocate(2 * mib, 64);
  CHECK_FALSE(s.space.block(tail).virgin);
  const std::uint32_t fresh = s.space.allocate(2 * mib, 64);
  CHECK(s.space.block(fresh).virgin);
}

}  // namespace terrace::liballoc
