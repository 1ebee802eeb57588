// The thread that polls: where another runs, as long as it is told, and at nobody's cost.
#include "liballoc/agent/waiting/halt_poller.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>
#include <vector>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t ms = 1'000'000;

std::vector<int> own_processors() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> processors;
  for (int n = 0; n < CPU_SETSIZE; ++n)
    if (CPU_ISSET(n, &set)) processors.push_back(n);
  return processors;
}

// A thread of the program that stays on one processor and sleeps.
class Sleeper {
 public:
  explicit Sleeper(int processor) {
    thread_ = std::thread([this, processor] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(processor, &set);
      if (::sched_setaffinity(0, sizeof set, &set) != 0) std::abort();
      id_.store(static_cast<std::uint32_t>(::gettid()));
      while (!ends_.load()) ::usleep(1000);
    });
    while (id_.load() == 0) std::this_thread::yield();
  }
  ~Sleeper() {
    ends_.store(true);
    thread_.join();
  }
  std::uint32_t id() const { return id_.load(); }

 private:
  std::atomic<std::uint32_t> id_{0};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

struct StartedPoller {
  explicit StartedPoller(unsigned processors) { poller.start(processors); }
  ~StartedPoller() { poller.stop(); }
  HaltPoller poller;
};

bool comes_true(const std::function<bool()>& condition) {
  const std::uint64_t deadline = os::now_ns() + 20'000 * ms;
  while (!condition()) {
    if (os::now_ns() > deadline) return false;
    ::usleep(200);
  }
  return true;
}

}  // namespace

TEST_CASE("A machine with one processor has no poller") {
  StartedPoller s(1);
  CHECK_FALSE(s.poller.is_there());
  s.poller.poll_beside(1, os::now_ns() + ms);
  CHECK(s.poller.seat() == -1);
}

TEST_CASE("The poller sits on the processor of the thread that it is told, and rests after that") {
  const std::vector<int> processors = own_processors();
  if (processors.size() < 2) return static_cast<void>(std::puts("SKIP: one processor"));
  StartedPoller s(2);
  for (const int processor : {processors[0], processors[1], processors[0]}) {
    const Sleeper sleeper(processor);
    const std::uint64_t before_ns = s.poller.user_ns();
    CHECK(comes_true([&] {
      s.poller.poll_beside(sleeper.id(), os::now_ns() + 50 * ms);
      return s.poller.seat() == processor;
    }));
    CHECK(comes_true([&] { return s.poller.seat() == -1; }));
    const std::uint64_t after_ns = s.poller.user_ns();
    CHECK(after_ns > before_ns);
    ::usleep(20'000);
    CHECK(s.poller.user_ns() == after_ns);
  }
}

TEST_CASE("A thread that has ended is not polled for") {
  StartedPoller s(2);
  std::uint32_t gone = 0;
  std::thread([&] { gone = static_cast<std::uint32_t>(::gettid()); }).join();
  s.poller.poll_beside(gone, os::now_ns() + 60'000 * ms);
  ::usleep(20'000);
  CHECK(s.poller.seat() == -1);
}

TEST_CASE("Whoever wants the poller's processor has it") {
  const std::vector<int> processors = own_processors();
  if (processors.size() < 2) return static_cast<void>(std::puts("SKIP: one processor"));
  StartedPoller s(2);
  const Sleeper sleeper(processors[1]);
  std::uint64_t took_ns = 0;
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processors[1], &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) std::abort();
    const std::uint64_t own_ns = os::thread_ns();
    while (os::thread_ns() - own_ns < 20 * ms) s.poller.poll_beside(sleeper.id(), os::now_ns() + 1000 * ms);
    took_ns = s.poller.user_ns();
  }).join();
  CHECK(took_ns < 5 * ms);
}

TEST_CASE("A forked child has no poller") {
  StartedPoller s(2);
  s.poller.poll_beside(static_cast<std::uint32_t>(::gettid()), os::now_ns() + 100 * ms);
  const pid_t child = ::fork();
  if (child == 0) {
    s.poller.reset_in_child();
    s.poller.poll_beside(static_cast<std::uint32_t>(::gettid()), os::now_ns() + ms);
    ::_exit(s.poller.is_there() || s.poller.seat() != -1 ? 1 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace terrace::liballoc
