// The pager's states and accounts, driven step by step, with doubles for the tier and real pages.
#include "liballoc/pager.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <memory>

#include "tests/liballoc/captured_stderr.h"
#include "tests/liballoc/pager_fixture.h"
#include "tiers/dram_tier.h"
#include "tiers/nvme_tier.h"
#include "tiers/pool_file.h"
#include "tiers/slow_adaptor.h"
#include "tiers/trace_adaptor.h"

namespace terrace::liballoc {
namespace {

using test::mib;
using test::PagerFixture;

constexpr std::size_t budget_runs = 32;
constexpr std::size_t block_bytes = 3 * run_bytes;

MoverKind any_kind() { return GENERATE(MoverKind::move, MoverKind::mremap, MoverKind::copy); }

struct Dram {
  explicit Dram(std::size_t bytes = 512 * mib) { REQUIRE(tier.open(bytes) == 0); }
  tiers::DramTier tier;
};

void write_all(PagerFixture& f, const std::vector<std::byte*>& blocks) {
  f.with([&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) test::fill(blocks[i], i, block_bytes);
  });
}

std::size_t wrong_blocks(PagerFixture& f, const std::vector<std::byte*>& blocks) {
  std::atomic<std::size_t> wrong{0};
  f.with([&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) wrong += test::holds(blocks[i], i, block_bytes) ? 0 : 1;
  });
  return wrong;
}

std::vector<std::byte*> allocate(PagerFixture& f, std::size_t count) {
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(f.allocate(block_bytes));
  return blocks;
}

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

// Writes far more than the budget, reads it back in several orders, changes some: every byte, every account.
void round_trip(PagerFixture& f) {
  std::vector<std::byte*> blocks = allocate(f, 24);
  write_all(f, blocks);
  CHECK(f.statistics().evictions > 0);
  CHECK(wrong_blocks(f, blocks) == 0);
  test::Random random(1);
  for (int i = 0; i < 60; ++i) {
    const std::size_t b = random.below(blocks.size());
    REQUIRE(f.reads(blocks[b], b, block_bytes));
    if (i % 3 == 0) f.write(blocks[b], b, block_bytes);
    if (i % 5 != 0) continue;
    f.release(blocks[b]);
    blocks[b] = f.allocate(block_bytes);
    f.write(blocks[b], b, block_bytes);
  }
  f.check();
  CHECK(wrong_blocks(f, blocks) == 0);
  CHECK(f.most_backed() <= f.asked_budget());
  CHECK(f.statistics().lost_runs == 0);
  for (std::byte* block : blocks) f.release(block);
  f.finish_transfers();
  f.check();
  CHECK(f.pager.pool_used_bytes() == 0);
}

}  // namespace

TEST_CASE("Twice the budget goes round byte-exact within the budget, on the DRAM tier") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  round_trip(f);
  CHECK(dram.tier.space().used_bytes == 0);
}

TEST_CASE("Twice the budget goes round byte-exact within the budget, on a file") {
  int fd = -1;
  REQUIRE(tiers::open_pool_file(TERRACE_TEST_POOL_DIR, &fd) == 0);
  tiers::NvmeTier nvme;
  REQUIRE(nvme.open(fd, {.capacity_bytes = 512 * mib,
                         .grow_step_bytes = 64 * mib,
                         .io = GENERATE(tiers::NvmeTier::Io::automatic, tiers::NvmeTier::Io::pread)}) == 0);
  PagerFixture f(any_kind(), nvme, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name() << " " << nvme.io());
  round_trip(f);
  CHECK(nvme.space().used_bytes == 0);
}

TEST_CASE("A slow tier delays and breaks nothing, with several threads") {
  Dram dram;
  tiers::SlowAdaptor slow(dram.tier, {.latency_ns = 2'000'000, .bytes_per_second = 2'000'000'000});
  REQUIRE(slow.open() == 0);
  PagerFixture f(any_kind(), slow, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  const std::vector<std::byte*> blocks = allocate(f, 20);
  std::atomic<std::size_t> wrong{0};
  f.with([&] {
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < blocks.size(); i += 4) test::fill(blocks[i], i, block_bytes);
        for (std::size_t i = t; i < blocks.size(); i += 4)
          wrong += test::holds(blocks[i], i, block_bytes) ? 0 : 1;
      });
    }
    for (auto& thread : threads) thread.join();
  });
  CHECK(wrong == 0);
  CHECK(f.most_backed() <= f.asked_budget());
  CHECK(wrong_blocks(f, blocks) == 0);
}

