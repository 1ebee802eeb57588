// What the hazard tests share: a job in a process of its own, and what that job does to its memory.
//
// A hazard is one test case and one or more scenarios. The test case runs in the test program as it is; each
// scenario runs in a fresh copy of it, started with the preload library, a budget, a pool and a mover,
// because a pager cannot be switched on in a process that is already running, and because a hazard that goes
// wrong ends in a hang, a signal or wrong bytes of the whole process. A scenario says what it found by its
// exit status: 0 held, 1 broken (standard error says what), 77 not testable here (standard output says why).
//
// Every page of a block that is under test carries words that follow from the block's seed, the page and the
// position, so a stale, foreign or zero page is told from the right one at every word.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "liballoc/terrace.h"

namespace terrace::hazards {

inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t run_bytes = 2 << 20;
inline constexpr std::size_t mib = 1 << 20;
inline constexpr int exit_skip = 77;
inline constexpr int exit_wrong = 3;  // a forked child found wrong bytes
inline constexpr unsigned limit_seconds = 60;

// ---- inside a scenario
// --------------------------------------------------------------------------------------

struct Mismatch {
  std::size_t page = 0;
  std::size_t word = 0;
  std::uint64_t found = 0;
  std::uint64_t expected = 0;
};

std::uint64_t pattern_word(std::uint64_t seed, std::size_t page, std::size_t word);
void fill_page(void* page, std::uint64_t seed, std::size_t number);
void fill_pattern(void* block, std::size_t bytes, std::uint64_t seed);
// True when the page is right. Calls nothing: fit for a child of a bare clone and for signal handlers.
bool page_is_right(const void* page, std::uint64_t seed, std::size_t number, Mismatch* out = nullptr);
// Pages that differ; the first one is described on standard error.
std::size_t count_wrong_pages(const void* block, std::size_t bytes, std::uint64_t seed);
bool is_zero(const void* bytes, std::size_t count);

terrace_statistics statistics();
// Skips the scenario when the pager cannot run here. With HAZARD_ENCRYPTED its pool must be encrypted.
void require_pager();
// Takes the whole runs of the block out of DRAM and waits until they are on the tier: with HAZARD_NVM on NVM,
// some.
void evict(const void* block, std::size_t bytes);
void quiesce();
// Pages of the range that are mapped now. Page-aligned ranges only.
std::size_t resident_pages(const void* block, std::size_t bytes);
// A line of /proc/PID/status (VmRSS, VmHWM) or of smaps_rollup (Pss), in bytes.
std::size_t status_bytes(const char* field, pid_t process = 0);
std::size_t pss_bytes(pid_t process = 0);
// From here on VmHWM counts anew.
void forget_peak_memory();
// Takes and fills more memory than the budget, so that what may leave DRAM does and its frames are used for
// other data; gives it back.
void press_out(std::size_t budget_bytes);

[[noreturn]] void skip(const char* reason);
[[noreturn]] void fail(const char* file, int line, const char* what);

// Runs `body` in a forked child that leaves through _exit with what it returns. Returns the wait status.
template <typename Body>
int in_forked_child(Body body);
pid_t fork_checked();
int wait_for(pid_t child);
bool exited_with(int status, int code);

// The value of a variable that the test case passed to its scenario.
std::string parameter(const char* name);
// Where the pool's files are, and room for files of the scenario's own.
std::string pool_directory();
void* allocate(std::size_t bytes);
void* laundered(void* pointer);

#define HAZARD_CHECK(condition) \
  ((condition) ? void() : ::terrace::hazards::fail(__FILE__, __LINE__, #condition))

using ScenarioFunction = void (*)();
struct ScenarioEntry {
  ScenarioEntry(const char* name, ScenarioFunction function);
  const char* name;
  ScenarioFunction function;
  const ScenarioEntry* next;
};
int run_registered_scenario(const char* name);

#define HAZARD_SCENARIO(id)                                                       \
  static void scenario_##id();                                                    \
  static const ::terrace::hazards::ScenarioEntry entry_##id(#id, &scenario_##id); \
  static void scenario_##id()

// ---- in the test case
// ---------------------------------------------------------------------------------------

using Environment = std::vector<std::pair<std::string, std::string>>;

struct Outcome {
  int status = 0;  // as waitpid gives it
  bool skipped = false;
  std::string output;  // standard output and error together
  bool held() const { return status == 0; }
  std::string skip_reason() const;
  bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};

// What runs between fork and exec of a scenario: drops rights, denies system calls.
using Preparation = void (*)();

class Job {
 public:
  // `settings` are added to (or replace) the usual ones; an empty value removes a variable.
  explicit Job(const std::string& scenario, const Environment& settings = {},
               Preparation preparation = nullptr);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  pid_t pid() const { return pid_; }
  void send_signal(int signal) const;
  bool is_running();
  // Waits until the scenario has written `text`. False: it ended first.
  bool wait_for_output(const std::string& text);
  std::string output() const;
  Outcome wait();

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

Outcome run_scenario(const std::string& name, const Environment& settings = {},
                     Preparation preparation = nullptr);
// Runs the scenario once for each mover that this kernel has and requires that it held.
void run_for_mover(const std::string& name, const std::string& mover, const Environment& settings = {});
void run_for_movers(const std::string& name, const Environment& settings = {});
const std::vector<std::string>& movers();
// A directory on the file system of the build tree that is removed at the end.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};
// Prints the line that ctest counts as a skip.
void report_skip(const std::string& reason);

#define HAZARD_TEST(id)                                                           \
  static void scenario_##id();                                                    \
  static const ::terrace::hazards::ScenarioEntry entry_##id(#id, &scenario_##id); \
  TEST_CASE("hazard_" #id) { ::terrace::hazards::run_for_movers(#id); }           \
  static void scenario_##id()

template <typename Body>
int in_forked_child(Body body) {
  const pid_t child = fork_checked();
  if (child == 0) {
    const int code = body();
    _Exit(code);
  }
  return wait_for(child);
}

}  // namespace terrace::hazards
