// O_DIRECT into and out of memory that is to leave DRAM while the device is at it.
//
// A read whose page is taken away lands in the frame; once the frame is written out and used again, its bytes
// are gone although the read reported success. UFFDIO_MOVE refuses such pages, mremap does not, and nothing
// in user space can tell: a known limit of the `mremap` mover (docs/decisions/004). With that mover the tests
// count what is lost and say it, and require only what is promised.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/hazards/hazard.h"
#include "tests/hazards/machine/cgroup.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 64 * mib;
constexpr std::size_t transfer_bytes = 2 * mib;
constexpr std::size_t transfer_pages = transfer_bytes / page_bytes;
constexpr std::size_t transfers = 30;  // of each thread
constexpr int threads = 8;

void* run_aligned(std::size_t bytes) {
  void* block = std::aligned_alloc(run_bytes, bytes);
  HAZARD_CHECK(block != nullptr);
  return block;
}

int direct_file() {
  const int fd = open(pool_directory().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
  if (fd < 0) skip("the file system of the build tree has no O_DIRECT");
  return fd;
}

void fill_transfer(unsigned char* at, std::uint64_t seed) {
  for (std::size_t n = 0; n < transfer_pages; ++n) fill_page(at + n * page_bytes, seed, n);
}

bool transfer_is_right(const unsigned char* at, std::uint64_t seed) {
  for (std::size_t n = 0; n < transfer_pages; ++n) {
    if (!page_is_right(at + n * page_bytes, seed, n)) return false;
  }
  return true;
}

// All the while the block's runs are asked out, and others take the frames that they leave.
class Eviction {
 public:
  explicit Eviction(void* block) : evictor_([this, block] { keep_out(block); }) {}
  ~Eviction() {
    done_ = true;
    evictor_.join();
  }
  Eviction(const Eviction&) = delete;
  Eviction& operator=(const Eviction&) = delete;

 private:
  void keep_out(void* block) {
    void* other = run_aligned(block_bytes);
    for (std::uint64_t i = 0; !done_; ++i) {
      HAZARD_CHECK(terrace_advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
      if (i % 8 != 0) continue;
      fill_pattern(other, block_bytes, i);
      HAZARD_CHECK(terrace_advise(other, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
    }
    std::free(other);
  }

  std::atomic<bool> done_{false};
  std::thread evictor_;
};

// Each thread has its part of the block, and of the file.
template <typename Body>
std::size_t sum_of_threads(Body body) {
  std::atomic<std::size_t> sum{0};
  std::vector<std::thread> workers;
  workers.reserve(threads);
  for (std::size_t t = 0; t < threads; ++t) workers.emplace_back([&sum, t, body] { sum += body(t); });
  for (std::thread& worker : workers) worker.join();
  return sum;
}

std::size_t place_in_block(std::size_t thread, std::size_t i) {
  constexpr std::size_t part = block_bytes / threads;
  return thread * part + i * 29 % (part / transfer_bytes) * transfer_bytes;
}

void judge(const char* what, std::size_t lost) {
  std::fprintf(stderr, "%s: %zu of %zu lost, %llu evictions refused\n", what, lost, transfers * threads,
               static_cast<unsigned long long>(statistics().pinned_refusals));
  if (lost > 0 && parameter("TERRACE_MOVER") == "mremap") {
    const std::string reason = "known limit of mremap (decision 004): " + std::to_string(lost) + " of " +
                               std::to_string(transfers * threads) + " " + what + " were lost";
    skip(reason.c_str());
  }
  HAZARD_CHECK(lost == 0);
}

void run_and_require(const char* scenario, const std::string& mover, Preparation preparation) {
  const Outcome outcome = run_scenario(scenario, {{"TERRACE_MOVER", mover}}, preparation);
  INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
  CHECK((outcome.held() || outcome.skipped));
  std::cout << "mover " << mover << ": " << (outcome.skipped ? outcome.skip_reason() + "\n" : outcome.output);
  if (outcome.skipped && mover == "move") report_skip(outcome.skip_reason());
}

constexpr std::size_t contents = 16;  // that the file holds, transfer after transfer

void write_contents(int fd) {
  alignas(page_bytes) static unsigned char bytes[transfer_bytes];
  for (std::size_t n = 0; n < contents; ++n) {
    fill_transfer(bytes, 100 + n);
    HAZARD_CHECK(pwrite(fd, bytes, transfer_bytes, static_cast<off_t>(n * transfer_bytes)) == transfer_bytes);
  }
}

}  // namespace

HAZARD_SCENARIO(direct_reads) {
  require_pager();
  auto* block = static_cast<unsigned char*>(run_aligned(block_bytes));
  fill_pattern(block, block_bytes, 1);
  const int fd = direct_file();
  write_contents(fd);
  std::size_t lost = 0;
  {
    const Eviction eviction(block);
    lost = sum_of_threads([&](std::size_t thread) {
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < transfers; ++i) {
        unsigned char* at = block + place_in_block(thread, i);
        const std::size_t content = (i + thread) % contents;
        HAZARD_CHECK(pread(fd, at, transfer_bytes, static_cast<off_t>(content * transfer_bytes)) ==
                     transfer_bytes);
        wrong += transfer_is_right(at, 100 + content) ? 0 : 1;
      }
      return wrong;
    });
  }
  HAZARD_CHECK(statistics().evictions > 0);
  close(fd);
  judge("reads", lost);
}

// On a disk that takes its time, so that a run may be written out and its frame be used again while the read
// is under way.
TEST_CASE("hazard_direct_reads_into_memory_that_is_to_leave_arrive") {
  const SlowReads slow(HAZARD_SCRATCH, 200 * mib);
  cgroup_to_join = slow.path();
  for (const std::string& mover : movers())
    run_and_require("direct_reads", mover, slow.made() ? &join_cgroup : nullptr);
}

HAZARD_SCENARIO(direct_writes) {
  require_pager();
  auto* block = static_cast<unsigned char*>(run_aligned(block_bytes));
  fill_pattern(block, block_bytes, 1);
  const int fd = direct_file();
  std::size_t lost = 0;
  {
    const Eviction eviction(block);
    lost = sum_of_threads([&](std::size_t thread) {
      std::vector<unsigned char> read_back(transfer_bytes + page_bytes);  // under the threshold: not paged
      unsigned char* aligned = read_back.data();
      aligned += page_bytes - reinterpret_cast<std::uintptr_t>(aligned) % page_bytes;
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < transfers; ++i) {
        unsigned char* at = block + place_in_block(thread, i);
        fill_transfer(at, 1000 * thread + i);
        const auto offset = static_cast<off_t>((thread * contents + i % contents) * transfer_bytes);
        HAZARD_CHECK(pwrite(fd, at, transfer_bytes, offset) == transfer_bytes);
        HAZARD_CHECK(pread(fd, aligned, transfer_bytes, offset) == transfer_bytes);
        wrong += transfer_is_right(aligned, 1000 * thread + i) ? 0 : 1;
        HAZARD_CHECK(transfer_is_right(at, 1000 * thread + i));
      }
      return wrong;
    });
  }
  HAZARD_CHECK(statistics().evictions > 0);
  close(fd);
  judge("writes", lost);
}

TEST_CASE("hazard_direct_writes_of_memory_that_is_to_leave_are_right") { run_for_movers("direct_writes"); }

}  // namespace terrace::hazards
