// Warnings that nobody reads. The library writes to the program's standard error, which may be a pipe whose
// reader has stopped (a pager that waits for a key, a supervisor that hangs) or has gone. A program that
// writes nothing there would not notice; it must not notice the library's warnings either.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 16 * mib;
constexpr int blocks = 12;
constexpr unsigned hang_seconds = 8;

// Preparations. What goes wrong after them says nothing: the wait status tells, 14 being the alarm and 13
// SIGPIPE.
void standard_error_without_a_reader() {
  int ends[2];
  if (pipe(ends) != 0) _exit(126);
  close(ends[0]);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
}

void standard_error_that_nobody_reads() {
  alarm(hang_seconds);
  int ends[2];
  if (pipe(ends) != 0) _exit(126);
  const char line[] = "a line that was not read\n";
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  while (write(ends[1], line, sizeof line - 1) > 0 || write(ends[1], line, 1) > 0) {
  }
  fcntl(ends[1], F_SETFL, 0);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);  // the other end stays open until the scenario is over
}

const Environment small_pool = {
    {"TERRACE_DRAM", "64M"}, {"TERRACE_POOL_SIZE", "32M"}, {"TERRACE_COMPRESS", "off"}};

void require_for_movers(Preparation preparation) {
  for (const std::string& mover : movers()) {
    Environment settings = small_pool;
    settings.emplace_back("TERRACE_MOVER", mover);
    const Outcome outcome = run_scenario("more_than_budget_and_pool", settings, preparation);
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK(outcome.held());
    if (preparation == nullptr) CHECK(outcome.says("over the budget"));
  }
}

}  // namespace

// The pool is soon full, which a warning says; every page is still served.
HAZARD_SCENARIO(more_than_budget_and_pool) {
  require_pager();
  alarm(hang_seconds);
  std::vector<void*> held;
  for (int i = 0; i < blocks; ++i) {
    held.push_back(allocate(block_bytes));
    fill_pattern(held.back(), block_bytes, i);
  }
  for (int i = 0; i < blocks; ++i) HAZARD_CHECK(count_wrong_pages(held[i], block_bytes, i) == 0);
  for (void* block : held) std::free(block);
}

TEST_CASE("hazard_faults_are_served_while_nobody_reads_standard_error") {
  require_for_movers(nullptr);  // there is something to read
  require_for_movers(&standard_error_that_nobody_reads);
}

TEST_CASE("hazard_faults_are_served_when_the_reader_of_standard_error_is_gone") {
  require_for_movers(&standard_error_without_a_reader);
}

HAZARD_SCENARIO(allocates_once) {
  alarm(hang_seconds);
  void* block = allocate(block_bytes);
  fill_pattern(block, block_bytes, 1);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
  std::free(block);
}

// The line about the setting is written by the program's own thread, inside its first malloc.
TEST_CASE("hazard_warning_does_not_end_a_program_whose_standard_error_is_not_read") {
  const Environment bad_setting = {{"TERRACE_DRAM", "much"}};
  CHECK(run_scenario("allocates_once", bad_setting).says("TERRACE_DRAM"));
  for (const Preparation preparation :
       {&standard_error_without_a_reader, &standard_error_that_nobody_reads}) {
    const Outcome outcome = run_scenario("allocates_once", bad_setting, preparation);
    INFO("wait status " << outcome.status);
    CHECK(outcome.held());
  }
}

}  // namespace terrace::hazards