TEST_CASE("A touch of a staged run takes it back") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(run_bytes);
  f.write(block, 1);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  REQUIRE(f.state(block) == RunState::staged);
  std::atomic<bool> right{false};
  f.with([&] { right = test::holds(block, 1); }, [&] { f.serve_faults(); });
  CHECK(right);
  CHECK(f.state(block) == RunState::resident);
  CHECK(f.statistics().cancelled_evictions == 1);
  CHECK(f.pager.pool_used_bytes() == 0);
  f.check();
}

TEST_CASE("A touch of a run that is being written takes it back") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(run_bytes);
  f.write(block, 1);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  f.balance();
  REQUIRE(f.state(block) == RunState::writing);
  f.with([&] { test::fill(block, 2); }, [&] { f.serve_faults(); });
  CHECK(f.state(block) == RunState::resident);
  CHECK(f.statistics().cancelled_evictions == 1);
  f.complete();
  f.check();
  CHECK(f.pager.pool_used_bytes() == 0);
  CHECK(f.reads(block, 2));
}

TEST_CASE("A touch of a run that is being written waits for the write when there is no frame") {
  Dram dram;
  PagerFixture f(MoverKind::mremap, dram.tier, budget_runs);
  if (!f.ready()) return;
  std::byte* block = f.allocate(run_bytes);
  f.write(block, 1);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  f.balance();
  REQUIRE(f.state(block) == RunState::writing);
  {
    LockGuard guard(f.lock);
    f.pager.trim(0);
    f.pager.set_budget(run_bytes);
  }
  std::atomic<bool> right{false};
  int faults = 0;
  f.with([&] { right = test::holds(block, 1); },
         [&] {
           f.serve_faults();
           if (++faults > 3) f.complete();
         });
  CHECK(right);
  CHECK(f.state(block) == RunState::resident);
  CHECK(f.pager.pool_used_bytes() == 0);
  f.check();
}

TEST_CASE("A cached run comes back without a read") {
  Dram dram;
  tiers::TraceAdaptor trace(dram.tier);
  PagerFixture f(any_kind(), trace, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(block_bytes);
  f.write(block, 1, block_bytes);
  f.advise(block, block_bytes, TERRACE_ADVISE_COLD);
  f.settle();
  for (std::size_t i = 0; i < 3; ++i) CHECK(f.state(block + i * run_bytes) == RunState::cached);
  CHECK(f.pager.pool_used_bytes() == block_bytes);
  CHECK(f.reads(block, 1, block_bytes));
  CHECK(f.statistics().prefetch_hits == 3);
  CHECK(f.statistics().read_bytes == 0);
  CHECK(f.pager.pool_used_bytes() == 0);
  f.check();
}

TEST_CASE("PAGE_OUT gives the memory back, WILL_NEED fetches it ahead of the touch") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(block_bytes);
  f.write(block, 1, block_bytes);
  f.page_out(block, block_bytes);
  for (std::size_t i = 0; i < 3; ++i) CHECK(f.state(block + i * run_bytes) == RunState::stored);
  CHECK(f.statistics().stored_bytes == block_bytes);
  CHECK(test::resident_pages(block) == 0);
  {
    LockGuard guard(f.lock);
    f.pager.trim(0);
    CHECK(f.pager.backed_bytes() == 0);
  }
  f.advise(block, block_bytes, TERRACE_ADVISE_WILL_NEED);
  f.settle();
  for (std::size_t i = 0; i < 3; ++i) CHECK(f.state(block + i * run_bytes) == RunState::cached);
  CHECK(f.statistics().read_bytes == block_bytes);
  f.with([&] { test::fill(block, 2, block_bytes); }, [&] { f.serve_faults(); });  // no transfer is needed
  CHECK(f.reads(block, 2, block_bytes));
  f.check();
}

TEST_CASE("COLD then PAGE_OUT drops the cached copy") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(run_bytes);
  f.write(block, 1);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  f.settle();
  REQUIRE(f.state(block) == RunState::cached);
  f.advise(block, run_bytes, TERRACE_ADVISE_PAGE_OUT);
  CHECK(f.state(block) == RunState::stored);
  CHECK(f.reads(block, 1));
  f.check();
}

