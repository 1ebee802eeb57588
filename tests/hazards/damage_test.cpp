// A device that is full, fails, lies or is slow. Data that the device refused stays in DRAM; data that it
// lost is reported by SIGBUS and by a line that names the allocation; wrong bytes are never an answer.
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 32 * mib;

thread_local sigjmp_buf on_bus_error;

void jump_out(int) { siglongjmp(on_bus_error, 1); }

void catch_bus_errors() {
  struct sigaction action {};
  action.sa_handler = &jump_out;
  action.sa_flags = SA_NODEFER;
  HAZARD_CHECK(sigaction(SIGBUS, &action, nullptr) == 0);
}

enum class Found { right, wrong, lost };

Found look_at_page(const void* page, std::uint64_t seed, std::size_t number) {
  if (sigsetjmp(on_bus_error, 1) != 0) return Found::lost;
  return page_is_right(page, seed, number) ? Found::right : Found::wrong;
}

struct Tally {
  std::size_t right = 0;
  std::size_t wrong = 0;
  std::size_t lost = 0;
};

Tally look_at_block(const void* block, std::size_t bytes, std::uint64_t seed) {
  Tally tally;
  for (std::size_t n = 0; n < bytes / page_bytes; ++n) {
    switch (look_at_page(static_cast<const unsigned char*>(block) + n * page_bytes, seed, n)) {
      case Found::right:
        ++tally.right;
        break;
      case Found::wrong:
        ++tally.wrong;
        break;
      case Found::lost:
        ++tally.lost;
        break;
    }
  }
  std::printf("pages: %zu right, %zu lost, %zu wrong\n", tally.right, tally.lost, tally.wrong);
  return tally;
}

void* filled(std::size_t bytes, std::uint64_t seed) {
  void* block = allocate(bytes);
  fill_pattern(block, bytes, seed);
  return block;
}

// Asks for eviction without insisting on it: the device may refuse.
void try_to_evict(const void* block, std::size_t bytes) {
  HAZARD_CHECK(terrace_advise(block, bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
  quiesce();
}

// The descriptor of the pool, opened again without O_DIRECT.
int open_pool_again() {
  const std::string directory = pool_directory();
  DIR* descriptors = opendir("/proc/self/fd");
  HAZARD_CHECK(descriptors != nullptr);
  int fd = -1;
  while (const dirent* entry = readdir(descriptors)) {
    char target[PATH_MAX] = {};
    const std::string link = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(link.c_str(), target, sizeof target - 1) <= 0) continue;
    if (std::strncmp(target, directory.c_str(), directory.size()) == 0)
      fd = open(link.c_str(), O_RDWR | O_CLOEXEC);
  }
  closedir(descriptors);
  HAZARD_CHECK(fd >= 0);
  return fd;
}

// Flips one bit in the middle of every run that the pool file has room for.
void corrupt_pool() {
  const int fd = open_pool_again();
  struct stat file {};
  HAZARD_CHECK(fstat(fd, &file) == 0);
  for (off_t at = run_bytes / 2; at < file.st_size; at += off_t{64} * 1024) {
    unsigned char byte = 0;
    HAZARD_CHECK(pread(fd, &byte, 1, at) == 1);
    byte ^= 0x10;
    HAZARD_CHECK(pwrite(fd, &byte, 1, at) == 1);
  }
  HAZARD_CHECK(fdatasync(fd) == 0);
  close(fd);
}

// Runs a scenario whose output must hold a line with `text`.
void run_and_find(const std::string& scenario, const Environment& settings, const std::string& text) {
  for (const std::string& mover : movers()) {
    Environment all = settings;
    all.emplace_back("TERRACE_MOVER", mover);
    const Outcome outcome = run_scenario(scenario, all);
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK(outcome.held());
    CHECK(outcome.says(text));
    std::cout << outcome.output;
  }
}

}  // namespace

// The stored bytes change behind the library's back, as a failing disk changes them.
HAZARD_SCENARIO(corrupted_extent) {
  require_pager();
  catch_bus_errors();
  void* block = filled(block_bytes, 1);
  void* other = filled(block_bytes, 2);
  evict(block, block_bytes);
  corrupt_pool();
  const Tally tally = look_at_block(block, block_bytes, 1);
  HAZARD_CHECK(tally.wrong == 0);
  HAZARD_CHECK(tally.lost >= (block_bytes / run_bytes - 1) * (run_bytes / page_bytes));
  HAZARD_CHECK(statistics().checksum_failures > 0 && statistics().lost_runs > 0);
  std::printf("block %p\n", block);
  HAZARD_CHECK(count_wrong_pages(other, block_bytes, 2) == 0);
  std::free(block);  // a lost block can be freed, and its addresses serve again
  void* again = filled(block_bytes, 3);
  HAZARD_CHECK(count_wrong_pages(again, block_bytes, 3) == 0);
}

TEST_CASE("hazard_corrupted_extent") {
  run_and_find("corrupted_extent", {}, "of the allocation of 32.0 MiB at 0x");
}

