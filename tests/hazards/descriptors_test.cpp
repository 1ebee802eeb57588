// The program closes every descriptor, as daemons do and children before exec, the library's among them. With
// the userfaultfd go its registrations, and every evicted page would read as zeroes.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 16 * mib;

void* evicted_block() {
  void* block = allocate(block_bytes);
  fill_pattern(block, block_bytes, 1);
  evict(block, block_bytes);
  return block;
}

void close_one_by_one() {
  rlimit limit{};
  HAZARD_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int end = static_cast<int>(limit.rlim_cur < 65536 ? limit.rlim_cur : 65536);
  for (int fd = 3; fd < end; ++fd) close(fd);
}

void close_by_range() { HAZARD_CHECK(close_range(3, ~0U, 0) == 0); }
void close_from() { closefrom(3); }
void close_by_system_call() { syscall(SYS_close_range, 3U, ~0U, 0U); }

// The open numbers from 3 on, without that of the directory.
std::vector<int> open_numbers() {
  std::vector<int> numbers;
  DIR* directory = opendir("/proc/self/fd");
  HAZARD_CHECK(directory != nullptr);
  while (const dirent* entry = readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    if (fd > 2 && fd != dirfd(directory)) numbers.push_back(fd);
  }
  closedir(directory);
  return numbers;
}

// The program takes the numbers that are free now, while the agent is woken again and again.
void use_numbers_and_wake_the_agent() {
  char path[] = HAZARD_SCRATCH "/descriptors-XXXXXX";
  const int file = mkstemp(path);
  HAZARD_CHECK(file >= 0 && unlink(path) == 0);
  for (int i = 0; i < 40; ++i) HAZARD_CHECK(dup(file) >= 0);
  for (int i = 0; i < 100; ++i) {
    void* block = allocate(4 * mib);
    std::memset(block, 1, 4 * mib);
    HAZARD_CHECK(terrace_advise(block, 4 * mib, TERRACE_ADVISE_PAGE_OUT) == 0);
    std::free(block);
    usleep(1000);
  }
  struct stat status {};
  HAZARD_CHECK(fstat(file, &status) == 0 && status.st_size == 0);
}

// All in turn over one block; what was open of the program's is closed each time.
int close_and_check(void* block) {
  for (void (*close_all)() : {&close_one_by_one, &close_by_range, &close_from}) {
    const int own = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close_all();
    HAZARD_CHECK(fcntl(own, F_GETFD) < 0 && errno == EBADF);
    use_numbers_and_wake_the_agent();
    if (count_wrong_pages(block, block_bytes, 1) != 0) return exit_wrong;
    if (terrace_advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0) quiesce();
  }
  return 0;
}

}  // namespace

HAZARD_TEST(descriptors_closed) {
  require_pager();
  HAZARD_CHECK(close_and_check(evicted_block()) == 0);
}

HAZARD_TEST(descriptors_closed_in_a_child) {
  require_pager();
  void* block = evicted_block();
  HAZARD_CHECK(exited_with(in_forked_child([&] { return close_and_check(block); }), 0));
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
}

// Nothing can be done for the data then, and it must not be taken for zeroes.
HAZARD_SCENARIO(descriptors_closed_by_a_system_call) {
  require_pager();
  void* block = evicted_block();
  close_by_system_call();
  const int number = open("/dev/zero", O_RDWR | O_CLOEXEC);
  while (dup(number) < 8192 && errno != EMFILE) errno = 0;  // every number of ours is the program's now
  sleep(5);                                                 // the agent looks ten times a second
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
}

TEST_CASE("hazard_descriptors_closed_by_a_system_call") {
  for (const std::string& mover : movers()) {
    const Outcome outcome = run_scenario("descriptors_closed_by_a_system_call", {{"TERRACE_MOVER", mover}});
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    INFO(outcome.output);
    CHECK(WIFSIGNALED(outcome.status));
    CHECK(WTERMSIG(outcome.status) == SIGABRT);
    CHECK(outcome.says("closed by a bare system call"));
  }
}

// A child of vfork has a table of its own and the parent's memory.
HAZARD_TEST(descriptors_closed_before_exec) {
  require_pager();
  void* block = evicted_block();
  const std::size_t before = open_numbers().size();
  for (int way = 0; way < 3; ++way) {
    const pid_t child = vfork();
    HAZARD_CHECK(child >= 0);
    if (child == 0) {
      if (way == 0) syscall(SYS_close_range, 3U, ~0U, 0U);
      if (way == 1) close_range(3, ~0U, 0);
      if (way == 2) closefrom(3);
      execl("/bin/sh", "sh", "-c", "test $(ls /proc/self/fd | wc -l) -le 4", nullptr);
      _exit(4);
    }
    HAZARD_CHECK(exited_with(wait_for(child), 0));
    HAZARD_CHECK(open_numbers().size() == before);
    use_numbers_and_wake_the_agent();
    close_by_range();
    HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
    evict(block, block_bytes);
  }
}

HAZARD_TEST(descriptors_are_not_the_programs) {
  require_pager();
  void* block = evicted_block();
  close_by_range();
  const int own = open("/dev/null", O_RDONLY | O_CLOEXEC);
  HAZARD_CHECK(own == 3);
  const std::vector<int> numbers = open_numbers();
  HAZARD_CHECK(numbers.size() > 4);
  for (const int fd : numbers) {
    if (fd == own) continue;
    HAZARD_CHECK(fd > 500);  // the limit on descriptors is 1024 at least
    HAZARD_CHECK(close(fd) == -1 && errno == EBADF);
    HAZARD_CHECK(dup2(own, fd) == -1 && errno == EBADF);
    HAZARD_CHECK(dup3(own, fd, O_CLOEXEC) == -1 && errno == EBADF);
    HAZARD_CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  }
  HAZARD_CHECK(close_range(5, 4, 0) == -1 && errno == EINVAL);
  HAZARD_CHECK(dup2(own, own) == own && dup2(own, 100) == 100 && close(100) == 0 && close(own) == 0);
  HAZARD_CHECK(close(own) == -1 && close(-1) == -1);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
}

}  // namespace terrace::hazards