TEST_CASE("Freeing a run in any state leaves the accounts right") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(run_bytes);
  f.write(block, 1);
  const RunState wanted = GENERATE(RunState::resident, RunState::staged, RunState::writing, RunState::cached,
                                   RunState::stored, RunState::reading);
  INFO("state " << static_cast<int>(wanted));
  if (wanted == RunState::staged || wanted == RunState::writing || wanted == RunState::cached)
    f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  if (wanted == RunState::writing) f.balance();
  if (wanted == RunState::cached) f.settle();
  if (wanted == RunState::stored || wanted == RunState::reading) f.page_out(block);
  if (wanted == RunState::reading) {
    f.advise(block, run_bytes, TERRACE_ADVISE_WILL_NEED);
    f.balance();
  }
  REQUIRE(f.state(block) == wanted);
  f.release(block);
  f.check();
  f.finish_transfers();
  f.check();
  f.settle();
  CHECK(f.pager.pool_used_bytes() == 0);
  CHECK(dram.tier.space().used_bytes == 0);
  // The address serves the next block.
  std::byte* next = f.allocate(run_bytes);
  f.write(next, 2);
  CHECK(f.reads(next, 2));
  f.check();
}

TEST_CASE("Freed and allocated again while its transfer is under way") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(run_bytes);
  f.write(block, 1);
  SECTION("while written") { f.advise(block, run_bytes, TERRACE_ADVISE_COLD); }
  SECTION("while read") {
    f.page_out(block);
    f.advise(block, run_bytes, TERRACE_ADVISE_WILL_NEED);
  }
  f.balance();
  f.release(block);
  std::byte* next = f.allocate(run_bytes);
  REQUIRE(next == block);
  f.with([&] { test::fill(next, 2); }, [&] { f.serve_faults(); });
  f.finish_transfers();
  f.check();
  CHECK(f.reads(next, 2));
  CHECK(f.pager.pool_used_bytes() == 0);
}

TEST_CASE("Blocks that share a run leave and return together, and go one by one") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t small = 256 * 1024;
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < 8; ++i) blocks.push_back(f.allocate(small));
  for (std::size_t i = 0; i < 8; ++i) f.write(blocks[i], i, small);
  REQUIRE(f.run_of(blocks[0]) == f.run_of(blocks[7]));
  f.page_out(blocks[0], run_bytes);
  REQUIRE(f.state(blocks[0]) == RunState::stored);
  for (std::size_t i = 0; i < 4; ++i) f.release(blocks[i]);
  CHECK(f.state(blocks[4]) == RunState::stored);
  for (std::size_t i = 4; i < 8; ++i) CHECK(f.reads(blocks[i], i, small));
  f.page_out(blocks[4] - 4 * small, run_bytes);
  for (std::size_t i = 4; i < 8; ++i) f.release(blocks[i]);
  f.check();
  CHECK(f.pager.pool_used_bytes() == 0);
}

TEST_CASE("Pinned runs are never evicted") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* pinned = f.allocate(block_bytes);
  f.write(pinned, 99, block_bytes);
  {
    LockGuard guard(f.lock);
    f.pager.pin(f.run_of(pinned), f.run_of(pinned) + 2);
    f.pager.pin(f.run_of(pinned), f.run_of(pinned));
  }
  const std::vector<std::byte*> blocks = allocate(f, 20);
  write_all(f, blocks);
  f.advise(pinned, block_bytes, TERRACE_ADVISE_PAGE_OUT);
  f.settle();
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(f.state(pinned + i * run_bytes) == RunState::resident);
    CHECK(test::resident_pages(pinned + i * run_bytes) == run_bytes / os::page_bytes);
  }
  {
    LockGuard guard(f.lock);
    f.pager.unpin(f.run_of(pinned), f.run_of(pinned) + 2);
  }
  f.page_out(pinned, block_bytes);
  CHECK(f.state(pinned) == RunState::resident);  // pinned twice
  CHECK(f.state(pinned + run_bytes) == RunState::stored);
  {
    LockGuard guard(f.lock);
    f.pager.unpin(f.run_of(pinned), f.run_of(pinned));
  }
  f.page_out(pinned, block_bytes);
  CHECK(f.state(pinned) == RunState::stored);
  CHECK(f.reads(pinned, 99, block_bytes));
  CHECK(wrong_blocks(f, blocks) == 0);
}

