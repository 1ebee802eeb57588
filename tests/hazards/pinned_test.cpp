// Pages that must stay where they are: pinned for DMA, or locked. A pager that takes a pinned page away
// leaves the device writing into memory that is no longer the program's: the transfer reports success and its
// bytes are gone.
#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 16 * mib;
constexpr std::size_t block_pages = block_bytes / page_bytes;
constexpr std::size_t file_pages = 64;

void* page_aligned(std::size_t bytes) {
  void* block = std::aligned_alloc(page_bytes, bytes);
  HAZARD_CHECK(block != nullptr);
  return block;
}

int pattern_file(std::uint64_t seed) {
  const int fd = open(pool_directory().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
  HAZARD_CHECK(fd >= 0);
  alignas(page_bytes) static unsigned char page[page_bytes];
  for (std::size_t n = 0; n < file_pages; ++n) {
    fill_page(page, seed, n);
    HAZARD_CHECK(pwrite(fd, page, page_bytes, static_cast<off_t>(n * page_bytes)) == page_bytes);
  }
  return fd;
}

void read_fixed(io_uring* ring, int fd, void* page, std::size_t file_page) {
  io_uring_sqe* entry = io_uring_get_sqe(ring);
  io_uring_prep_read_fixed(entry, fd, page, page_bytes, file_page * page_bytes, 0);
  HAZARD_CHECK(io_uring_submit(ring) == 1);
  io_uring_cqe* completion = nullptr;
  HAZARD_CHECK(io_uring_wait_cqe(ring, &completion) == 0);
  HAZARD_CHECK(completion->res == static_cast<int>(page_bytes));
  io_uring_cqe_seen(ring, completion);
}

}  // namespace

// Eviction is asked for before every read; a read that does not show at its address is a lost one.
HAZARD_SCENARIO(pinned_pages_stay) {
  require_pager();
  io_uring ring;
  if (io_uring_queue_init(4, &ring, 0) != 0)
    skip("io_uring is not available, and nothing else here pins pages");
  auto* block = static_cast<unsigned char*>(page_aligned(block_bytes));
  fill_pattern(block, block_bytes, 1);
  const iovec buffer{block, block_bytes};
  HAZARD_CHECK(io_uring_register_buffers(&ring, &buffer, 1) == 0);
  const int fd = pattern_file(2);
  void* pressure = page_aligned(block_bytes);
  std::size_t lost = 0;
  constexpr std::size_t attempts = 3000;
  for (std::size_t i = 0; i < attempts; ++i) {
    HAZARD_CHECK(terrace_advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
    if (i % 100 == 0) {
      fill_pattern(pressure, block_bytes, i);  // takes the frames that eviction may have freed
      quiesce();
    }
    unsigned char* page = block + (i * 977 % block_pages) * page_bytes;
    read_fixed(&ring, fd, page, i % file_pages);
    lost += page_is_right(page, 2, i % file_pages) ? 0 : 1;
  }
  std::printf("pinned: %zu eviction attempts, %llu refused, %zu reads lost\n", attempts,
              static_cast<unsigned long long>(statistics().pinned_refusals), lost);
  HAZARD_CHECK(lost == 0);
  io_uring_queue_exit(&ring);
}

// The kernel refuses to move a pinned page.
TEST_CASE("hazard_pinned_pages_stay") { run_for_mover("pinned_pages_stay", "move"); }
// mremap takes pinned pages like any others: here the library itself must know.
TEST_CASE("hazard_pinned_pages_stay_mremap") { run_for_mover("pinned_pages_stay", "mremap"); }

// A block that terrace_pin() holds is not evicted; unpinned, it is again.
HAZARD_TEST(pin_interface) {
  require_pager();
  void* block = page_aligned(block_bytes);
  fill_pattern(block, block_bytes, 1);
  evict(block, block_bytes);
  HAZARD_CHECK(terrace_pin(block, block_bytes) == 0);
  HAZARD_CHECK(resident_pages(block, block_bytes) == block_pages);
  terrace_advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT);
  quiesce();
  HAZARD_CHECK(resident_pages(block, block_bytes) == block_pages);
  HAZARD_CHECK(terrace_unpin(block, block_bytes) == 0);
  evict(block, block_bytes);
  HAZARD_CHECK(resident_pages(block, block_bytes) < block_pages);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
}

