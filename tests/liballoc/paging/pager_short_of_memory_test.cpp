// The kernel has no memory to give: what an eviction itself needs is asked for, and refused, before anything
// moves. At the limit of a cgroup a store would wait instead, for the memory that the eviction gives back.
#include <sys/syscall.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/liballoc/paging/pager_fixture.h"
#include "tests/liballoc/wrapped_syscall.h"

namespace {

std::atomic<bool> refuses{false};
std::atomic<int> asked{0};

}  // namespace

long terrace::liballoc::test::on_system_call(long number, const long (&argument)[6]) {
  const bool asks = number == SYS_madvise && argument[2] == os::advice_populate_write &&
                    argument[1] == static_cast<long>(sizeof(PageSums));
  if (!asks) return real_system_call(number, argument);
  ++asked;
  if (!refuses) return real_system_call(number, argument);
  errno = ENOMEM;
  return -1;
}

namespace terrace::liballoc {

TEST_CASE("A run without memory for its sums stays, and leaves when there is some") {
  const MoverKind kind = GENERATE(MoverKind::move, MoverKind::mremap);
  test::DramPager f(kind, 128);
  if (!f.ready()) return;
  refuses = true;
  std::byte* const block = f.allocate_filled(test::block_bytes, 1);
  f.page_out(block);
  CHECK(f.state(block) == RunState::resident);
  CHECK(f.reads(block, 1, test::block_bytes));
  refuses = false;
  f.page_out(block);
  CHECK(f.state(block) == RunState::stored);
  CHECK(f.reads(block, 1, test::block_bytes));
}

TEST_CASE("Memory for sums is asked for when a run arrives, and once") {
  const MoverKind kind = GENERATE(MoverKind::move, MoverKind::mremap);
  test::DramPager f(kind, 128);
  if (!f.ready()) return;
  asked = 0;
  std::byte* const block = f.allocate_filled(test::block_bytes, 1);
  CHECK(asked == test::block_bytes / run_bytes);
  for (int times = 0; times < 2; ++times) {
    f.page_out(block);
    CHECK(f.reads(block, 1, test::block_bytes));
  }
  CHECK(asked == test::block_bytes / run_bytes);
}

}  // namespace terrace::liballoc
