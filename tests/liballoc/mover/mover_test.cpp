// Taking pages out from under an address and putting them back, in each way that the machine has.
#include "liballoc/paging/mover/mover.h"

#include <liburing.h>
#include <linux/userfaultfd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/liballoc/mover/mover_fixture.h"

namespace terrace::liballoc {

using test::any_kind;
using test::fill;
using test::holds;
using test::in_child;
using test::is_zero;
using test::MoverFixture;
using test::touch_one_page;
using test::Toucher;

TEST_CASE("Take then put keeps the bytes") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  CHECK(holds(f.run(0), 1));
  for (int round = 0; round < 3; ++round) {
    REQUIRE(f.take(0) == 0);
    CHECK(test::resident_pages(f.run(0)) == 0);
    CHECK(holds(f.frame(0), 1));
    REQUIRE(f.put(0) == 0);
    CHECK(test::resident_pages(f.frame(0)) == 0);
    CHECK(holds(f.run(0), 1));
  }
}

TEST_CASE("Neighbours of a taken run stay as they are") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  for (std::size_t i = 0; i < 3; ++i) REQUIRE(f.back(i, i) == 0);
  REQUIRE(f.take(1) == 0);
  CHECK(holds(f.run(0), 0));
  CHECK(holds(f.run(2), 2));
  REQUIRE(f.put(1) == 0);
  CHECK(holds(f.run(1), 1));
}

TEST_CASE("A run goes back to another frame's address") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  REQUIRE(f.take(0) == 0);
  bool keeps = false;
  REQUIRE(f.mover.put(f.frame(0), f.run(3), &keeps) == 0);
  CHECK_FALSE(keeps);
  CHECK(holds(f.run(3), 1));
}

TEST_CASE("Memory from before paging began can be taken") {
  MoverFixture f(any_kind(), [](std::byte* heap) { fill(heap, 3); });
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.take(0) == 0);
  CHECK(holds(f.frame(0), 3));
  REQUIRE(f.put(0) == 0);
  CHECK(holds(f.run(0), 3));
}

TEST_CASE("Holes in a run read as zero after its way out and back") {
  const std::size_t page = GENERATE(0, 7, 511);
  const MoverKind kind = any_kind();
  CHECK(in_child([&] {  // in a child: a mover that waits for itself ends by the child's alarm
          MoverFixture f(kind, [&](std::byte* heap) { touch_one_page(heap, page); });
          if (!f.ready()) return 0;
          if (f.take(0) != 0) return 2;
          if (!holds(f.frame(0) + page * os::page_bytes, 5, os::page_bytes)) return 3;
          if (f.put(0) != 0) return 4;
          const std::byte* run = f.run(0);
          if (!holds(run + page * os::page_bytes, 5, os::page_bytes)) return 5;
          std::atomic<bool> zero{false};
          Toucher toucher([&] {
            zero = is_zero(run, page * os::page_bytes) &&
                   is_zero(run + (page + 1) * os::page_bytes, (511 - page) * os::page_bytes);
          });
          while (!toucher.done()) {
            Fault fault{};
            pollfd waiting{f.mover.fd(), POLLIN, 0};
            if (::poll(&waiting, 1, 1) == 1 && f.mover.next_fault(&fault)) f.mover.zero_page(fault.address);
          }
          return zero ? 0 : 6;
        }) == 0);
}

TEST_CASE("A run that was never touched can be taken and is zero") {
  const MoverKind kind = any_kind();
  CHECK(in_child([&] {
          MoverFixture f(kind);
          if (!f.ready()) return 0;
          if (f.take(0) != 0) return 2;
          return is_zero(f.frame(0)) ? 0 : 3;
        }) == 0);
}

TEST_CASE("A page that is missing where there can be no hole is told, and the rest stays") {
  MoverFixture f(MoverKind::move);
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t missing = 53;
  REQUIRE(f.back(0, 1) == 0);
  REQUIRE(os::advise(f.run(0) + missing * os::page_bytes, os::page_bytes, MADV_DONTNEED) == 0);
  CHECK_FALSE(Mover::has_page(f.run(0) + missing * os::page_bytes));
  CHECK(f.take(0, false) == ENOENT);
  CHECK(test::resident_pages(f.run(0)) == run_bytes / os::page_bytes - 1);
  CHECK(Mover::has_page(f.run(0) + (missing - 1) * os::page_bytes));
  REQUIRE(f.back(1, 2) == 0);
  CHECK(f.take(1, false) == 0);
  CHECK(holds(f.frame(1), 2));
}