HAZARD_SCENARIO(flipped_bits_on_the_way) {
  require_pager();
  catch_bus_errors();
  void* block = filled(block_bytes, 1);
  for (int round = 0; round < 3; ++round) {
    try_to_evict(block, block_bytes);
    HAZARD_CHECK(look_at_block(block, block_bytes, 1).wrong == 0);
  }
  HAZARD_CHECK(statistics().checksum_failures > 0);
}

TEST_CASE("hazard_corrupted_transfer") {
  run_for_movers("flipped_bits_on_the_way", {{"TERRACE_FAULT", "corrupt:2"}});
}

// An unhandled SIGBUS ends the program; it does not hang and does not go on with other bytes.
HAZARD_SCENARIO(corrupted_extent_unhandled) {
  require_pager();
  void* block = filled(block_bytes, 1);
  evict(block, block_bytes);
  corrupt_pool();
  _Exit(count_wrong_pages(block, block_bytes, 1) == 0 ? 4 : exit_wrong);
}

TEST_CASE("hazard_corrupted_extent_kills_an_unprepared_program") {
  for (const std::string& mover : movers()) {
    const Outcome outcome = run_scenario("corrupted_extent_unhandled", {{"TERRACE_MOVER", mover}});
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK((WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGBUS));
    CHECK(outcome.says("of the allocation of 32.0 MiB"));
  }
}

// From the fifth on, reads fail for good: those runs are lost, everything else is right.
HAZARD_SCENARIO(read_errors) {
  require_pager();
  catch_bus_errors();
  void* block = filled(block_bytes, 1);
  try_to_evict(block, block_bytes);
  const Tally tally = look_at_block(block, block_bytes, 1);
  HAZARD_CHECK(tally.wrong == 0);
  HAZARD_CHECK(tally.lost > 0 && tally.right > 0);
  HAZARD_CHECK(statistics().io_errors > 0);
}

TEST_CASE("hazard_eio_on_read") { run_for_movers("read_errors", {{"TERRACE_FAULT", "read:5:EIO"}}); }

// Nothing is lost by a write that fails: the data is still in DRAM.
HAZARD_SCENARIO(write_errors) {
  require_pager();
  void* first = filled(block_bytes, 1);
  void* second = filled(block_bytes, 2);
  try_to_evict(first, block_bytes);
  try_to_evict(second, block_bytes);
  HAZARD_CHECK(count_wrong_pages(first, block_bytes, 1) == 0);
  HAZARD_CHECK(count_wrong_pages(second, block_bytes, 2) == 0);
  HAZARD_CHECK(statistics().lost_runs == 0);
}

TEST_CASE("hazard_eio") {
  run_and_find("write_errors", {{"TERRACE_FAULT", "write:3:EIO"}}, "data stays in DRAM");
}

TEST_CASE("hazard_enospc_on_write") {
  run_and_find("write_errors", {{"TERRACE_FAULT", "write:3:ENOSPC"}}, "data stays in DRAM");
}

// The device is gone after ten writes: what it took is lost, what it did not take is in DRAM.
HAZARD_SCENARIO(device_lost) {
  require_pager();
  catch_bus_errors();
  std::vector<void*> blocks;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    blocks.push_back(filled(block_bytes, seed));
    try_to_evict(blocks.back(), block_bytes);
  }
  std::size_t lost = 0;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Tally tally = look_at_block(blocks[seed - 1], block_bytes, seed);
    HAZARD_CHECK(tally.wrong == 0);
    lost += tally.lost;
  }
  HAZARD_CHECK(lost > 0 && lost <= 16 * run_bytes / page_bytes);
}

TEST_CASE("hazard_device_lost") {
  run_and_find("device_lost", {{"TERRACE_FAULT", "lose:10"}}, "touching it raises SIGBUS");
}

// More data than pool and budget together hold: the budget gives way, the program does not.
HAZARD_SCENARIO(pool_full) {
  require_pager();
  std::vector<void*> blocks;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) blocks.push_back(filled(block_bytes, seed));
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    HAZARD_CHECK(count_wrong_pages(blocks[seed - 1], block_bytes, seed) == 0);
  }
  HAZARD_CHECK(statistics().lost_runs == 0);
  for (void* block : blocks) std::free(block);
}

TEST_CASE("hazard_enospc") {
  run_and_find("pool_full", {{"TERRACE_DRAM", "96M"}, {"TERRACE_POOL_SIZE", "32M"}}, "is full");
}

HAZARD_SCENARIO(slow_disk_scenario) {
  require_pager();
  void* block = filled(block_bytes, 1);
  void* other = filled(block_bytes, 2);
  evict(block, block_bytes);
  HAZARD_CHECK(terrace_advise(other, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
  std::thread first([&] { HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0); });
  std::thread second([&] { HAZARD_CHECK(count_wrong_pages(other, block_bytes, 2) == 0); });
  first.join();
  second.join();
  HAZARD_CHECK(exited_with(
      in_forked_child([&] {
        return count_wrong_pages(block, block_bytes, 1) + count_wrong_pages(other, block_bytes, 2) == 0
                   ? 0
                   : exit_wrong;
      }),
      0));
}

TEST_CASE("hazard_slow_disk") { run_for_movers("slow_disk_scenario", {{"TERRACE_FAULT", "slow:20ms"}}); }

}  // namespace terrace::hazards
