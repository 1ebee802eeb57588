// A pager whose agent is the test: it moves nothing unless the test pumps it, so every state can be
// stopped at.
//
// Only other threads may touch blocks (with()): a touch of an evicted run waits until the test serves it. On
// destruction everything is freed and the accounts must be level.
#pragma once

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <thread>
#include <vector>

#include "liballoc/base/options.h"
#include "liballoc/paging/pager.h"
#include "tests/liballoc/mover/mover_fixture.h"
#include "tests/tiers/as_drive.h"
#include "tiers/extent_allocator.h"
#include "tiers/memory/dram_tier.h"

namespace terrace::liballoc::test {

inline constexpr std::size_t budget_runs = 32;
inline constexpr std::size_t block_bytes = 3 * run_bytes;

// The whole suite runs once more with each kind of compression, and with workers (CMakeLists.txt).
inline Options options_of_this_run() {
  Options options;
  if (!read_options(&options)) std::abort();
  return options;
}
inline Compression compression_of_this_run() {
  return std::getenv("TERRACE_COMPRESS") != nullptr ? options_of_this_run().compression : Compression::off;
}
inline unsigned workers_of_this_run() {
  return std::getenv("TERRACE_WORKERS") != nullptr ? options_of_this_run().workers : 0;
}

class PagerFixture {
 public:
  PagerFixture(MoverKind kind, tiers::Tier& tier, std::size_t runs, std::size_t heap_bytes = 1024 * mib,
               Compression compression = compression_of_this_run(), const CompressedSize& kept = {})
      : drive_(tier),
        tier_(kept.is_wanted() ? tier : drive_),
        budget_bytes_(runs * run_bytes),
        heap_(heap_bytes, PROT_READ | PROT_WRITE, MADV_NORMAL) {
    if (!open_or_skip(mover, kind)) return;
    if (space.initialise(heap_.base(), heap_bytes) != 0 || queue_.initialise() != 0 ||
        pager.initialise(heap_.base(), heap_bytes, space.most_records(), &queue_, &free_runs_) != 0)
      std::abort();
    workers.start(workers_of_this_run());
    pager.keep_compressed(kept);
    if (pager.activate(&mover, &tier_, nullptr, budget_bytes_, compression, &workers) != 0 ||
        pager.watch() != 0)
      std::abort();
    pager.take_over();
    ready_ = true;
  }

  ~PagerFixture() {
    if (!ready_) return;
    while (!blocks_.empty()) release(blocks_.begin()->first);
    pager.follow_blocks();
    finish_transfers();
    workers.stop();
    pager.check_invariants();
    space.check_invariants();
    pager.trim(0);
    if (pager.budget().backed_bytes() != 0) {
      std::fprintf(stderr, "%llu bytes were not given back\n",
                   static_cast<unsigned long long>(pager.budget().backed_bytes()));
      std::abort();
    }
    mover.close();
  }

  bool ready() const { return ready_; }

  // As Heap does it. `zeroed`: all of it was never handed out before, or gave its memory back.
  std::byte* allocate(std::size_t bytes, bool zeroed = false, unsigned hints = 0) {
    LockGuard guard(lock);
    const std::uint32_t id = space.allocate(bytes, 64);
    if (id == 0) std::abort();
    Block& b = space.block(id);
    b.hints = static_cast<std::uint8_t>(hints);
    note(BlockChange::allocated, id, zeroed && b.virgin);
    pager.follow_blocks();
    blocks_[space.address(id)] = id;
    return space.address(id);
  }
  // Memory that holds test::fill(seed).
  std::byte* allocate_filled(std::size_t bytes, std::uint64_t seed) {
    std::byte* block = allocate(bytes);
    write(block, seed, bytes);
    return block;
  }
  void release(std::byte* block) {
    {
      LockGuard guard(lock);
      note(BlockChange::freed, blocks_.at(block), false);
      space.free(blocks_.at(block));
    }
    pager.follow_blocks();
    blocks_.erase(block);
  }

  // In place.
  void grow(std::byte* block, std::size_t bytes) {
    const std::uint32_t id = blocks_.at(block);
    const Block before = space.block(id);
    if (!space.grow(id, bytes)) std::abort();
    const std::uint32_t granules = space.block(id).granules - before.granules;
    queue_.push({.block = id,
                 .first = before.first + before.granules,
                 .granules = granules,
                 .change = BlockChange::grown,
                 .hints = before.hints});
    pager.follow_blocks();
  }

  // One step of the agent; the budget is looked at between any two.
  void serve_faults() {
    Fault fault{};
    while (mover.next_fault(&fault)) {
      pager.handle_fault(fault);
      look();
    }
  }
  void complete() {
    pager.handle_completions();
    const std::uint64_t deadline = os::now_ns() + 60'000'000'000;
    while (workers.given() > 0) {
      std::this_thread::yield();
      pager.handle_completions();
      if (os::now_ns() > deadline) give_up();
    }
    look();
  }
  bool balance() {
    const bool progress = pager.balance();
    look();
    return progress;
  }
  void pump() {
    do {
      serve_faults();
      complete();
    } while (balance());
  }

  // Runs `body` in a thread while the agent works, or only the step that is given.
  void with(const std::function<void()>& body) {
    with(body, [this] { pump(); });
  }
  void with(const std::function<void()>& body, const std::function<void()>& step) {
    std::atomic<bool> done{false};
    std::thread thread([&] {
      body();
      done.store(true);
    });
    const std::uint64_t deadline = os::now_ns() + 60'000'000'000;
    while (!done.load()) {
      step();
      pollfd waiting{mover.fd(), POLLIN, 0};
      if (!done.load()) ::poll(&waiting, 1, 1);
      if (os::now_ns() > deadline) give_up();
    }
    thread.join();
  }
  void write(std::byte* block, std::uint64_t seed, std::size_t bytes = run_bytes) {
    with([=] { fill(block, seed, bytes); });
  }
  bool reads(const std::byte* block, std::uint64_t seed, std::size_t bytes = run_bytes) {
    std::atomic<bool> right{false};
    with([&] { right = holds(block, seed, bytes); });
    return right;
  }
  bool reads_zero(const std::byte* block, std::size_t bytes = run_bytes) {
    std::atomic<bool> right{false};
    with([&] { right = is_zero(block, bytes); });
    return right;
  }