TEST_CASE("Without MADV_POPULATE_WRITE (before Linux 5.14) fresh frames are touched") {
  const MoverKind kind = any_kind();
  CHECK(in_child([&] {
          MoverFixture f(kind);
          if (!f.ready()) return 0;
          if (!test::deny_advice(os::advice_populate_write, EINVAL)) return 2;
          if (f.back(0, 1) != 0 || !holds(f.run(0), 1)) return 3;
          return test::resident_pages(f.run(0)) == run_bytes / os::page_bytes ? 0 : 4;
        }) == 0);
}

// Moved out again, it would leave a mapping that reads as zeroes to whoever touches it.
TEST_CASE("A run that the kernel refuses to watch again is put all the same, and stays where it is") {
  CHECK(in_child([&] {
          MoverFixture f(MoverKind::mremap);
          if (!f.ready()) return 0;
          if (f.back(0, 1) != 0 || f.back(1, 2) != 0 || f.take(0) != 0) return 2;
          if (!test::deny_call(SYS_ioctl, 1, UFFDIO_REGISTER, ENOMEM)) return 3;
          if (f.put(0) != 0 || !holds(f.run(0), 1)) return 4;
          if (f.try_take(0) != EBUSY || !holds(f.run(0), 1)) return 5;
          return f.mover.watch_again(f.run(0)) == ENOMEM && holds(f.run(1), 2) ? 0 : 6;
        }) == 0);
}

TEST_CASE("Huge pages survive the way out and back") {
  MoverFixture f(GENERATE(MoverKind::move, MoverKind::mremap));
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  if (test::huge_bytes(f.run(0)) != run_bytes) {
    std::printf("SKIP: no huge page is to be had here\n");
    return;
  }
  REQUIRE(f.take(0) == 0);
  REQUIRE(f.put(0) == 0);
  CHECK(test::huge_bytes(f.run(0)) == run_bytes);
  CHECK(holds(f.run(0), 1));
}

TEST_CASE("A run pinned for DMA is refused under move, its content intact") {
  MoverFixture f(MoverKind::move);
  if (!f.ready()) return;
  REQUIRE(f.back(0, 1) == 0);
  io_uring ring{};
  if (const int error = ::io_uring_queue_init(4, &ring, 0); error != 0) {
    std::printf("SKIP: io_uring is not available, errno %d\n", -error);
    return;
  }
  const std::size_t pinned = GENERATE(std::size_t{os::page_bytes}, run_bytes);
  const iovec buffer{f.run(0) + run_bytes - pinned, pinned};
  REQUIRE(::io_uring_register_buffers(&ring, &buffer, 1) == 0);
  CHECK(f.try_take(0) == EBUSY);
  CHECK(holds(f.run(0), 1));
  CHECK(test::resident_pages(f.run(0)) == run_bytes / os::page_bytes);
  // The device still sees what the program writes.
  fill(f.run(0), 2);
  CHECK(f.try_take(0) == EBUSY);
  CHECK(holds(f.run(0), 2));
  ::io_uring_unregister_buffers(&ring);
  ::io_uring_queue_exit(&ring);
  // Unpinned, it can go.
  REQUIRE(f.take(0) == 0);
  CHECK(holds(f.frame(0), 2));
  REQUIRE(f.put(0) == 0);
  CHECK(holds(f.run(0), 2));
}

TEST_CASE("A mover that is closed has no descriptors and no kind") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  f.mover.close();
  CHECK(f.mover.fd() == -1);
  CHECK(std::string(f.mover.name()) == "none");
}

TEST_CASE("Automatic takes the best way this kernel has") {
  MoverFixture best(MoverKind::automatic);
  if (!best.ready()) return;
  Mover move;
  const bool can_move = move.open(MoverKind::move, -1) == 0;
  if (can_move) move.close();
  CHECK(best.mover.kind() == (can_move ? MoverKind::move : MoverKind::mremap));
}

}  // namespace terrace::liballoc
