// Limits that others set: the memory cgroup of the job, and a budget that changes while it runs. The job must
// not be killed for memory while the pool has room, and must not lose a byte when its budget shrinks under
// it.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/hazards/hazard.h"
#include "tests/hazards/machine/cgroup.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 16 * mib;
constexpr int blocks = 14;

void churn(int rounds, std::size_t other_bytes) {
  std::vector<void*> held;
  for (int i = 0; i < blocks; ++i) {
    held.push_back(allocate(block_bytes));
    fill_pattern(held.back(), block_bytes, i);
  }
  // What the rest of the process uses is under the same limit.
  std::vector<void*> small;
  constexpr std::size_t small_bytes = std::size_t{64} * 1024;
  for (std::size_t used = 0; used < other_bytes; used += small_bytes) {
    small.push_back(allocate(small_bytes));
    std::memset(small.back(), 1, small_bytes);
  }
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < blocks; ++i) {
      HAZARD_CHECK(count_wrong_pages(held[i], block_bytes, i + 100 * round) == 0);
      fill_pattern(held[i], block_bytes, i + 100 * (round + 1));
    }
    std::printf("round %d of %d, resident %llu MiB\n", round + 1, rounds,
                static_cast<unsigned long long>(statistics().resident_bytes / mib));
    std::fflush(stdout);
  }
  for (void* block : small) std::free(block);
  for (void* block : held) std::free(block);
}

}  // namespace

HAZARD_SCENARIO(churn_under_cgroup) {
  require_pager();
  churn(3, 24 * mib);
}

TEST_CASE("hazard_cgroup_limit") {
  const MemoryCgroup cgroup;
  if (!cgroup.limit(160 * mib)) return report_skip(no_memory_cgroup);
  cgroup_to_join = cgroup.path();
  for (const std::string& mover : movers()) {
    const Outcome outcome = run_scenario(
        "churn_under_cgroup",
        {{"TERRACE_MOVER", mover}, {"TERRACE_DRAM", "160M"}, {"TERRACE_LIMIT_CGROUP", cgroup.path()}},
        &join_cgroup);
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK(outcome.held());
    CHECK(cgroup.kills() == "0");
  }
}

HAZARD_SCENARIO(churn_while_budget_changes) {
  require_pager();
  churn(8, 4 * mib);
}

