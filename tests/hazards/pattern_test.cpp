// Ways in which programs go over data that does not fit their budget, with every byte verified.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t budget_bytes = 128 * mib;
const Environment settings = {
    {"TERRACE_DRAM", "128M"}, {"TERRACE_POOL_SIZE", "2G"}, {"TERRACE_COMPRESS", "off"}};

// A part of the data and what each of its pages should hold.
class Part {
 public:
  Part(std::size_t bytes, unsigned seed) : pages_(bytes / page_bytes), versions_(pages_, 0), random_(seed) {
    block_ = static_cast<unsigned char*>(allocate(bytes));
    for (std::size_t n = 0; n < pages_; ++n) fill_page(page(n), seed_of(n), n);
  }
  std::size_t pages() const { return pages_; }

  void visit(std::size_t n, bool write) {
    HAZARD_CHECK(is_right(n));
    if (!write) return;
    ++versions_[n];
    fill_page(page(n), seed_of(n), n);
  }
  // Random pages, a half of them written.
  void wander(std::size_t visits) {
    for (std::size_t i = 0; i < visits; ++i) visit(random_() % pages_, random_() % 2 == 0);
  }
  bool is_right(std::size_t n) const { return page_is_right(page(n), seed_of(n), n); }
  std::size_t wrong_pages(std::size_t step = 1) const {
    std::size_t wrong = 0;
    for (std::size_t n = 0; n < pages_; n += step) wrong += is_right(n) ? 0 : 1;
    return wrong;
  }

 private:
  unsigned char* page(std::size_t n) const { return block_ + n * page_bytes; }
  std::uint64_t seed_of(std::size_t n) const { return 1 + versions_[n]; }

  unsigned char* block_;
  std::size_t pages_;
  std::vector<std::uint16_t> versions_;
  std::minstd_rand random_;
};

int check_some(const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    if (part.wrong_pages(97) != 0) return exit_wrong;
  }
  return 0;
}

}  // namespace

// Three times the budget, four threads, and children that read what they inherited while their parent goes
// on.
HAZARD_SCENARIO(random_pages_by_threads_with_forks) {
  require_pager();
  std::vector<Part> parts;
  for (unsigned t = 0; t < 4; ++t) parts.emplace_back(3 * budget_bytes / 4, t + 1);
  std::vector<pid_t> children;
  for (int phase = 0; phase < 4; ++phase) {
    std::vector<std::thread> threads;
    threads.reserve(parts.size());
    for (Part& part : parts) threads.emplace_back([&part] { part.wander(400); });
    for (std::thread& thread : threads) thread.join();
    const pid_t child = fork_checked();
    if (child == 0) _Exit(check_some(parts));
    children.push_back(child);
  }
  for (const Part& part : parts) HAZARD_CHECK(part.wrong_pages() == 0);
  for (const pid_t child : children) HAZARD_CHECK(exited_with(wait_for(child), 0));
  HAZARD_CHECK(statistics().restores > 0);
}

TEST_CASE("hazard_random_pages_of_three_budgets_stay_right_among_threads_and_forks") {
  run_for_movers("random_pages_by_threads_with_forks", settings);
}

// Data that is only read leaves DRAM many times, and is written once.
HAZARD_SCENARIO(cycles_over_clean_data) {
  require_pager();
  constexpr std::size_t bytes = 2 * budget_bytes;
  const Part part(bytes, 1);
  for (int cycle = 0; cycle < 5; ++cycle) HAZARD_CHECK(part.wrong_pages() == 0);
  quiesce();
  const terrace_statistics s = statistics();
  std::fprintf(stderr, "written %llu MiB, read %llu MiB, of %zu MiB of data\n",
               static_cast<unsigned long long>(s.written_bytes / mib),
               static_cast<unsigned long long>(s.read_bytes / mib), bytes / mib);
  HAZARD_CHECK(s.written_bytes < bytes + bytes / 5);
}

TEST_CASE("hazard_data_that_is_read_in_cycles_is_written_once") {
  run_for_movers("cycles_over_clean_data", settings);
}

// Columns of a matrix: a page of each run and on to the next, then the next page of each; and strides that
// are no multiple of a run.
HAZARD_SCENARIO(strided_touches) {
  require_pager();
  Part part(2 * budget_bytes, 7);
  constexpr std::size_t run_pages = run_bytes / page_bytes;
  for (std::size_t column = 0; column < 6; ++column) {
    for (std::size_t n = column * 83; n < part.pages(); n += run_pages) part.visit(n, column % 2 == 0);
  }
  for (const std::size_t stride : {std::size_t{3}, run_pages + 1, 5 * run_pages - 7, std::size_t{37}}) {
    for (std::size_t n = 0; n < part.pages(); n += stride) part.visit(n, n % 3 == 0);
  }
  HAZARD_CHECK(part.wrong_pages() == 0);
}

TEST_CASE("hazard_strided_touches_of_two_budgets_stay_right") { run_for_movers("strided_touches", settings); }

}  // namespace terrace::hazards
