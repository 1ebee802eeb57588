// Compressed runs that are kept in DRAM: what is kept and what is not, what it counts as, and when it goes.
#include <catch2/catch.hpp>
#include <random>

#include "tests/liballoc/paging/pager_fixture.h"
#include "tests/tiers/as_drive.h"
#include "tiers/adaptors/failing_adaptor.h"
#include "tiers/chain/chained_tier.h"

using namespace terrace;
using namespace terrace::liballoc;
using liballoc::test::block_bytes;
using liballoc::test::budget_runs;
using liballoc::test::mib;

namespace {

constexpr std::uint64_t budget_bytes = budget_runs * run_bytes;

// DRAM for 40% of the budget before a drive that can fail.
struct Tiers {
  Tiers() {
    REQUIRE(below.open(1024 * mib, 64) == 0);
    REQUIRE(kept.open(64 * mib, 64, tiers::DramTier::Memory::of_slabs) == 0);
    const tiers::ChainedTier::Upper upper{&kept, RunFrame::most_kept_bytes, &kept};
    REQUIRE(chain.open({&upper, 1}, &failing) == 0);
    REQUIRE(list.read("compressed=40%") == nullptr);
  }

  tiers::DramTier below, kept;
  tiers::test::AsDrive drive{below};
  tiers::FailingAdaptor failing{drive};
  tiers::ChainedTier chain;
  TierList list;
};

struct KeptPager : Tiers, test::PagerFixture {
  explicit KeptPager(Compression compression = Compression::zvc_exp, MoverKind kind = MoverKind::automatic)
      : PagerFixture(kind, chain, budget_runs, 1024 * mib, compression, list.compressed()) {}
  ~KeptPager() { CHECK(chain.check_invariants()); }
};

// What no codec makes smaller.
void fill_randomly(test::PagerFixture& f, std::byte* block, std::size_t bytes) {
  f.with([=] {
    std::mt19937_64 random(7);
    auto* const words = reinterpret_cast<std::uint64_t*>(block);
    for (std::size_t i = 0; i < bytes / sizeof *words; ++i) words[i] = random();
  });
}

// As ReLU leaves it: one element in four is not zero.
std::uint64_t word_at(std::uint64_t seed, std::size_t i) {
  return i % 4 == 0 ? seed * 0x9e3779b97f4a7c15 + i : 0;
}

void fill_sparsely(test::PagerFixture& f, std::byte* block, std::uint64_t seed,
                   std::size_t bytes = block_bytes) {
  f.with([=] {
    auto* const words = reinterpret_cast<std::uint64_t*>(block);
    for (std::size_t i = 0; i < bytes / sizeof *words; ++i) words[i] = word_at(seed, i);
  });
}

bool is_as_filled(test::PagerFixture& f, const std::byte* block, std::uint64_t seed,
                  std::size_t bytes = block_bytes) {
  std::atomic<bool> right{true};
  f.with([&] {
    const auto* const words = reinterpret_cast<const std::uint64_t*>(block);
    for (std::size_t i = 0; i < bytes / sizeof *words; ++i) right = right && words[i] == word_at(seed, i);
  });
  return right;
}

std::byte* allocate_sparse(test::PagerFixture& f, std::uint64_t seed) {
  std::byte* const block = f.allocate(block_bytes);
  fill_sparsely(f, block, seed);
  return block;
}

}  // namespace

TEST_CASE("What shrinks is kept in DRAM, counts as DRAM, and comes back as it was", "[any_codec]") {
  KeptPager f;
  if (!f.ready()) return;
  std::byte* const block = allocate_sparse(f, 3);
  f.page_out(block, block_bytes);
  const terrace_statistics out = f.statistics();
  CHECK(out.kept_bytes > 0);
  CHECK(out.written_bytes == 0);
  CHECK(out.compressed_bytes >= out.kept_bytes);
  CHECK(out.resident_bytes == f.pager.budget().backed_bytes() + out.compressed_bytes);
  CHECK(out.resident_peak_bytes >= out.resident_bytes);
  CHECK(f.pager.budget().bytes() + out.compressed_bytes <= budget_bytes);
  CHECK(f.state(block) == RunState::stored);
  CHECK(is_as_filled(f, block, 3));
  const terrace_statistics in = f.statistics();
  CHECK(in.fetched_bytes == out.kept_bytes);
  CHECK(in.read_bytes == 0);
  CHECK(f.kept.space().used_bytes == 0);  // nothing is in DRAM twice
  f.pump();
  CHECK(f.statistics().compressed_bytes == 0);
  f.check();
}

