// Threads that touch a run which is not there: they wait, see the bytes, or get SIGBUS.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/liballoc/mover/mover_fixture.h"

namespace terrace::liballoc {

using test::any_kind;
using test::fill;
using test::holds;
using test::in_child;
using test::is_zero;
using test::MoverFixture;
using test::Toucher;

TEST_CASE("A touch of a taken run waits until it is put back, then sees the bytes") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  REQUIRE(f.take(0) == 0);
  std::atomic<bool> right{false};
  Toucher toucher([&] { right = holds(f.run(0), 1); });
  Fault fault{};
  REQUIRE(f.await_fault(&fault));
  CHECK(fault.address >= f.run(0));
  CHECK(fault.address < f.run(0) + run_bytes);
  CHECK_FALSE(toucher.done());
  REQUIRE(f.put(0) == 0);
  toucher.join();
  CHECK(right);
}

TEST_CASE("A write to a taken run waits until it is put back and is not lost") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  REQUIRE(f.take(0) == 0);
  Toucher toucher([&] { fill(f.run(0), 2, os::page_bytes); });
  Fault fault{};
  REQUIRE(f.await_fault(&fault));
  CHECK(holds(f.frame(0), 1));
  REQUIRE(f.put(0) == 0);
  toucher.join();
  CHECK(holds(f.run(0), 2, os::page_bytes));
  const auto* words = reinterpret_cast<const std::uint64_t*>(f.run(0));
  CHECK(words[512] == test::word_of(1, 512));
}

TEST_CASE("Many threads wait for the same run and all see it") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  REQUIRE(f.take(0) == 0);
  std::atomic<int> right{0};
  {
    std::thread threads[8];
    for (auto& thread : threads) thread = std::thread([&] { right += holds(f.run(0), 1) ? 1 : 0; });
    Fault fault{};
    CHECK(f.await_fault(&fault));
    CHECK(f.put(0) == 0);
    for (auto& thread : threads) thread.join();
  }
  CHECK(right == 8);
}

TEST_CASE("A poisoned run raises SIGBUS, a healed one is empty memory again") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  REQUIRE(f.back(1, 2) == 0);
  REQUIRE(f.mover.poison(f.run(0)) == 0);
  const auto touch = [&] {
    ::signal(SIGBUS, SIG_DFL);  // the sanitizers' handler would turn it into an exit status
    return static_cast<int>(*static_cast<volatile std::byte*>(f.run(0))) & 0;
  };
  CHECK(in_child(touch) == 200 + SIGBUS);
  CHECK(holds(f.run(1), 2));
  REQUIRE(f.mover.heal(f.run(0)) == 0);
  CHECK(test::resident_pages(f.run(0)) == 0);
  std::atomic<bool> zero{false};
  Toucher toucher([&] { zero = is_zero(f.run(0), os::page_bytes); });
  Fault fault{};
  REQUIRE(f.await_fault(&fault));
  CHECK(f.mover.zero_page(fault.address) == 0);
  toucher.join();
  CHECK(zero);
}

// A program may close every number with bare system calls, and open something else in its place.
TEST_CASE("What has taken the place of the userfaultfd tells of no fault and is not read for ever") {
  const MoverKind kind = any_kind();
  CHECK(in_child([&] {
          auto* const f = new MoverFixture(kind);  // what it would close is not its own any more
          if (!f->ready()) return 0;
          const int endless = open("/dev/zero", O_RDONLY | O_CLOEXEC);
          if (dup2(endless, f->mover.fd()) < 0) return 1;
          alarm(10);
          Fault fault{};
          return f->mover.next_fault(&fault) ? 2 : 0;
        }) == 0);
}

TEST_CASE("A thread that waits for a run that is poisoned gets SIGBUS") {
  const MoverKind kind = any_kind();
  CHECK(in_child([&] {
          MoverFixture f(kind);
          if (!f.ready()) return 0;
          ::signal(SIGBUS, [](int) { ::_exit(0); });
          if (f.back(0, 1) != 0 || f.take(0) != 0) return 2;
          Toucher toucher([&] { fill(f.run(0), 2); });
          Fault fault{};
          if (!f.await_fault(&fault) || f.mover.poison(f.run(0)) != 0) return 3;
          toucher.join();
          return 4;
        }) == 0);
}

TEST_CASE("A range that is not watched any more faults to the kernel") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.mover.unwatch(f.run(4), run_bytes) == 0);
  CHECK(is_zero(f.run(4), os::page_bytes));
}

}  // namespace terrace::liballoc
