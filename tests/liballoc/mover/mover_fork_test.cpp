// Pages that a forked child shares: taken or refused, and right on both sides.
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/liballoc/mover/mover_fixture.h"

namespace terrace::liballoc {
namespace {

using test::any_kind;
using test::fill;
using test::holds;
using test::in_child;
using test::MoverFixture;
using test::touch_one_page;

// A child that reads run 0 when told, and says whether the bytes were right.
class Reader {
 public:
  Reader(const std::byte* run, std::uint64_t seed) {
    if (::pipe2(ends_, O_CLOEXEC) != 0) std::abort();
    pid_ = test::start_child([&] {
      char order = 0;
      if (::read(ends_[0], &order, 1) != 1) return 2;
      return holds(run, seed) ? 0 : 1;
    });
  }
  ~Reader() {
    for (const int end : ends_) ::close(end);
  }
  int result() {
    if (::write(ends_[1], "x", 1) != 1) std::abort();
    return test::result_of(pid_);
  }

 private:
  int ends_[2] = {-1, -1};
  pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("A run with holes that a child shares can be taken or is refused") {
  const MoverKind kind = any_kind();
  CHECK(in_child([&] {
          MoverFixture f(kind, [](std::byte* heap) { touch_one_page(heap, 3); });
          if (!f.ready()) return 0;
          const pid_t child = test::start_child([] { return ::pause(); });
          const int error = f.try_take(0);
          if (error == 0 && f.put(0) != 0) return 2;
          ::kill(child, SIGKILL);
          test::result_of(child);
          return holds(f.run(0) + 3 * os::page_bytes, 5, os::page_bytes) ? 0 : 3;
        }) == 0);
}

TEST_CASE("A run shared with a forked child goes out and back, and both see the right bytes") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  Reader child(f.run(0), 1);
  REQUIRE(f.take(0) == 0);
  CHECK(holds(f.frame(0), 1));
  REQUIRE(f.put(0) == 0);
  CHECK(holds(f.run(0), 1));
  fill(f.run(0), 2);  // must not reach the child
  CHECK(child.result() == 0);
  CHECK(holds(f.run(0), 2));
  REQUIRE(f.take(0) == 0);
  REQUIRE(f.put(0) == 0);
  CHECK(holds(f.run(0), 2));
}

TEST_CASE("A run once shared with a child that has gone can be taken") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  CHECK(in_child([] { return 0; }) == 0);
  REQUIRE(f.take(0) == 0);
  REQUIRE(f.put(0) == 0);
  CHECK(holds(f.run(0), 1));
}

// The first half is copied, and with it the head of the huge page; the second half is the huge page's still.
TEST_CASE("A run of which the parent wrote one half before its child went, one after, can be taken") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::size_t half = run_bytes / 2;
  REQUIRE(f.back(0, 1) == 0);
  {
    Reader child(f.run(0), 1);
    fill(f.run(0), 2, half);
    REQUIRE(child.result() == 0);
  }
  fill(f.run(0) + half, 3, half);
  REQUIRE(f.take(0) == 0);
  REQUIRE(f.put(0) == 0);
  CHECK(holds(f.run(0), 2, half));
  CHECK(holds(f.run(0) + half, 3, half));
}

TEST_CASE("A run of which the parent wrote a part after fork keeps its bytes, taken or refused") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  Reader child(f.run(0), 1);
  fill(f.run(0) + run_bytes / 2, 9, os::page_bytes);
  const int error = f.try_take(0);
  CHECK((error == 0 || error == EBUSY));
  if (error == 0) REQUIRE(f.put(0) == 0);
  CHECK(holds(f.run(0), 1, run_bytes / 2));
  CHECK(holds(f.run(0) + run_bytes / 2, 9, os::page_bytes));
  CHECK(child.result() == 0);
}

TEST_CASE("A child sees what was put back before the fork") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  CHECK(in_child([&] { return holds(f.run(0), 1) ? 0 : 1; }) == 0);
  REQUIRE(f.take(0) == 0);
  REQUIRE(f.put(0) == 0);
  CHECK(in_child([&] { return holds(f.run(0), 1) ? 0 : 1; }) == 0);
}

TEST_CASE("A frame that was shown to a child is put back whole, whatever the parent wrote to it") {
  const MoverKind kind = any_kind();
  CHECK(in_child([&] {  // its own alarm: a put that touches its own missing frame would wait for ever
          MoverFixture f(kind);
          if (!f.ready()) return 0;
          if (f.back(0, 1) != 0 || f.take(0) != 0) return 2;
          os::advise(f.frame(0), run_bytes, MADV_DOFORK);
          Reader child(f.frame(0), 1);
          fill(f.frame(0), 4, run_bytes / 2);  // exclusive again; the rest is still shared
          os::advise(f.frame(0), run_bytes, MADV_DONTFORK);
          if (f.put(0) != 0) return 3;
          if (!holds(f.run(0), 4, run_bytes / 2)) return 4;
          const auto* words = reinterpret_cast<const std::uint64_t*>(f.run(0));
          const std::size_t last = run_bytes / sizeof(std::uint64_t) - 1;
          if (words[last] != test::word_of(1, last)) return 5;
          return child.result();
        }) == 0);
}

TEST_CASE("A shared run whose frame the kernel does not watch stays where it is") {
  CHECK(in_child([&] {
          MoverFixture f(MoverKind::move);
          if (!f.ready()) return 0;
          if (f.back(0, 1) != 0) return 2;
          Reader child(f.run(0), 1);
          if (!test::deny_call(SYS_ioctl, 1, static_cast<unsigned>(UFFDIO_REGISTER), ENOMEM)) return 3;
          for (int i = 0; i < 3; ++i)
            if (f.try_take(0) == 0) return 4;
          if (test::resident_pages(f.run(0)) != run_bytes / os::page_bytes) return 5;
          if (test::resident_pages(f.frame(0)) != 0 || !holds(f.run(0), 1)) return 6;
          return child.result();
        }) == 0);
}

}  // namespace terrace::liballoc