  // Until nothing is under way.
  void settle() {
    const std::uint64_t deadline = os::now_ns() + 60'000'000'000;
    do {
      pump();
      if (os::now_ns() > deadline) give_up();
    } while (!pager.is_quiet());
  }
  // Only ends what was begun.
  void finish_transfers() {
    const std::uint64_t deadline = os::now_ns() + 60'000'000'000;
    while (tier_.in_flight() > 0 || workers.given() > 0) {
      complete();
      if (os::now_ns() > deadline) give_up();
    }
  }

  BlockQueue& queue() { return queue_; }
  std::uint32_t id_of(std::byte* block) const { return blocks_.at(block); }
  std::uint32_t run_of(const std::byte* address) const { return pager.runs().heap().run_of(address); }
  RunState state(const std::byte* address) {
    pager.follow_blocks();
    return pager.run(run_of(address)).state;
  }
  // Whether it lies in a frame because it was read before it was asked for.
  bool is_read_ahead(const std::byte* address) {
    return state(address) == RunState::cached && pager.run(run_of(address)).from_read;
  }
  // What is stored of the block's runs.
  std::uint64_t extent_bytes(const std::byte* block, std::size_t bytes) const {
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at < bytes; at += run_bytes) sum += pager.run(run_of(block + at)).slot_bytes;
    return sum;
  }
  // What that takes up on the tier.
  std::uint64_t space_taken(const std::byte* block, std::size_t bytes) const {
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at < bytes; at += run_bytes)
      sum += tiers::whole_units(pager.run(run_of(block + at)).slot_bytes);
    return sum;
  }
  void advise(const std::byte* block, std::size_t bytes, terrace_advice advice) {
    pager.follow_blocks();
    pager.advise(run_of(block), run_of(block + bytes - 1), advice);
  }
  // Takes whole runs out to the tier.
  void page_out(const std::byte* block, std::size_t bytes = run_bytes) {
    advise(block, bytes, TERRACE_ADVISE_PAGE_OUT);
    settle();
  }
  terrace_statistics statistics() {
    terrace_statistics s{};
    s.size = sizeof(s);
    pager.follow_blocks();
    pager.fill(&s);
    return s;
  }
  void check() {
    pager.follow_blocks();
    pager.check_invariants();
  }

  std::uint64_t most_backed() const { return most_backed_; }
  std::uint64_t asked_budget() const { return budget_bytes_; }

  AddressSpace space;
  Lock lock;
  Workers workers{nullptr};
  Pager pager;
  Mover mover;

 private:
  void look() { most_backed_ = std::max(most_backed_, pager.budget().backed_bytes()); }
  [[noreturn]] static void give_up() {
    std::fprintf(stderr, "the pager made no progress for a minute\n");
    std::abort();
  }

  void note(BlockChange change, std::uint32_t id, bool zeroed) {
    const Block& b = space.block(id);
    queue_.push({.call_site = b.call_site,
                 .block = id,
                 .first = b.first,
                 .granules = b.granules,
                 .change = change,
                 .hints = b.hints,
                 .zeroed = zeroed});
  }

  BlockQueue queue_;
  FreeRuns free_runs_{&lock, &space};
  tiers::test::AsDrive drive_;  // tests store in memory, which is not to count as the job's
  tiers::Tier& tier_;
  std::uint64_t budget_bytes_;
  std::uint64_t most_backed_ = 0;
  Region heap_;
  bool ready_ = false;
  std::map<std::byte*, std::uint32_t> blocks_;
};

struct Dram {
  Dram() { REQUIRE(dram.open(512 * mib) == 0); }
  tiers::DramTier dram;
};

// Over plain DRAM, with each mover in turn: what most tests of the pager need.
struct DramPager : Dram, PagerFixture {
  explicit DramPager(MoverKind kind = any_kind(), std::size_t runs = budget_runs)
      : PagerFixture(kind, dram, runs) {}
};

// With one codec, whatever the environment says: where it matters what is compressed.
struct ZvcDramPager : Dram, PagerFixture {
  ZvcDramPager() : PagerFixture(MoverKind::automatic, dram, budget_runs, 1024 * mib, Compression::zvc) {}
};

// The same without compression, whatever the environment says: where it matters which pages move.
struct RawDramPager : Dram, PagerFixture {
  explicit RawDramPager(MoverKind kind = any_kind(), std::size_t runs = budget_runs)
      : PagerFixture(kind, dram, runs, 1024 * mib, Compression::off) {}
};

// Blocks of `block_bytes`, each filled with its own number.
inline std::vector<std::byte*> allocate_blocks(PagerFixture& f, std::size_t count) {
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(f.allocate(block_bytes));
  return blocks;
}
inline void fill_blocks(PagerFixture& f, const std::vector<std::byte*>& blocks) {
  f.with([&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) fill(blocks[i], i, block_bytes);
  });
}
inline std::size_t wrong_blocks(PagerFixture& f, const std::vector<std::byte*>& blocks) {
  std::atomic<std::size_t> wrong{0};
  f.with([&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) wrong += holds(blocks[i], i, block_bytes) ? 0 : 1;
  });
  return wrong;
}

}  // namespace terrace::liballoc::test