TEST_CASE("What does not shrink goes to the drive, as does everything that is not compressed",
          "[any_codec]") {
  const bool is_random = GENERATE(true, false);
  KeptPager f(is_random ? Compression::zvc_exp : Compression::off);
  if (!f.ready()) return;
  std::byte* const block = allocate_sparse(f, 3);
  if (is_random) fill_randomly(f, block, block_bytes);
  f.page_out(block, block_bytes);
  CHECK(f.statistics().kept_bytes == 0);
  CHECK(f.statistics().compressed_bytes == 0);
  CHECK(f.statistics().written_bytes == block_bytes);
}

TEST_CASE("A frame beside a kept copy is given back as soon as it is written", "[any_codec]") {
  KeptPager f;
  if (!f.ready()) return;
  std::byte* const block = allocate_sparse(f, 3);
  f.advise(block, block_bytes, TERRACE_ADVISE_COLD);  // without kept copies the frames would stay cached
  f.settle();
  CHECK(f.state(block) == RunState::stored);
  CHECK(is_as_filled(f, block, 3));
}

TEST_CASE("With more data than memory all of it stays right, within the budget", "[any_codec]") {
  KeptPager f(Compression::zvc_exp, test::any_kind());
  if (!f.ready()) return;
  const auto blocks = test::allocate_blocks(f, 24);  // 144 MiB in 64
  for (int round = 0; round < 3; ++round) {
    test::fill_blocks(f, blocks);
    f.check();
    CHECK(test::wrong_blocks(f, blocks) == 0);
    const terrace_statistics now = f.statistics();
    CHECK(now.compressed_bytes <= budget_bytes * 2 / 5 + run_bytes);
    CHECK(now.resident_bytes <= budget_bytes + 2 * run_bytes);
  }
  CHECK(f.statistics().kept_bytes > 0);
  CHECK(f.statistics().written_bytes > 0);
  CHECK(f.chain.check_invariants());
}

TEST_CASE("What is kept grows and shrinks without memory from the kernel", "[any_codec]") {
  KeptPager f(Compression::zvc_exp, MoverKind::move);
  if (!f.ready()) return;
  std::vector<std::byte*> blocks;
  for (std::uint64_t i = 0; i < 7; ++i) blocks.push_back(allocate_sparse(f, i));
  // The first round takes a frame or two more, since a slab stays until all of it has gone.
  std::uint64_t held = 0;
  for (int round = 0; round < 4; ++round) {
    for (std::byte* const block : blocks) f.page_out(block, block_bytes);
    const terrace_statistics out = f.statistics();
    REQUIRE(out.compressed_bytes > 0);
    CHECK(out.recycled_bytes + out.compressed_bytes == out.resident_bytes);
    if (round > 0) CHECK(out.resident_bytes == held);
    for (std::uint64_t i = 0; i < blocks.size(); ++i) CHECK(is_as_filled(f, blocks[i], i));
    CHECK(f.statistics().compressed_bytes == 0);
    if (round > 0) CHECK(f.pager.budget().held_bytes() == held);
    held = f.pager.budget().held_bytes();
    f.check();
  }
}

TEST_CASE("Of a kept block the run behind the one that was touched is decoded ahead, and only that",
          "[any_codec]") {
  KeptPager f;
  if (!f.ready()) return;
  static_assert(block_bytes >= 3 * run_bytes);
  // A worker may have decoded the run behind before the touched one is put back. Then both are put back, and
  // the one behind them is decoded ahead. That is rare.
  bool came_later = false;
  for (std::uint64_t i = 0; i < 5 && !came_later; ++i) {
    std::byte* const block = allocate_sparse(f, i);
    f.page_out(block, block_bytes);
    REQUIRE(f.statistics().kept_bytes > 0);
    const std::uint64_t hits = f.statistics().prefetch_hits;
    f.with([&] { static_cast<void>(*static_cast<volatile std::byte*>(block)); });
    f.pump();
    came_later = f.statistics().prefetch_hits == hits;
    if (came_later) {
      CHECK(f.is_read_ahead(block + run_bytes));
      CHECK(f.state(block + 2 * run_bytes) == RunState::stored);
    } else {
      CHECK(f.state(block + run_bytes) == RunState::resident);
      CHECK(f.is_read_ahead(block + 2 * run_bytes));
    }
    CHECK(is_as_filled(f, block, i));
  }
  CHECK(came_later);
  f.check();
}

