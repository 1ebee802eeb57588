// What the pager has in hand when the program forks.
#include <fcntl.h>

#include <catch2/catch.hpp>

#include "tests/liballoc/captured_stderr.h"
#include "tests/liballoc/paging/pager_fixture.h"

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
    f.pager.forking().prepare(1'000'000);
    f.release(block);  // by another thread, before the fork takes the heap's lock
    f.pager.follow_blocks();
    f.pager.forking().seal();
    f.pager.forking().after_in_parent(false);
  }
  CHECK(open_descriptors() == before);
}

// The write that was under way is its parent's alone, and the tier counts it.
TEST_CASE("A child that is left without a pager leaks no descriptor when it forks") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  f.balance();
  REQUIRE(f.state(block) == RunState::writing);
  const bool is_counted = f.workers.given() == 0;  // else a worker has it, and not the tier yet
  {
    f.pager.follow_blocks();
    f.pager.forking().seal();
    CHECK(test::in_child([&] {
            if (f.pager.forking().after_in_child()) return 2;
            if (is_counted && f.pager.extents().used_bytes() == 0) return 3;
            const int before = open_descriptors();
            f.pager.forking().seal();
            f.pager.forking().after_in_parent(true);
            return open_descriptors() == before ? 0 : 1;
          }) == 0);
    f.pager.forking().after_in_parent(true);
  }
  f.finish_transfers();
  f.check();
}

TEST_CASE("Nothing is on its way out when a fork happens, whatever was advised meanwhile") {
  DramPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(2 * run_bytes, 1);
  f.advise(block, run_bytes, TERRACE_ADVISE_COLD);
  f.pager.forking().prepare(1'000'000);
  CHECK(f.state(block) == RunState::resident);
  f.advise(block, 2 * run_bytes, TERRACE_ADVISE_COLD);  // another thread, before the fork takes the lock
  {
    f.pager.follow_blocks();
    f.pager.forking().seal();
    CHECK(f.state(block) == RunState::resident);
    CHECK(f.state(block + run_bytes) == RunState::resident);
    CHECK(test::in_child([&] { return test::holds(block, 1, 2 * run_bytes) ? 0 : 1; }) == 0);
    f.pager.forking().after_in_parent(true);
  }
  f.check();
}

// It is in its frame, and frames are kept from children.
TEST_CASE("What the kernel refuses to put back goes to a child all the same") {
  DramPager f(MoverKind::move);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  std::byte* const page = block + 37 * os::page_bytes;
  REQUIRE(os::unmap(page, os::page_bytes) == 0);
  test::CapturedStderr captured;
  f.advise(block, run_bytes, TERRACE_ADVISE_WILL_NEED);
  f.settle();
  f.pager.handle_fault({.address = block, .write_protected = false});
  REQUIRE(f.state(block) == RunState::staged);
  f.pager.forking().prepare(1'000'000);
  f.pager.follow_blocks();
  f.pager.forking().seal();
  CHECK(test::in_child([&] {
          f.pager.forking().after_in_child();
          return test::holds(block, 1) ? 0 : 1;
        }) == 0);
  f.pager.forking().after_in_parent(true);
  REQUIRE(os::map_anonymous(os::page_bytes, PROT_READ | PROT_WRITE, page) != nullptr);
  REQUIRE(f.mover.watch(page, os::page_bytes) == 0);
}

}  // namespace terrace::liballoc
