// A program with as many mappings as it may have (vm.max_map_count): the kernel then refuses to set a run
// apart from its neighbours, to hide it from forked children or to show it to them again.
//
// The linker's --wrap sends every system call here first: it is refused as the kernel does it, but where and
// when a test says so.
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/liballoc/captured_stderr.h"
#include "tests/liballoc/pager_fixture.h"
#include "tests/liballoc/wrapped_syscall.h"

namespace {

std::atomic<int> refused_advice{-1};

}  // namespace

long terrace::liballoc::test::on_system_call(long number, const long (&argument)[6]) {
  if (number == SYS_madvise && argument[1] == terrace::liballoc::run_bytes && argument[2] == refused_advice) {
    errno = ENOMEM;
    return -1;
  }
  return real_system_call(number, argument);
}

namespace terrace::liballoc {
namespace {

using test::DramPager;

class Refusal {
 public:
  explicit Refusal(int advice) { refused_advice = advice; }
  ~Refusal() { refused_advice = -1; }
};

template <typename Body>
int in_fork(DramPager& f, Body body) {
  f.pager.prepare_fork(1'000'000);
  LockGuard guard(f.lock);
  f.pager.seal_for_fork();
  const int result = test::in_child([&] {
    f.pager.after_fork_in_child();
    return body();
  });
  f.pager.after_fork_in_parent(true);
  return result;
}

// Brings an evicted block back while the kernel refuses to show it to children.
std::byte* block_that_stays_hidden(DramPager& f) {
  std::byte* const block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  REQUIRE(f.state(block) == RunState::stored);
  const Refusal refusal(MADV_DOFORK);
  REQUIRE(f.reads(block, 1));
  REQUIRE(f.state(block) == RunState::resident);
  return block;
}

}  // namespace

TEST_CASE("What could not be shown to children as it came back is shown at the next fork") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = block_that_stays_hidden(f);
  for (int round = 0; round < 2; ++round)
    CHECK(in_fork(f, [&] { return test::holds(block, 1) ? 0 : 1; }) == 0);
  f.page_out(block);
  CHECK(f.reads(block, 1));
  f.check();
}

// No page rather than one of zeroes, and the parent says so.
TEST_CASE("What cannot be shown to a child is lost to it") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = block_that_stays_hidden(f);
  std::byte* const other = f.allocate_filled(run_bytes, 2);
  const Refusal refusal(MADV_DOFORK);
  test::CapturedStderr captured;
  CHECK(in_fork(f, [&] { return f.state(block) == RunState::lost && test::holds(other, 2) ? 0 : 1; }) == 0);
  CHECK_THAT(captured.text(), Catch::Matchers::Contains("a forked child does not get 2.0 MiB"));
  CHECK(f.reads(block, 1));
}

TEST_CASE("A freed run that stays hidden is none to a child") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = block_that_stays_hidden(f);
  f.release(block);
  const Refusal refusal(MADV_DOFORK);
  test::CapturedStderr captured;
  CHECK(in_fork(f, [&] { return f.state(block) == RunState::empty && test::is_zero(block) ? 0 : 1; }) == 0);
  CHECK(captured.text().empty());
}

// A child of a bare clone would read zeroes instead.
TEST_CASE("What cannot be hidden from children does not leave, and it is said once") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* const block = f.allocate_filled(2 * run_bytes, 1);
  {
    const Refusal refusal(MADV_DONTFORK);
    test::CapturedStderr captured;
    f.page_out(block, 2 * run_bytes);
    f.page_out(block, 2 * run_bytes);
    const std::string text = captured.text();
    CHECK_THAT(text, Catch::Matchers::Contains("vm.max_map_count"));
    CHECK(text.find("terrace: ") == text.rfind("terrace: "));
  }
  CHECK(f.state(block) == RunState::resident);
  CHECK(f.statistics().evictions == 0);
  CHECK(in_fork(f, [&] { return test::holds(block, 1, 2 * run_bytes) ? 0 : 1; }) == 0);
  f.page_out(block, 2 * run_bytes);
  CHECK(f.state(block) == RunState::stored);
  CHECK(f.reads(block, 1, 2 * run_bytes));
  f.check();
}

}  // namespace terrace::liballoc