TEST_CASE("Pins add up, and leave the pager enough of the budget to work with") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  const auto budget = static_cast<std::uint32_t>(f.pager.budget_bytes() / run_bytes);
  const std::uint32_t half = budget / 2;
  std::byte* block = f.allocate(budget * run_bytes);
  const std::uint32_t first = f.run_of(block);
  {
    LockGuard guard(f.lock);
    CHECK_FALSE(f.pager.can_pin(first, first + budget - 1));
    CHECK(f.pager.can_pin(first, first + half - 1));
    CHECK(f.pager.can_pin(first + half, first + budget - 1));
    f.pager.pin(first, first + half - 1);
    CHECK_FALSE(f.pager.can_pin(first + half, first + budget - 1));
    CHECK(f.pager.can_pin(first, first + half - 1));  // no more than there is already
    f.pager.pin(first, first);
    f.pager.unpin(first, first + half - 1);
    CHECK(f.pager.can_pin(first + half, first + budget - 1));
    f.pager.pin(first, first + half - 1);
  }
  f.release(block);  // and with it its pins
  std::byte* next = f.allocate(budget * run_bytes);
  LockGuard guard(f.lock);
  CHECK(f.pager.can_pin(f.run_of(next), f.run_of(next) + budget - half - 1));
}

TEST_CASE("Runs that the program discarded come back as zeroes") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(4 * run_bytes);
  f.write(block, 1, 4 * run_bytes);
  f.page_out(block, 2 * run_bytes);
  f.advise(block + 2 * run_bytes, run_bytes, TERRACE_ADVISE_COLD);
  f.settle();
  {
    LockGuard guard(f.lock);
    f.pager.forget(f.run_of(block) + 1, f.run_of(block) + 2);
  }
  f.check();
  CHECK(f.reads(block, 1));
  CHECK(f.reads_zero(block + run_bytes, 2 * run_bytes));
  f.write(block + run_bytes, 7);
  CHECK(f.reads(block + run_bytes, 7));
  f.check();
}

TEST_CASE("A zeroed block over recycled memory reads as zero at its first touch") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* dirty = f.allocate(block_bytes);
  f.write(dirty, 1, block_bytes);
  f.page_out(dirty, block_bytes);  // its frames are dirty, its runs are empty once it is freed
  f.release(dirty);
  std::byte* clean = f.allocate(block_bytes, true);
  REQUIRE(clean == dirty);
  {
    LockGuard guard(f.lock);
    for (std::uint32_t n = 0; n < 3; ++n) CHECK(f.pager.reads_as_zero(f.run_of(clean) + n, false));
  }
  CHECK(f.reads_zero(clean, block_bytes));
  f.release(clean);
  std::byte* recycled = f.allocate(block_bytes, true);  // resident: the heap has to clear it
  LockGuard guard(f.lock);
  CHECK_FALSE(f.pager.reads_as_zero(f.run_of(recycled), false));
}

TEST_CASE("Trim gives recycled memory back") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(8 * run_bytes);
  f.write(block, 1, 8 * run_bytes);
  f.release(block);
  LockGuard guard(f.lock);
  const std::uint64_t before = f.pager.backed_bytes();
  CHECK(f.pager.recycled_runs() == 8);
  CHECK(f.pager.trim(5) == 3);
  CHECK(f.pager.recycled_runs() == 5);
  CHECK(f.pager.backed_bytes() == before - 3 * run_bytes);
  CHECK(f.pager.trim(0) >= 5);
  CHECK(f.pager.recycled_runs() == 0);
  CHECK(f.pager.backed_bytes() == 0);
  CHECK(test::resident_pages(block) == 0);
  f.pager.check_invariants();
}

TEST_CASE("A budget that shrinks is met, and what it holds stays right") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, 64);
  if (!f.ready()) return;
  INFO(f.mover.name());
  const std::vector<std::byte*> blocks = allocate(f, 16);
  write_all(f, blocks);
  {
    LockGuard guard(f.lock);
    f.pager.set_budget(24 * run_bytes);
  }
  f.settle();
  CHECK(f.pager.backed_bytes() <= 24 * run_bytes);
  CHECK(wrong_blocks(f, blocks) == 0);
  CHECK(f.pager.backed_bytes() <= 24 * run_bytes);
  f.check();
}