// A child uses what the library keeps of registered buffers, whatever another thread was doing to it as the
// parent forked. Its alarm ends one that waits for that thread.
HAZARD_TEST(fork_while_buffers_are_registered) {
  require_pager();
  io_uring ring;
  io_uring childs_ring;
  if (io_uring_queue_init(4, &ring, 0) != 0 || io_uring_queue_init(4, &childs_ring, 0) != 0)
    skip("io_uring is not available, and nothing else here pins pages");
  auto* block = static_cast<unsigned char*>(page_aligned(block_bytes));
  fill_pattern(block, block_bytes, 1);
  std::atomic<bool> done{false};
  std::thread registering([&] {
    const iovec buffer{block, page_bytes};
    while (!done) {
      HAZARD_CHECK(io_uring_register_buffers(&ring, &buffer, 1) == 0);
      HAZARD_CHECK(io_uring_unregister_buffers(&ring) == 0);
    }
  });
  for (int i = 0; i < 30; ++i) {
    HAZARD_CHECK(exited_with(in_forked_child([&] {
                               alarm(5);
                               io_uring_queue_exit(&childs_ring);
                               return 0;
                             }),
                             0));
  }
  done = true;
  registering.join();
  io_uring_queue_exit(&childs_ring);
  io_uring_queue_exit(&ring);
}