// The limit falls while the job runs. The kernel refuses a limit below what is in use, so it is asked again
// until the job has made room.
TEST_CASE("hazard_budget_changes") {
  const MemoryCgroup cgroup;
  if (!cgroup.limit(300 * mib)) return report_skip(no_memory_cgroup);
  cgroup_to_join = cgroup.path();
  for (const std::string& mover : movers()) {
    REQUIRE(cgroup.limit(300 * mib));
    Job job("churn_while_budget_changes",
            {{"TERRACE_MOVER", mover}, {"TERRACE_DRAM", "300M"}, {"TERRACE_LIMIT_CGROUP", cgroup.path()}},
            &join_cgroup);
    if (!job.wait_for_output("round 1 of")) {
      const Outcome outcome = job.wait();
      INFO(outcome.output);
      if (outcome.skipped) return report_skip(outcome.skip_reason());
      FAIL("the job ended early");
    }
    for (const std::size_t limit : {240 * mib, 180 * mib, 260 * mib, 150 * mib}) {
      for (int i = 0; i < 40 && job.is_running() && !cgroup.limit(limit); ++i) usleep(50'000);
      usleep(100'000);
    }
    const Outcome outcome = job.wait();
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    CHECK(outcome.held());
    CHECK(cgroup.kills() == "0");
  }
}

namespace {

void limit_to(int resource, std::size_t bytes) {
  const rlimit limit{bytes, bytes};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) _exit(exit_skip);
}

constexpr std::size_t large_bytes = 100 * mib;

bool can_map(std::size_t bytes, int protection) {
  void* area = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return area != MAP_FAILED && munmap(area, bytes) == 0;
}

void check_blocks_that_are_paged() {
  void* first = allocate(block_bytes);
  void* second = allocate(block_bytes);
  fill_pattern(first, block_bytes, 1);
  fill_pattern(second, block_bytes, 2);
  evict(first, block_bytes);
  HAZARD_CHECK(count_wrong_pages(first, block_bytes, 1) == 0);
  HAZARD_CHECK(count_wrong_pages(second, block_bytes, 2) == 0);
  std::free(first);
  std::free(second);
}

}  // namespace

// What the heap may not have, another allocator serves, as it would without the library.
HAZARD_SCENARIO(more_than_half_of_what_may_be_written) {
  auto* first = static_cast<unsigned char*>(allocate(large_bytes));
  HAZARD_CHECK(can_map(300 * mib, PROT_READ | PROT_WRITE));
  fill_pattern(first, block_bytes, 1);
  first = static_cast<unsigned char*>(std::realloc(first, 950 * mib));  // beyond the heap
  HAZARD_CHECK(first != nullptr && count_wrong_pages(first, block_bytes, 1) == 0);
  first = static_cast<unsigned char*>(std::realloc(first, large_bytes));
  HAZARD_CHECK(first != nullptr && count_wrong_pages(first, block_bytes, 1) == 0);
  std::vector<void*> held;
  while (held.size() < 11) held.push_back(allocate(large_bytes));
  auto* zeroes = static_cast<unsigned char*>(std::calloc(1, large_bytes));
  HAZARD_CHECK(zeroes != nullptr && is_zero(zeroes, block_bytes));
  HAZARD_CHECK(std::malloc(1024 * mib) == nullptr && errno == ENOMEM);
  for (void* block : held) {
    fill_pattern(block, mib, 2);
    std::free(block);
  }
  std::free(zeroes);
  std::free(first);
}

TEST_CASE("hazard_limit_of_writable_memory") {
  const Outcome outcome = run_scenario("more_than_half_of_what_may_be_written", {{"TERRACE_DRAM", ""}},
                                       [] { limit_to(RLIMIT_DATA, 1800 * mib); });
  INFO("wait status " << outcome.status << "\n" << outcome.output);
  CHECK(outcome.held());
  CHECK_FALSE(outcome.says("terrace: "));
}

// With a budget, which what is not the heap's is beyond.
HAZARD_SCENARIO(pages_under_a_limit) {
  require_pager();
  HAZARD_CHECK(can_map(300 * mib, PROT_READ | PROT_WRITE));
  HAZARD_CHECK(can_map(std::stoul(parameter("HAZARD_FREE_MIB")) * mib, PROT_NONE));
  check_blocks_that_are_paged();
  std::vector<void*> held;
  for (std::size_t i = 0; i < std::stoul(parameter("HAZARD_BLOCKS")); ++i)
    held.push_back(allocate(large_bytes));
  for (void* block : held) std::free(block);
  check_blocks_that_are_paged();
}

TEST_CASE("hazard_paging_under_a_limit_of_memory") {
  struct Limit {
    Preparation preparation;
    const char* free_mib;
    const char* blocks;
    bool overflows;
  };
  const Limit limits[] = {{[] { limit_to(RLIMIT_DATA, 2400 * mib); }, "100000", "14", true},
                          {[] { limit_to(RLIMIT_AS, 6144 * mib); }, "1024", "4", false}};
  for (const Limit& limit : limits) {
    for (const std::string& mover : movers()) {
      const Outcome outcome = run_scenario(
          "pages_under_a_limit",
          {{"TERRACE_MOVER", mover}, {"HAZARD_FREE_MIB", limit.free_mib}, {"HAZARD_BLOCKS", limit.blocks}},
          limit.preparation);
      INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
      if (outcome.skipped && !outcome.says("address space")) return report_skip(outcome.skip_reason());
      CHECK(outcome.held());
      CHECK(outcome.says("beyond the budget") == limit.overflows);
    }
  }
}

}  // namespace terrace::hazards
