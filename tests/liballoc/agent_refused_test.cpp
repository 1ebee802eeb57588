// What the agent needs is refused halfway: no touch of memory may then wait for an agent that is not there.
//
// There is one heap in a process, so each test has it in a forked child, which a signal ends if it hangs. The
// linker's --wrap sends system calls and pthread_create() here first.
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "liballoc/heap/heap.h"
#include "tests/liballoc/captured_stderr.h"
#include "tests/liballoc/support.h"
#include "tests/liballoc/wrapped_syscall.h"

namespace {

std::atomic<bool> watches_half{false};
std::atomic<bool> refuses_threads{false};

bool is_of_heap(const uffdio_register& request) {
  const std::uint64_t offset = request.range.start - terrace::liballoc::heap().base();
  return offset < terrace::liballoc::heap().span();
}

}  // namespace

extern "C" {

int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                          void* argument);

int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                          void* argument) {
  return refuses_threads ? EAGAIN : __real_pthread_create(thread, attributes, body, argument);
}

}  // extern "C"

long terrace::liballoc::test::on_system_call(long number, const long (&argument)[6]) {
  const bool registers = number == SYS_ioctl && static_cast<unsigned long>(argument[1]) == UFFDIO_REGISTER;
  if (registers && watches_half) {
    auto* const request = reinterpret_cast<uffdio_register*>(argument[2]);  // NOLINT: what the caller gave
    if (is_of_heap(*request)) {  // as where a range is several mappings, and the kernel runs out of them
      request->range.len /= 2;
      __real_syscall(number, argument[0], argument[1], argument[2]);
      errno = ENOMEM;
      return -1;
    }
  }
  return real_system_call(number, argument);
}

namespace terrace::liballoc {
namespace {

using test::mib;

constexpr std::size_t block_bytes = 8 * mib;
constexpr int no_pager = 77;

std::byte* new_block(std::uint64_t seed) {
  auto* block = static_cast<std::byte*>(heap().allocate(block_bytes, run_bytes, nullptr, false));
  if (block == nullptr) std::abort();
  test::fill(block, seed, block_bytes);
  return block;
}

void start_heap() {
  Options options;
  options.dram_bytes = 256 * mib;
  options.pool_bytes = 512 * mib;
  options.pool_directories.read(TERRACE_TEST_POOL_DIR);
  if (heap().initialise(options) != 0) std::abort();
}

bool is_stored(const std::byte* block) {
  InsideGate gate(heap().guarded());
  const std::uint32_t first = heap().pager().runs().heap().run_of(block);
  bool stored = true;
  for (std::uint32_t n = first; n < first + block_bytes / run_bytes; ++n)
    stored &= heap().pager().run(n).state == RunState::stored;
  return stored;
}

void evict(const std::byte* block) {
  while (!is_stored(block)) {
    if (heap().advice().advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT) != 0) std::abort();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// What a child, to which the parent's evicted block cannot be served, ends with.
template <typename Body>
int in_child_without_a_thread(Body body) {
  return test::in_child([&] {
    start_heap();
    std::byte* const evicted = new_block(1);
    if (!heap().agent().take_over().ensure_paging()) return no_pager;
    evict(evicted);
    refuses_threads = true;
    const int result = test::in_child([&] { return body(evicted); });
    return test::holds(evicted, 1, block_bytes) ? result : 1;
  });
}

void report_skip() { std::printf("SKIP: no pager here\n"); }

}  // namespace

TEST_CASE("A heap of which only a part could be watched is plain memory") {
  CHECK(test::in_child([&] {
          watches_half = true;
          start_heap();
          std::byte* const block = new_block(1);
          return !heap().agent().take_over().ensure_paging() && test::holds(block, 1, block_bytes) ? 0 : 1;
        }) == 0);
}

TEST_CASE("A child in which no thread can be started has memory of its own all the same, and is told why") {
  test::CapturedStderr captured;
  const int result = in_child_without_a_thread([](const std::byte*) {
    std::byte* const block = new_block(2);
    const int grandchild = test::in_child([&] { return test::holds(block, 2, block_bytes) ? 0 : 1; });
    return test::holds(block, 2, block_bytes) ? grandchild : 1;
  });
  const std::string text = captured.text();
  if (result == no_pager) return report_skip();
  CHECK(result == 0);
  CHECK_THAT(text, Catch::Matchers::Contains("no thread can be started"));
}

TEST_CASE("A child in which no thread can be started dies of a touch of what was evicted") {
  const int result = in_child_without_a_thread([](const std::byte* evicted) {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer has its own
    return static_cast<int>(*static_cast<const volatile std::byte*>(evicted)) & 1;
  });
  if (result == no_pager) return report_skip();
  CHECK(result == 200 + SIGSEGV);
}

}  // namespace terrace::liballoc
