// terrace.h through libterrace.so, as a program uses it: what is refused, and a pager in a process of its
// own.
//
// A pager starts with the process, so each case that needs one runs this program again with the budget in its
// environment and the name of a scenario as its only argument. A scenario's exit status is its result; 77
// means that no pager can run here.
#define CATCH_CONFIG_RUNNER
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "liballoc/terrace.h"

namespace {

constexpr std::size_t mib = 1 << 20;
constexpr int skipped = 77;

#define EXPECT(condition)                                                        \
  do {                                                                           \
    if (condition) break;                                                        \
    std::fprintf(stderr, "api_test.cpp:%d: not so: %s\n", __LINE__, #condition); \
    return 1;                                                                    \
  } while (false)

char* fresh(std::size_t bytes, unsigned hints = 0) {
  return static_cast<char*>(terrace_alloc(bytes, 0, hints));
}

terrace_statistics statistics() {
  terrace_statistics s{};
  s.size = sizeof(s);
  terrace_get_statistics(&s);
  return s;
}

bool pager_is_active() {
  const char* block = fresh(mib);
  terrace_status status{};
  status.size = sizeof(status);
  if (block == nullptr || terrace_get_status(&status) != 0) return false;
  if (std::strcmp(status.pager, "active") == 0) return true;
  std::printf("SKIP: no pager here: %s\n", status.reason);
  return false;
}

bool holds(const char* block, std::size_t bytes, char value) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (block[i] != value) return false;
  return true;
}

// ---- scenarios with a budget of 64 MiB
// -----------------------------------------------------------------------

int status_says_what_runs() {
  if (!pager_is_active()) return skipped;
  terrace_status status{};
  status.size = sizeof(status);
  EXPECT(terrace_get_status(&status) == 0);
  EXPECT(std::string(status.reason).empty());
  EXPECT(std::string(status.mover) != "none");
  EXPECT(std::string(status.io) != "none");
  EXPECT(statistics().budget_bytes > 0);
  EXPECT(statistics().budget_bytes <= 64 * mib);
  return 0;
}

int more_than_the_budget_is_kept() {
  if (!pager_is_active()) return skipped;
  std::vector<char*> blocks;
  for (int i = 0; i < 24; ++i) {
    blocks.push_back(fresh(6 * mib));
    std::memset(blocks.back(), i, 6 * mib);
  }
  for (int i = 0; i < 24; ++i)
    EXPECT(holds(blocks[static_cast<std::size_t>(i)], 6 * mib, static_cast<char>(i)));
  EXPECT(statistics().evictions > 0);
  EXPECT(statistics().resident_bytes <= 64 * mib);
  for (char* block : blocks) terrace_free(block);
  EXPECT(terrace_trim() > 0);
  EXPECT(statistics().lost_runs == 0);
  return 0;
}

int paged_out_and_prefetched() {
  if (!pager_is_active()) return skipped;
  char* block = fresh(8 * mib);
  std::memset(block, 5, 8 * mib);
  EXPECT(terrace_advise(block, 8 * mib, TERRACE_ADVISE_PAGE_OUT) == 0);
  EXPECT(terrace_quiesce(30'000) == 0);
  EXPECT(statistics().stored_bytes == 8 * mib);
  EXPECT(terrace_prefetch(block, 8 * mib) == 0);
  EXPECT(statistics().stored_bytes == 0);
  EXPECT(holds(block, 8 * mib, 5));
  return 0;
}

int advice_spares_what_is_not_whole() {
  if (!pager_is_active()) return skipped;
  char* block = fresh(8 * mib);
  std::memset(block, 5, 8 * mib);
  EXPECT(terrace_advise(block + 1, 2 * mib, TERRACE_ADVISE_PAGE_OUT) == 0);  // no whole run inside
  EXPECT(terrace_quiesce(30'000) == 0);
  EXPECT(statistics().stored_bytes == 0);
  EXPECT(terrace_advise(block + 1, 4 * mib, TERRACE_ADVISE_PAGE_OUT) == 0);  // one
  EXPECT(terrace_quiesce(30'000) == 0);
  EXPECT(statistics().stored_bytes == 2 * mib);
  EXPECT(holds(block, 8 * mib, 5));
  return 0;
}

int pins_hold_and_the_budget_bounds_them() {
  if (!pager_is_active()) return skipped;
  char* block = fresh(8 * mib);
  std::memset(block, 5, 8 * mib);
  EXPECT(terrace_advise(block, 8 * mib, TERRACE_ADVISE_PAGE_OUT) == 0);
  EXPECT(terrace_quiesce(30'000) == 0);
  EXPECT(terrace_pin(block, 8 * mib) == 0);
  EXPECT(statistics().stored_bytes == 0);
  EXPECT(terrace_advise(block, 8 * mib, TERRACE_ADVISE_PAGE_OUT) == 0);
  EXPECT(terrace_quiesce(30'000) == 0);
  EXPECT(statistics().stored_bytes == 0);
  EXPECT(terrace_unpin(block, 8 * mib) == 0);
  EXPECT(terrace_advise(block, 8 * mib, TERRACE_ADVISE_PAGE_OUT) == 0);
  EXPECT(terrace_quiesce(30'000) == 0);
  EXPECT(statistics().stored_bytes == 8 * mib);
  char* large = fresh(128 * mib);
  EXPECT(terrace_pin(large, 128 * mib) == -ENOMEM);
  EXPECT(fresh(128 * mib, TERRACE_HINT_PINNED) == nullptr);
  EXPECT(errno == ENOMEM);
  EXPECT(holds(block, 8 * mib, 5));
  return 0;
}

// A loop that allocates nothing: its marks alone say what a step is.
int marks_are_a_clock() {
  if (!pager_is_active()) return skipped;
  std::vector<char*> blocks;
  for (int i = 0; i < 24; ++i) {
    blocks.push_back(fresh(6 * mib));
    std::memset(blocks.back(), i, 6 * mib);
  }
  EXPECT(statistics().marks == 0);
  constexpr int steps = 12;
  for (int step = 0; step < steps; ++step) {
    EXPECT(terrace_mark(step % 2 == 0 ? nullptr : "") == 0);
    for (int i = 0; i < 24; ++i) {
      EXPECT(holds(blocks[static_cast<std::size_t>(i)], 6 * mib, static_cast<char>(i)));
      if (i == 11) EXPECT(terrace_mark("half") == 0);
    }
  }
  const terrace_statistics s = statistics();
  EXPECT(s.marks == 2 * steps);
  EXPECT(s.steps >= steps - 5);
  EXPECT(s.steps < steps);
  EXPECT(s.departures == 0);
  return 0;
}

// Whoever marks without end waits for nobody and hurts nobody.
int marks_without_end() {
  if (!pager_is_active()) return skipped;
  char* block = fresh(128 * mib);
  std::memset(block, 3, 128 * mib);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      const std::string name(1 + static_cast<std::size_t>(t), 'x');
      for (int i = 0; i < 300'000; ++i) {
        const int answer = terrace_mark(i % 3 == 0 ? nullptr : name.c_str());
        wrong += answer == 0 || answer == -EAGAIN ? 0 : 1;
      }
    });
  for (int i = 0; i < 20; ++i) terrace_free(fresh(mib));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(terrace_mark("child") == 0 && terrace_mark(nullptr) == 0 ? 0 : 1);
  int status = 1;
  EXPECT(::waitpid(child, &status, 0) == child);
  EXPECT(status == 0);
  for (std::thread& thread : threads) thread.join();
  EXPECT(wrong == 0);
  EXPECT(holds(block, 128 * mib, 3));
  EXPECT(statistics().marks > 0);
  EXPECT(statistics().marks <= 900'000);
  return 0;
}

// With TERRACE_FAULT=slow: the write is under way for a second.
int quiesce_gives_up_in_time() {
  if (!pager_is_active()) return skipped;
  char* block = fresh(8 * mib);
  std::memset(block, 5, 8 * mib);
  EXPECT(terrace_quiesce(30'000) == 0);
  EXPECT(terrace_advise(block, 8 * mib, TERRACE_ADVISE_PAGE_OUT) == 0);
  EXPECT(terrace_quiesce(1) == -ETIMEDOUT);
  EXPECT(terrace_quiesce(0) == 0);
  EXPECT(statistics().stored_bytes == 8 * mib);
  return 0;
}

int disabled_has_no_heap() {
  EXPECT(terrace_alloc(mib, 0, 0) == nullptr);
  EXPECT(errno == ENOMEM);
  EXPECT(terrace_owns(&errno) == 0);
  EXPECT(terrace_quiesce(0) == 0);
  EXPECT(terrace_trim() == 0);
  EXPECT(terrace_mark(nullptr) == 0);
  EXPECT(terrace_pin(&errno, 4) == -EINVAL);
  EXPECT(statistics().allocations == 0);
  terrace_free(nullptr);
  return 0;
}

int freeing_what_is_not_a_block_aborts() {
  char* block = fresh(4 * mib);
  EXPECT(block != nullptr);
  terrace_free(block + 4096);
  return 0;
}

using Scenario = int (*)();
const std::map<std::string, Scenario>& scenarios() {
  static const std::map<std::string, Scenario> all = {
      {"status_says_what_runs", status_says_what_runs},
      {"more_than_the_budget_is_kept", more_than_the_budget_is_kept},
      {"paged_out_and_prefetched", paged_out_and_prefetched},
      {"advice_spares_what_is_not_whole", advice_spares_what_is_not_whole},
      {"pins_hold_and_the_budget_bounds_them", pins_hold_and_the_budget_bounds_them},
      {"quiesce_gives_up_in_time", quiesce_gives_up_in_time},
      {"marks_are_a_clock", marks_are_a_clock},
      {"marks_without_end", marks_without_end},
      {"disabled_has_no_heap", disabled_has_no_heap},
      {"freeing_what_is_not_a_block_aborts", freeing_what_is_not_a_block_aborts},
  };
  return all;
}

// Runs a scenario in a fresh process; its status, or 200 + the signal. `settings`: NAME=value.
int run(const char* scenario, const std::vector<std::string>& settings) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    for (const std::string& setting : settings)
      ::putenv(const_cast<char*>(setting.c_str()));  // NOLINT: putenv
    ::alarm(60);
    ::execl("/proc/self/exe", "api_test", scenario, static_cast<char*>(nullptr));
    ::_exit(126);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 126;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

bool held(const char* scenario, std::vector<std::string> settings = {}) {
  settings.insert(settings.end(),
                  {"TERRACE_DRAM=64M", "TERRACE_POOL_SIZE=512M", "TERRACE_POOL_DIR=" TERRACE_TEST_POOL_DIR});
  const int result = run(scenario, settings);
  INFO(scenario << " ended with " << result);
  CHECK((result == 0 || result == skipped));
  return result == 0 || result == skipped;
}

std::string mover() { return GENERATE(as<std::string>{}, "TERRACE_MOVER=move", "TERRACE_MOVER=mremap"); }

}  // namespace

TEST_CASE("Allocation checks its arguments") {
  for (const std::size_t alignment : {3, 48, 4097}) {
    errno = 0;
    CHECK(terrace_alloc(mib, alignment, 0) == nullptr);
    CHECK(errno == EINVAL);
  }
  errno = 0;
  CHECK(terrace_alloc(mib, 0, 1U << 30) == nullptr);
  CHECK(errno == EINVAL);
  errno = 0;
  CHECK(terrace_alloc(~std::size_t{0}, 0, 0) == nullptr);
  CHECK(errno == ENOMEM);
  void* block = terrace_alloc(1, 0, TERRACE_HINT_COLD | TERRACE_HINT_LONG_LIVED);
  REQUIRE(block != nullptr);
  CHECK(terrace_owns(block) == 1);
  CHECK(terrace_owns(&block) == 0);
  CHECK(terrace_owns(nullptr) == 0);
  terrace_free(block);
  terrace_free(nullptr);
  void* aligned = terrace_alloc(mib, 8 * mib, 0);
  CHECK(reinterpret_cast<std::uintptr_t>(aligned) % (8 * mib) == 0);
  terrace_free(aligned);
}

TEST_CASE("Ranges outside of one live block are refused") {
  char* block = fresh(4 * mib);
  REQUIRE(block != nullptr);
  int local = 0;
  const struct {
    const void* address;
    std::size_t bytes;
  } bad[] = {{&local, 4}, {nullptr, 1},         {block, 4 * mib + 1},
             {block, 0},  {block + 4 * mib, 1}, {block + 1, ~std::size_t{0}}};
  for (const auto& range : bad) {
    CHECK(terrace_pin(range.address, range.bytes) == -EINVAL);
    CHECK(terrace_unpin(range.address, range.bytes) == -EINVAL);
    CHECK(terrace_advise(range.address, range.bytes, TERRACE_ADVISE_COLD) == -EINVAL);
    CHECK(terrace_prefetch(range.address, range.bytes) == -EINVAL);
  }
  CHECK(terrace_advise(block, mib, static_cast<terrace_advice>(0)) == -EINVAL);
  terrace_free(block);
  CHECK(terrace_pin(block, 1) == -EINVAL);
}

TEST_CASE("Without a budget there is no pager, and the rest works") {
  char* block = fresh(4 * mib);
  REQUIRE(block != nullptr);
  terrace_status status{};
  status.size = sizeof(status);
  CHECK(terrace_get_status(&status) == 0);
  CHECK(std::string(status.pager) == "inactive");
  CHECK(std::string(status.reason).find("TERRACE_DRAM") != std::string::npos);
  CHECK(std::string(status.mover) == "none");
  CHECK(std::string(status.io) == "none");
  CHECK(terrace_advise(block, 4 * mib, TERRACE_ADVISE_COLD) == -ENOTSUP);
  CHECK(terrace_pin(block, 4 * mib) == 0);
  CHECK(terrace_unpin(block, 4 * mib) == 0);
  CHECK(terrace_prefetch(block, 4 * mib) == 0);
  CHECK(terrace_quiesce(1) == 0);
  terrace_free(block);
  CHECK(terrace_trim() >= 4 * mib);
}

TEST_CASE("Statistics fill as much as the caller's struct has") {
  CHECK(terrace_get_statistics(nullptr) == -EINVAL);
  terrace_statistics s;
  std::memset(&s, 0x5a, sizeof s);
  s.size = sizeof(s.size) - 1;
  CHECK(terrace_get_statistics(&s) == -EINVAL);
  CHECK(s.heap_live_bytes == 0x5a5a5a5a5a5a5a5a);
  void* block = fresh(4 * mib);
  s.size = 3 * sizeof(std::uint64_t);  // a program built against a header with two counters
  CHECK(terrace_get_statistics(&s) == 0);
  CHECK(s.size == 3 * sizeof(std::uint64_t));
  CHECK(s.heap_live_bytes == 4 * mib);
  CHECK(s.resident_bytes == 0x5a5a5a5a5a5a5a5a);
  struct Newer {
    terrace_statistics known;
    std::uint64_t later;
  } newer{};
  newer.known.size = sizeof(newer);
  newer.later = 42;
  CHECK(terrace_get_statistics(&newer.known) == 0);
  CHECK(newer.known.size == sizeof(terrace_statistics));
  CHECK(newer.later == 42);
  terrace_free(block);
  terrace_status status{};
  CHECK(terrace_get_status(nullptr) == -EINVAL);
  CHECK(terrace_get_status(&status) == -EINVAL);
}

TEST_CASE("The version is the header's") {
  const std::string header = std::to_string(TERRACE_VERSION_MAJOR) + "." +
                             std::to_string(TERRACE_VERSION_MINOR) + "." +
                             std::to_string(TERRACE_VERSION_PATCH);
  CHECK(terrace_version() == header);
}

TEST_CASE("The status names mover and device") { held("status_says_what_runs", {mover()}); }
TEST_CASE("More than the budget is kept") { held("more_than_the_budget_is_kept", {mover()}); }
TEST_CASE("Paged out, then prefetched") { held("paged_out_and_prefetched", {mover()}); }
TEST_CASE("Advice affects whole runs inside the range") {
  held("advice_spares_what_is_not_whole", {mover()});
}
TEST_CASE("Pins hold, and the budget bounds them") {
  held("pins_hold_and_the_budget_bounds_them", {mover()});
}
TEST_CASE("Quiesce gives up in time") { held("quiesce_gives_up_in_time", {"TERRACE_FAULT=slow:1000ms"}); }

TEST_CASE("Marks are the clock of a loop that allocates nothing") { held("marks_are_a_clock", {mover()}); }
TEST_CASE("Marks without end hurt nobody") { held("marks_without_end", {mover()}); }

TEST_CASE("Names of marks are bounded") {
  CHECK(terrace_mark(nullptr) == 0);
  CHECK(terrace_mark("") == 0);
  CHECK(terrace_mark(std::string(TERRACE_MARK_NAME_MAX, 'n').c_str()) == 0);
  CHECK(terrace_mark(std::string(TERRACE_MARK_NAME_MAX + 1, 'n').c_str()) == -ENAMETOOLONG);
  // Nothing behind the bound is read: the name need not end.
  std::vector<char> endless(TERRACE_MARK_NAME_MAX + 1, '\xff');
  CHECK(terrace_mark(endless.data()) == -ENAMETOOLONG);
  CHECK(statistics().marks == 0);  // memory is not short
}

TEST_CASE("A disabled library has no heap and refuses politely") {
  CHECK(run("disabled_has_no_heap", {"TERRACE_DISABLE=1"}) == 0);
  CHECK(run("disabled_has_no_heap", {"TERRACE_DRAM=nonsense"}) == 0);
}

TEST_CASE("Freeing what is not a block aborts") {
  CHECK(run("freeing_what_is_not_a_block_aborts", {}) == 200 + SIGABRT);
}

int main(int argc, char* argv[]) {
  if (argc == 2) {
    const auto found = scenarios().find(argv[1]);
    if (found != scenarios().end()) return found->second();
  }
  return Catch::Session().run(argc, argv);
}
