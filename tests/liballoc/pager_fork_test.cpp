// What the pager has in hand when the program forks.
#include <fcntl.h>

#include <catch2/catch.hpp>

#include "tests/liballoc/pager_fixture.h"

namespace terrace::liballoc {
namespace {

using test::DramPager;

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("A fork just before which the last stored block is freed leaks no descriptor") {
  DramPager f(MoverKind::mremap);
  if (!f.ready()) return;
  const int before = open_descriptors();
  for (int round = 0; round < 3; ++round) {
    std::byte* block = f.allocate_filled(run_bytes, 1);
    f.page_out(block);
    REQUIRE(f.state(block) == RunState::stored);
    f.pager.prepare_fork(1'000'000);
    f.release(block);  // by another thread, before the fork takes the heap's lock
    LockGuard guard(f.lock);
    f.pager.seal_for_fork();
    f.pager.after_fork_in_parent(false);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("Nothing is on its way out when a fork happens, whatever was advised meanwhile") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(2 * run_bytes, 1);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  f.pager.prepare_fork(1'000'000);
  CHECK(f.state(block) == RunState::resident);
  f.advise(block, 2 * run_bytes, TERRACE_ADVISE_COLD);  // another thread, before the fork takes the lock
  {
    LockGuard guard(f.lock);
    f.pager.seal_for_fork();
    CHECK(f.state(block) == RunState::resident);
    CHECK(f.state(block + run_bytes) == RunState::resident);
    CHECK(test::in_child([&] { return test::holds(block, 1, 2 * run_bytes) ? 0 : 1; }) == 0);
    f.pager.after_fork_in_parent(true);
  }
  f.check();
}

}  // namespace terrace::liballoc
