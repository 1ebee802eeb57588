// Threads, signals and ends: many threads at one missing run, a job that is stopped, killed, or leaves
// through exit while its pages are on the move.
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 32 * mib;

// What the handler reads, and how often it has.
const unsigned char* handler_block = nullptr;
std::atomic<unsigned> handler_reads{0};

void read_in_handler(int) {
  for (std::size_t page = 0; page < run_bytes / page_bytes; page += 128) {
    if (!page_is_right(handler_block + page * page_bytes, 1, page)) _exit(exit_wrong);
  }
  ++handler_reads;
}

// With every signal blocked: the handler is to run in the thread that allocates.
std::thread without_signals(const std::function<void()>& body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread thread(body);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

void* filled(std::size_t bytes, std::uint64_t seed) {
  void* block = allocate(bytes);
  fill_pattern(block, bytes, seed);
  return block;
}

// Unlinked files below `directory` that some process holds open.
int count_deleted_files(const std::string& directory) {
  int count = 0;
  DIR* processes = opendir("/proc");
  while (const dirent* process = readdir(processes)) {
    const std::string folder = std::string("/proc/") + process->d_name + "/fd";
    DIR* descriptors = std::atoi(process->d_name) > 0 ? opendir(folder.c_str()) : nullptr;
    if (descriptors == nullptr) continue;
    while (const dirent* fd = readdir(descriptors)) {
      char target[PATH_MAX] = {};
      if (readlink((folder + "/" + fd->d_name).c_str(), target, sizeof target - 1) <= 0) continue;
      if (std::strncmp(target, directory.c_str(), directory.size()) == 0) ++count;
    }
    closedir(descriptors);
  }
  closedir(processes);
  return count;
}

}  // namespace

HAZARD_TEST(threads_fault_same_run) {
  require_pager();
  constexpr int threads = 16;
  auto* block = static_cast<unsigned char*>(filled(block_bytes, 1));
  for (int round = 0; round < 15; ++round) {
    evict(block, block_bytes);
    pthread_barrier_t together;
    HAZARD_CHECK(pthread_barrier_init(&together, nullptr, threads) == 0);
    std::vector<std::thread> readers;
    readers.reserve(threads);
    for (int t = 0; t < threads; ++t) {
      readers.emplace_back([&, t] {
        pthread_barrier_wait(&together);
        for (std::size_t n = t; n < block_bytes / page_bytes; n += threads) {
          HAZARD_CHECK(page_is_right(block + n * page_bytes, round + 1, n));
          fill_page(block + n * page_bytes, round + 2, n);
        }
      });
    }
    for (std::thread& reader : readers) reader.join();
    pthread_barrier_destroy(&together);
    HAZARD_CHECK(count_wrong_pages(block, block_bytes, round + 2) == 0);
  }
}