// A block that was allocated pinned is pinned wherever realloc takes it.
HAZARD_TEST(pinned_block_reallocated) {
  require_pager();
  void* block = terrace_alloc(4 * mib, page_bytes, TERRACE_HINT_PINNED);
  HAZARD_CHECK(block != nullptr);
  fill_pattern(block, 4 * mib, 1);
  for (const std::size_t bytes : {32 * mib, 40 * mib, 8 * mib}) {
    block = std::realloc(block, bytes);
    HAZARD_CHECK(block != nullptr && count_wrong_pages(block, 4 * mib, 1) == 0);
    fill_pattern(block, bytes, 1);
    HAZARD_CHECK(terrace_advise(block, bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
    quiesce();
    HAZARD_CHECK(resident_pages(block, bytes) == bytes / page_bytes);
  }
  HAZARD_CHECK(std::realloc(block, 1024 * mib) == nullptr);  // over the budget
  HAZARD_CHECK(count_wrong_pages(block, 8 * mib, 1) == 0);
  std::free(block);
}

constexpr int many = 20;  // more than the budget of 256 MiB

std::size_t resident_of_all(void* const* blocks) {
  std::size_t pages = 0;
  for (int i = 0; i < many; ++i) pages += resident_pages(blocks[i], block_bytes);
  return pages;
}

// mlockall() of what is more than the budget: what is in DRAM stays there, the rest comes when it is touched
// and then stays as well. Over again with munlockall().
HAZARD_SCENARIO(everything_is_locked) {
  require_pager();
  void* blocks[many];
  for (int i = 0; i < many; ++i) {
    blocks[i] = page_aligned(block_bytes);
    fill_pattern(blocks[i], block_bytes, i);
  }
  evict(blocks[0], block_bytes);
  void* freed = page_aligned(block_bytes);
  fill_pattern(freed, block_bytes, 99);
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) skip("mlockall is refused (RLIMIT_MEMLOCK)");
  const std::size_t before = resident_of_all(blocks);
  const std::uint64_t evictions = statistics().evictions;
  std::free(freed);
  auto* zeroes = static_cast<unsigned char*>(std::calloc(1, 2 * block_bytes));
  HAZARD_CHECK(zeroes != nullptr && is_zero(zeroes, 2 * block_bytes));
  HAZARD_CHECK(terrace_advise(blocks[many - 1], block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
  quiesce();
  HAZARD_CHECK(resident_of_all(blocks) >= before);
  for (int i = 0; i < many; ++i) HAZARD_CHECK(count_wrong_pages(blocks[i], block_bytes, i) == 0);
  quiesce();
  HAZARD_CHECK(resident_of_all(blocks) == many * block_pages);
  HAZARD_CHECK(statistics().evictions == evictions);
  HAZARD_CHECK(exited_with(
      in_forked_child([&] { return count_wrong_pages(blocks[3], block_bytes, 3) == 0 ? 0 : exit_wrong; }),
      0));
  HAZARD_CHECK(munlockall() == 0);
  for (int i = 0; i < many; ++i) {
    evict(blocks[i], block_bytes);
    HAZARD_CHECK(count_wrong_pages(blocks[i], block_bytes, i) == 0);
  }
  quiesce();
  while (statistics().resident_bytes > 256 * mib) usleep(10'000);
}

// Before there is a pager: the frames it then makes room for are not to be filled at once.
HAZARD_SCENARIO(everything_was_locked_from_the_start) {
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) skip("mlockall is refused (RLIMIT_MEMLOCK)");
  require_pager();
  void* blocks[many];
  for (int i = 0; i < many; ++i) {
    blocks[i] = page_aligned(block_bytes);
    fill_pattern(blocks[i], block_bytes, i);
  }
  for (int i = 0; i < many; ++i) HAZARD_CHECK(count_wrong_pages(blocks[i], block_bytes, i) == 0);
  HAZARD_CHECK(resident_of_all(blocks) == many * block_pages);
  HAZARD_CHECK(statistics().evictions == 0);
}

TEST_CASE("hazard_mlockall") {
  for (const char* scenario : {"everything_is_locked", "everything_was_locked_from_the_start"}) {
    for (const std::string& mover : movers()) {
      const Outcome outcome = run_scenario(scenario, {{"TERRACE_MOVER", mover}});
      INFO(scenario << ", mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
      if (outcome.skipped) return report_skip(outcome.skip_reason());
      CHECK(outcome.held());
      const std::size_t line = outcome.output.find("terrace: ");
      CHECK(outcome.output.find("mlockall", line) != std::string::npos);
      CHECK(outcome.output.find("terrace: ", line + 1) == std::string::npos);
    }
  }
}

// Freed without a munlock, as programs do: the addresses serve the next block like any.
HAZARD_TEST(locked_then_freed) {
  require_pager();
  for (int round = 0; round < 3; ++round) {
    void* block = page_aligned(block_bytes);
    fill_pattern(block, block_bytes, 1);
    if (mlock(block, block_bytes) != 0) skip("mlock is refused (RLIMIT_MEMLOCK)");
    std::free(block);
    terrace_trim();
    auto* zeroes = static_cast<unsigned char*>(std::calloc(1, block_bytes));
    HAZARD_CHECK(zeroes != nullptr && is_zero(zeroes, block_bytes));
    void* next = page_aligned(block_bytes);
    fill_pattern(next, block_bytes, 2);
    evict(zeroes, block_bytes);
    evict(next, block_bytes);
    HAZARD_CHECK(is_zero(zeroes, block_bytes));
    HAZARD_CHECK(count_wrong_pages(next, block_bytes, 2) == 0);
    std::free(zeroes);
    std::free(next);
  }
}

// Locking what is evicted brings it back, and locked pages stay until they are unlocked.
HAZARD_TEST(mlock) {
  require_pager();
  void* block = page_aligned(block_bytes);
  void* other = page_aligned(block_bytes);
  fill_pattern(block, block_bytes, 1);
  fill_pattern(other, block_bytes, 2);
  evict(block, block_bytes);
  if (mlock(block, block_bytes) != 0) skip("mlock is refused (RLIMIT_MEMLOCK)");
  HAZARD_CHECK(resident_pages(block, block_bytes) == block_pages);
  terrace_advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT);
  evict(other, block_bytes);
  HAZARD_CHECK(resident_pages(block, block_bytes) == block_pages);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
  HAZARD_CHECK(munlock(block, block_bytes) == 0);
  evict(block, block_bytes);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
  HAZARD_CHECK(count_wrong_pages(other, block_bytes, 2) == 0);
}

// Locks do not nest and pins do, and neither ends the other.
HAZARD_TEST(munlock_takes_no_pins) {
  require_pager();
  constexpr std::size_t run_pages = run_bytes / page_bytes;
  auto* block = static_cast<unsigned char*>(std::aligned_alloc(run_bytes, block_bytes));
  HAZARD_CHECK(block != nullptr);
  fill_pattern(block, block_bytes, 1);
  const auto stays = [&](std::size_t bytes) {
    terrace_advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT);
    quiesce();
    return resident_pages(block, bytes) == bytes / page_bytes;
  };
  HAZARD_CHECK(terrace_pin(block, block_bytes) == 0);
  if (mlock(block, block_bytes) != 0) skip("mlock is refused (RLIMIT_MEMLOCK)");
  for (std::size_t n = 0; n < block_pages; ++n)
    HAZARD_CHECK(munlock(block + n * page_bytes, page_bytes) == 0);
  HAZARD_CHECK(stays(block_bytes));
  HAZARD_CHECK(terrace_unpin(block, block_bytes) == 0);
  evict(block, block_bytes);
  for (int i = 0; i < 2; ++i) HAZARD_CHECK(mlock(block, block_bytes) == 0);
  HAZARD_CHECK(munlock(block, block_bytes) == 0);
  evict(block, block_bytes);
  // What is left of a lock holds its run.
  HAZARD_CHECK(mlock(block, run_bytes) == 0);
  HAZARD_CHECK(munlock(block, (run_pages - 1) * page_bytes) == 0);
  HAZARD_CHECK(stays(run_bytes));
  HAZARD_CHECK(munlockall() == 0);
  evict(block, block_bytes);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
}

}  // namespace terrace::hazards