TEST_CASE("What was evicted last is read ahead first, each block from its beginning") {
  Dram dram;
  tiers::TraceAdaptor trace(dram.tier);
  PagerFixture f(any_kind(), trace, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  const std::vector<std::byte*> blocks = allocate(f, 24);
  write_all(f, blocks);
  f.settle();
  struct Place {
    std::size_t block;
    std::size_t run;
  };
  std::map<std::uint64_t, Place> stored;  // by extent
  std::size_t last_evicted = 0;
  std::vector<std::byte*> in_dram;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const Run& r = f.pager.run(f.run_of(blocks[b]) + static_cast<std::uint32_t>(i));
      if (r.state != RunState::stored) continue;
      stored[r.slot_offset] = {b, i};
      last_evicted = b;
      ++out;
    }
    if (out == 0) in_dram.push_back(blocks[b]);
  }
  REQUIRE(stored.size() > 12);
  trace.clear();
  // The backward pass: tensors that are still here are freed, the youngest first.
  while (in_dram.size() > 1) {
    f.release(in_dram.back());
    in_dram.pop_back();
    f.pump();
  }
  f.settle();
  std::vector<Place> reads;
  for (std::size_t i = 0; i < trace.calls(); ++i) {
    const auto& call = trace.call(i);
    if (call.operation != tiers::TraceAdaptor::Operation::submit || call.direction != tiers::Direction::read)
      continue;
    REQUIRE(stored.count(call.extent.offset) == 1);
    reads.push_back(stored[call.extent.offset]);
  }
  REQUIRE(reads.size() > 3);
  CHECK(reads[0].block == last_evicted);
  for (std::size_t i = 1; i < reads.size(); ++i) {
    INFO("read " << i << ": block " << reads[i].block << " run " << reads[i].run);
    const bool same_block_ascending = reads[i].block == reads[i - 1].block && reads[i].run > reads[i - 1].run;
    const bool earlier_block = reads[i].block < reads[i - 1].block;
    CHECK((same_block_ascending || earlier_block));
  }
  f.check();
}

TEST_CASE("Memory from before paging began is paged like any other") {
  Dram dram;
  test::Region heap(256 * mib);
  AddressSpace space;
  Lock lock;
  Pager pager;
  Mover mover;
  if (!test::open_or_skip(mover, any_kind())) return;
  INFO(mover.name());
  REQUIRE(space.initialise(heap.base(), 256 * mib) == 0);
  REQUIRE(pager.initialise(heap.base(), 256 * mib, &space) == 0);
  pager.use_lock(&lock);
  const std::uint32_t id = space.allocate(block_bytes, 64);
  pager.on_allocate(id);
  test::fill(space.address(id), 1, block_bytes);
  CHECK(pager.backed_bytes() == block_bytes);
  REQUIRE(pager.activate(&mover, &dram.tier, nullptr, budget_runs * run_bytes) == 0);
  {
    LockGuard guard(lock);
    pager.advise(0, 2, TERRACE_ADVISE_PAGE_OUT);
  }
  while (!pager.is_quiet()) {
    pager.balance();
    pager.handle_completions();
  }
  CHECK(pager.run(0).state == RunState::stored);
  LockGuard guard(lock);
  pager.check_invariants();
  pager.on_free(id);
  space.free(id);
  CHECK(pager.pool_used_bytes() == 0);
  pager.trim(0);
  CHECK(pager.backed_bytes() == 0);
  mover.close();
}

TEST_CASE("A fork just before which the last stored block is freed leaks no descriptor") {
  Dram dram;
  PagerFixture f(MoverKind::mremap, dram.tier, budget_runs);
  if (!f.ready()) return;
  const int before = open_descriptors();
  for (int round = 0; round < 3; ++round) {
    std::byte* block = f.allocate(run_bytes);
    f.write(block, 1);
    f.page_out(block);
    REQUIRE(f.state(block) == RunState::stored);
    f.pager.prepare_fork(1'000'000);
    f.release(block);  // by another thread, before the fork takes the heap's lock
    LockGuard guard(f.lock);
    f.pager.seal_for_fork();
    f.pager.after_fork_in_parent(false);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("Nothing is on its way out when a fork happens, whatever was advised meanwhile") {
  Dram dram;
  PagerFixture f(any_kind(), dram.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(2 * run_bytes);
  f.write(block, 1, 2 * run_bytes);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  f.pager.prepare_fork(1'000'000);
  CHECK(f.state(block) == RunState::resident);
  f.advise(block, 2 * run_bytes, TERRACE_ADVISE_COLD);  // another thread, before the fork takes the lock
  {
    LockGuard guard(f.lock);
    f.pager.seal_for_fork();
    CHECK(f.state(block) == RunState::resident);
    CHECK(f.state(block + run_bytes) == RunState::resident);
    CHECK(test::in_child([&] { return test::holds(block, 1, 2 * run_bytes) ? 0 : 1; }) == 0);
    f.pager.after_fork_in_parent(true);
  }
  f.check();
}

}  // namespace terrace::liballoc