TEST_CASE("A budget that falls moves what is kept to the drive", "[any_codec]") {
  KeptPager f;
  if (!f.ready()) return;
  std::vector<std::byte*> blocks;
  for (std::uint64_t i = 0; i < 8; ++i) blocks.push_back(allocate_sparse(f, i));
  for (std::byte* const block : blocks) f.page_out(block, block_bytes);
  REQUIRE(f.statistics().compressed_bytes > 4 * run_bytes);
  f.pager.set_budget(32 * run_bytes / 2);  // too little to compress anything at all
  f.settle();
  for (int i = 0; i < 100; ++i) f.complete();
  f.pump();
  const terrace_statistics now = f.statistics();
  CHECK(now.compressed_bytes == 0);
  CHECK(now.demoted_bytes > 0);
  CHECK(now.written_bytes >= now.demoted_bytes);
  for (std::uint64_t i = 0; i < 8; ++i) CHECK(is_as_filled(f, blocks[i], i));
}

TEST_CASE("What is kept outlives the drive", "[any_codec]") {
  KeptPager f;
  if (!f.ready()) return;
  std::byte* const block = allocate_sparse(f, 3);
  f.page_out(block, block_bytes);
  f.failing.lose_device();
  CHECK(is_as_filled(f, block, 3));
  f.page_out(block, block_bytes);
  CHECK(is_as_filled(f, block, 3));
  CHECK(f.statistics().io_errors == 0);
}

// As a training step has it: its tensors go, and those of the next one come to the same places.
TEST_CASE("Of what came long ago, what shrank at the same place last time leaves first", "[any_codec]") {
  KeptPager f;
  if (!f.ready()) return;
  std::byte* const places[] = {f.allocate(block_bytes), f.allocate(block_bytes)};
  for (int step = 0; step < 2; ++step) {
    if (step == 1) {
      for (std::byte* const place : places) f.release(place);
      for (int i = 0; i < 2; ++i) {
        const std::byte* const again = f.allocate(block_bytes);
        REQUIRE((again == places[0] || again == places[1]));
      }
    }
    fill_randomly(f, places[0], block_bytes);
    fill_sparsely(f, places[1], 1);
    for (std::byte* const place : places)
      if (step == 0) f.page_out(place, block_bytes);
  }
  const auto is_away = [&](const std::byte* block) { return f.state(block) != RunState::resident; };
  REQUIRE_FALSE((is_away(places[0]) || is_away(places[1])));
  for (std::size_t i = 0; !is_away(places[0]) && !is_away(places[1]) && i < budget_runs; ++i)
    fill_randomly(f, f.allocate(block_bytes), block_bytes);
  CHECK(is_away(places[1]));
  CHECK_FALSE(is_away(places[0]));  // though it came first
}

TEST_CASE("Freeing gives back what was kept of a block", "[any_codec]") {
  KeptPager f;
  if (!f.ready()) return;
  std::byte* const block = allocate_sparse(f, 3);
  f.page_out(block, block_bytes);
  REQUIRE(f.kept.space().used_bytes > 0);
  f.release(block);
  f.pump();
  CHECK(f.kept.space().used_bytes == 0);
  CHECK(f.statistics().compressed_bytes == 0);
}

TEST_CASE("A kept run of which something changed is compressed anew, and nothing stale is kept",
          "[any_codec]") {
  KeptPager f;
  if (!f.ready()) return;
  std::byte* const block = allocate_sparse(f, 3);
  for (std::uint64_t round = 4; round < 8; ++round) {
    f.page_out(block, block_bytes);
    fill_sparsely(f, block, round, run_bytes / 2);
    f.page_out(block, block_bytes);
    CHECK(is_as_filled(f, block, round, run_bytes / 2));
  }
  f.check();
}
