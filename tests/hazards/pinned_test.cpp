// Pages that must stay where they are: pinned for DMA, or locked. A pager that takes a pinned page away
// leaves the device writing into memory that is no longer the program's: the transfer reports success and its
// bytes are gone.
#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

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
  const int fd = open(parameter("TERRACE_POOL_DIR").c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
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

}  // namespace terrace::hazards
