// How much memory a family of processes has under a budget. A child keeps the pages that it inherited,
// whatever its parent does; what must not happen is that the parent's frames, which it shares with the child,
// become memory of its own beyond the budget.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t budget_bytes = 128 * mib;
constexpr std::size_t data_bytes = 96 * mib;
constexpr std::size_t slack_bytes = 32 * mib;  // libraries, stacks, page tables, the pager's own

// A child that lives until it is told to check what it inherited.
class LivingChild {
 public:
  LivingChild(const void* block, std::uint64_t seed) {
    HAZARD_CHECK(pipe(ends_) == 0);
    pid_ = fork_checked();
    if (pid_ != 0) return;
    char byte = 0;
    HAZARD_CHECK(read(ends_[0], &byte, 1) == 1);
    _Exit(count_wrong_pages(block, data_bytes, seed) == 0 ? 0 : exit_wrong);
  }
  pid_t pid() const { return pid_; }
  void finish() {
    HAZARD_CHECK(write(ends_[1], "x", 1) == 1);
    HAZARD_CHECK(exited_with(wait_for(pid_), 0));
    close(ends_[0]);
    close(ends_[1]);
  }

 private:
  pid_t pid_ = -1;
  int ends_[2] = {-1, -1};
};

// Shared pages count once in the sum.
std::size_t memory_of_family(const std::vector<LivingChild>& children) {
  std::size_t bytes = pss_bytes();
  for (const LivingChild& child : children) bytes += pss_bytes(child.pid());
  return bytes;
}

void page_out(void* block) {
  HAZARD_CHECK(terrace_advise(block, data_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
  quiesce();
}

struct Family {
  std::size_t share_bytes = 0;  // what the children can keep at most
  std::size_t peak_bytes = 0;
  std::vector<LivingChild> children;

  void measure() { peak_bytes = std::max(peak_bytes, memory_of_family(children)); }
  void check(const char* when) {
    measure();
    std::fprintf(stderr, "%s: peak %zu MiB, of which %zu may be the children's\n", when, peak_bytes / mib,
                 share_bytes / mib);
    HAZARD_CHECK(peak_bytes <= budget_bytes + share_bytes + slack_bytes);
  }
};

}  // namespace

HAZARD_SCENARIO(evicts_and_refills_beside_children) {
  require_pager();
  alarm(15);
  void* block = allocate(data_bytes);
  Family family;
  for (std::uint64_t generation = 1; generation <= 2; ++generation) {
    fill_pattern(block, data_bytes, generation);
    family.children.emplace_back(block, generation);
    family.share_bytes += status_bytes("VmRSS", family.children.back().pid());
    for (int round = 0; round < 3; ++round) {
      page_out(block);
      family.measure();
      HAZARD_CHECK(count_wrong_pages(block, data_bytes, generation) == 0);
      family.measure();
    }
    family.check("read");
    for (int round = 0; round < 3; ++round) {
      page_out(block);
      fill_pattern(block, data_bytes, 10 + generation);
      family.measure();
      press_out(budget_bytes);
    }
    HAZARD_CHECK(count_wrong_pages(block, data_bytes, 10 + generation) == 0);
    family.check("written");
  }
  for (LivingChild& child : family.children) child.finish();
  HAZARD_CHECK(count_wrong_pages(block, data_bytes, 12) == 0);
}

TEST_CASE("hazard_parent_with_living_children_stays_within_its_budget") {
  run_for_movers("evicts_and_refills_beside_children", {{"TERRACE_DRAM", "128M"}});
}

// The parent changes nothing: what both have is there once, but for what was evicted and came back.
HAZARD_SCENARIO(reads_what_it_shares_with_a_child) {
  require_pager();
  void* block = allocate(data_bytes);
  fill_pattern(block, data_bytes, 1);
  quiesce();
  Family family;
  const std::size_t before = pss_bytes();
  family.children.emplace_back(block, 1);
  for (int round = 0; round < 3; ++round) HAZARD_CHECK(count_wrong_pages(block, data_bytes, 1) == 0);
  family.measure();
  std::fprintf(stderr, "before: %zu MiB, both: %zu MiB\n", before / mib, family.peak_bytes / mib);
  HAZARD_CHECK(family.peak_bytes <= before + slack_bytes);
  family.children.back().finish();
}

TEST_CASE("hazard_pages_that_parent_and_child_only_read_are_there_once") {
  run_for_movers("reads_what_it_shares_with_a_child", {{"TERRACE_DRAM", "256M"}});
}

}  // namespace terrace::hazards