// Pages leave and come back for about two seconds of work.
HAZARD_SCENARIO(churn_for_a_while) {
  require_pager();
  void* first = filled(block_bytes, 1);
  void* second = filled(block_bytes, 2);
  for (int round = 0; round < 30; ++round) {
    HAZARD_CHECK(terrace_advise(first, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
    HAZARD_CHECK(count_wrong_pages(second, block_bytes, 2) == 0);
    HAZARD_CHECK(terrace_advise(second, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
    HAZARD_CHECK(count_wrong_pages(first, block_bytes, 1) == 0);
  }
}

// A handler may touch any memory, and the thread that it interrupts may be inside malloc or fork.
HAZARD_TEST(signal_handler_touches_evicted_data) {
  require_pager();
  handler_block = static_cast<unsigned char*>(filled(run_bytes, 1));
  struct sigaction action {};
  action.sa_handler = &read_in_handler;
  action.sa_flags = SA_RESTART;
  HAZARD_CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  std::atomic<bool> done{false};
  const pthread_t self = pthread_self();
  std::thread evictor = without_signals([&] {
    while (!done) {
      terrace_advise(handler_block, run_bytes, TERRACE_ADVISE_PAGE_OUT);
      usleep(200);
    }
  });
  std::thread sender = without_signals([&] {
    while (!done) {
      pthread_kill(self, SIGUSR1);
      usleep(100);
    }
  });
  for (int i = 0; handler_reads < 3000; ++i) {
    std::free(allocate(mib));
    if (i % 500 == 0) HAZARD_CHECK(exited_with(in_forked_child([] { return 0; }), 0));
  }
  done = true;
  evictor.join();
  sender.join();
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  for (int number = 1; number < SIGRTMAX; ++number) HAZARD_CHECK(sigismember(&blocked, number) != 1);
}

namespace {

// A timer of 1 kHz whose signal any thread may get that does not block it.
timer_t started_timer(int signal) {
  timer_t timer{};
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = signal;
  HAZARD_CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  const itimerspec each{{0, 1'000'000}, {0, 1'000'000}};
  HAZARD_CHECK(timer_settime(timer, 0, &each, nullptr) == 0);
  return timer;
}

// Sizes on either side of the threshold, fresh and recycled, grown and zeroed.
void use_malloc(unsigned i) {
  constexpr std::size_t sizes[] = {100, 100'000, 300'000, mib, 5 * mib};
  const std::size_t bytes = sizes[i % 5];
  auto* block = static_cast<unsigned char*>(i % 3 == 0 ? std::calloc(1, bytes) : std::malloc(bytes));
  HAZARD_CHECK(block != nullptr);
  block[bytes / 2] = 1;
  block = static_cast<unsigned char*>(laundered(std::realloc(block, bytes * 2)));
  HAZARD_CHECK(block != nullptr && block[bytes / 2] == 1);
  std::free(block);
}

}  // namespace

// For two seconds or so. A handler that waits for a thread which it has interrupted ends by the alarm.
HAZARD_TEST(timer_handler_touches_evicted_data_inside_malloc) {
  require_pager();
  alarm(15);
  handler_block = static_cast<unsigned char*>(filled(run_bytes, 1));
  struct sigaction action {};
  action.sa_handler = &read_in_handler;
  action.sa_flags = SA_RESTART;
  HAZARD_CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  std::atomic<bool> done{false};
  std::thread evictor = without_signals([&] {
    while (!done) {
      terrace_advise(handler_block, run_bytes, TERRACE_ADVISE_PAGE_OUT);
      usleep(200);
    }
  });
  const timer_t timer = started_timer(SIGUSR1);
  for (unsigned i = 0; handler_reads < 2000; ++i) use_malloc(i);
  timer_delete(timer);
  done = true;
  evictor.join();
  HAZARD_CHECK(statistics().evictions > 0);
}

TEST_CASE("hazard_sigstop_sigcont") {
  for (const std::string& mover : movers()) {
    Job job("churn_for_a_while", {{"TERRACE_MOVER", mover}});
    std::minstd_rand random(7);
    while (job.is_running()) {
      job.send_signal(SIGSTOP);
      usleep(static_cast<useconds_t>(1000 + random() % 20'000));
      job.send_signal(SIGCONT);
      usleep(static_cast<useconds_t>(1000 + random() % 50'000));
    }
    const Outcome outcome = job.wait();
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK(outcome.held());
  }
}

HAZARD_SCENARIO(evict_and_wait) {
  require_pager();
  void* first = filled(2 * block_bytes, 1);
  void* second = filled(2 * block_bytes, 2);
  evict(first, 2 * block_bytes);
  HAZARD_CHECK(terrace_advise(second, 2 * block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
  std::puts("evicting");
  std::fflush(stdout);
  pause();
}

TEST_CASE("hazard_sigkill_job_frees_space") {
  for (const std::string& mover : movers()) {
    const ScratchDirectory pool;
    Job job("evict_and_wait", {{"TERRACE_MOVER", mover}, {"TERRACE_POOL_DIR", pool.path()}});
    if (!job.wait_for_output("evicting")) {
      const Outcome outcome = job.wait();
      INFO(outcome.output);
      if (outcome.skipped) return report_skip(outcome.skip_reason());
      FAIL("the job ended early");
    }
    CHECK(count_deleted_files(pool.path()) > 0);
    job.send_signal(SIGKILL);
    const Outcome outcome = job.wait();
    CHECK((WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGKILL));
    CHECK(count_deleted_files(pool.path()) == 0);
    CHECK(rmdir(pool.path().c_str()) == 0);  // nothing was left by name either
  }
}

namespace {

void* checked_at_exit = nullptr;

void check_at_exit() { HAZARD_CHECK(count_wrong_pages(checked_at_exit, block_bytes, 1) == 0); }

}  // namespace

// Leaves through exit (handlers still use the heap), _exit, or the end of the main thread's work in another
// thread, with writes in flight. The exit status is the program's.
HAZARD_TEST(exit_while_evicting) {
  require_pager();
  for (int round = 0; round < 12; ++round) {
    const int status = in_forked_child([&] {
      execl(HAZARD_PROGRAM, HAZARD_PROGRAM, "--scenario", "exit_now", nullptr);
      return 2;
    });
    HAZARD_CHECK(exited_with(status, 42));
    HAZARD_CHECK(setenv("HAZARD_ROUND", std::to_string(round + 1).c_str(), 1) == 0);
  }
}

HAZARD_SCENARIO(exit_now) {
  const char* text = std::getenv("HAZARD_ROUND");
  const int round = text != nullptr ? std::atoi(text) : 0;
  checked_at_exit = filled(block_bytes, 1);
  void* other = filled(2 * block_bytes, 2);
  HAZARD_CHECK(terrace_advise(other, 2 * block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
  HAZARD_CHECK(terrace_advise(checked_at_exit, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
  usleep(static_cast<useconds_t>(round) * 3000);
  if (round % 3 == 0) _exit(42);
  HAZARD_CHECK(std::atexit(&check_at_exit) == 0);
  if (round % 3 == 1) std::exit(42);
  std::thread([] { std::exit(42); }).detach();
  pause();
}

}  // namespace terrace::hazards
