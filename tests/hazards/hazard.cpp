#include "tests/hazards/hazard.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/hazards/machine/encrypted_pool.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t words_per_page = page_bytes / sizeof(std::uint64_t);
const ScenarioEntry* first_scenario = nullptr;

}  // namespace

// Three pages of four are two thirds zeros, so that what leaves DRAM is compressed.
std::uint64_t pattern_word(std::uint64_t seed, std::size_t page, std::size_t word) {
  if (page % 4 != 0 && word % 3 != 0) return 0;
  return (seed * 0x9E3779B97F4A7C15ULL) ^ (static_cast<std::uint64_t>(page) << 20) ^ word ^
         0x5445525241434500ULL;
}

void fill_page(void* page, std::uint64_t seed, std::size_t number) {
  auto* words = static_cast<std::uint64_t*>(page);
  for (std::size_t i = 0; i < words_per_page; ++i) words[i] = pattern_word(seed, number, i);
}

void fill_pattern(void* block, std::size_t bytes, std::uint64_t seed) {
  auto* page = static_cast<unsigned char*>(block);
  for (std::size_t n = 0; n < bytes / page_bytes; ++n) fill_page(page + n * page_bytes, seed, n);
}

bool page_is_right(const void* page, std::uint64_t seed, std::size_t number, Mismatch* out) {
  const auto* words = static_cast<const volatile std::uint64_t*>(page);
  for (std::size_t i = 0; i < words_per_page; ++i) {
    const std::uint64_t found = words[i];
    const std::uint64_t expected = pattern_word(seed, number, i);
    if (found == expected) continue;
    if (out != nullptr) *out = {number, i, found, expected};
    return false;
  }
  return true;
}

std::size_t count_wrong_pages(const void* block, std::size_t bytes, std::uint64_t seed) {
  const auto* page = static_cast<const unsigned char*>(block);
  std::size_t wrong = 0;
  for (std::size_t n = 0; n < bytes / page_bytes; ++n) {
    Mismatch first;
    if (page_is_right(page + n * page_bytes, seed, n, &first)) continue;
    if (wrong++ == 0) {
      std::fprintf(
          stderr, "wrong bytes: block %p seed %llu page %zu word %zu: found %016llx, expected %016llx\n",
          block, static_cast<unsigned long long>(seed), first.page, first.word,
          static_cast<unsigned long long>(first.found), static_cast<unsigned long long>(first.expected));
    }
  }
  return wrong;
}

bool is_zero(const void* bytes, std::size_t count) {
  const auto* byte = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < count; ++i) {
    if (byte[i] != 0) return false;
  }
  return true;
}

terrace_statistics statistics() {
  terrace_statistics s{};
  s.size = sizeof s;
  HAZARD_CHECK(terrace_get_statistics(&s) == 0);
  return s;
}

// The pager starts with the first large block of a process.
void require_pager() {
  void* volatile first = allocate(run_bytes);
  std::free(first);
  terrace_status status{};
  status.size = sizeof status;
  HAZARD_CHECK(terrace_get_status(&status) == 0);
  if (std::strcmp(status.pager, "active") != 0) skip(status.reason);
  HAZARD_CHECK(std::getenv("HAZARD_ENCRYPTED") == nullptr || has_encrypted_pool(pool_directory()));
}

void quiesce() { HAZARD_CHECK(terrace_quiesce(30'000) == 0); }

std::size_t resident_pages(const void* block, std::size_t bytes) {
  std::vector<unsigned char> present(bytes / page_bytes);
  HAZARD_CHECK(mincore(const_cast<void*>(block), bytes, present.data()) == 0);
  return static_cast<std::size_t>(
      std::count_if(present.begin(), present.end(), [](unsigned char flags) { return (flags & 1) != 0; }));
}

// The reactive policy may bring runs back between the two calls, hence more than one attempt.
void evict(const void* block, std::size_t bytes) {
  const auto begin = (reinterpret_cast<std::uintptr_t>(block) + run_bytes - 1) / run_bytes * run_bytes;
  const auto end = (reinterpret_cast<std::uintptr_t>(block) + bytes) / run_bytes * run_bytes;
  HAZARD_CHECK(begin < end);
  for (int attempt = 0; attempt < 50; ++attempt) {
    HAZARD_CHECK(terrace_advise(block, bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
    quiesce();
    if (resident_pages(reinterpret_cast<const void*>(begin), end - begin) == 0) {  // NOLINT: rounded address
      HAZARD_CHECK(std::getenv("HAZARD_NVM") == nullptr || statistics().nvm_written_bytes > 0);
      return;
    }
    usleep(10'000);
  }
  fail(__FILE__, __LINE__, "the block left DRAM");
}

namespace {

std::size_t proc_bytes(const char* file, const char* field, pid_t process) {
  const std::string whose = process == 0 ? "self" : std::to_string(process);
  std::ifstream lines("/proc/" + whose + "/" + file);
  const std::string wanted = std::string(field) + ":";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(wanted)) return std::stoul(line.substr(wanted.size())) * 1024;
  }
  fail(__FILE__, __LINE__, "the kernel says how much memory is used");
}

}  // namespace

std::size_t status_bytes(const char* field, pid_t process) { return proc_bytes("status", field, process); }
std::size_t pss_bytes(pid_t process) { return proc_bytes("smaps_rollup", "Pss", process); }

void forget_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  HAZARD_CHECK(file.good());
}

void press_out(std::size_t budget_bytes) {
  constexpr std::size_t each = 16 * mib;
  std::vector<void*> blocks;
  for (std::size_t taken = 0; taken < budget_bytes + 2 * each; taken += each) {
    blocks.push_back(allocate(each));
    fill_pattern(blocks.back(), each, 0xF00D + taken);
  }
  quiesce();
  for (void* block : blocks) std::free(block);
}

void skip(const char* reason) {
  std::printf("SKIP: %s\n", reason);
  std::fflush(stdout);
  _exit(exit_skip);
}

void fail(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: does not hold: %s (errno %d)\n", file, line, what, errno);
  _exit(1);
}

pid_t fork_checked() {
  const pid_t child = fork();
  HAZARD_CHECK(child >= 0);
  if (child == 0) alarm(limit_seconds);
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) != child) HAZARD_CHECK(errno == EINTR);
  return status;
}

bool exited_with(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

std::string parameter(const char* name) {
  const char* value = std::getenv(name);
  HAZARD_CHECK(value != nullptr);
  return value;
}

std::string pool_directory() {
  const char* const own = std::getenv("TERRACE_POOL_DIR");
  return own != nullptr ? own : parameter("HAZARD_POOL_DIR");
}

// Opaque to the optimizer, which would otherwise see through what a scenario does wrong on purpose.
void* laundered(void* pointer) {
  void* volatile opaque = pointer;
  return opaque;
}

void* allocate(std::size_t bytes) {
  void* block = laundered(std::malloc(bytes));
  HAZARD_CHECK(block != nullptr);
  return block;
}

ScenarioEntry::ScenarioEntry(const char* entry_name, ScenarioFunction entry_function)
    : name(entry_name), function(entry_function), next(first_scenario) {
  first_scenario = this;
}

int run_registered_scenario(const char* name) {
  alarm(limit_seconds);
  for (const ScenarioEntry* entry = first_scenario; entry != nullptr; entry = entry->next) {
    if (std::strcmp(entry->name, name) != 0) continue;
    entry->function();
    return 0;
  }
  std::fprintf(stderr, "no scenario is called %s\n", name);
  return 2;
}

}  // namespace terrace::hazards
