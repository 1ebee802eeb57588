// Taking pages out from under an address and putting them back, in each way that the machine has.
#include "liballoc/mover.h"

#include <liburing.h>
#include <signal.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <thread>

#include "tests/liballoc/mover_fixture.h"

namespace terrace::liballoc {
namespace {

using test::fill;
using test::holds;
using test::in_child;
using test::is_zero;
using test::MoverFixture;

MoverKind any_kind() { return GENERATE(MoverKind::move, MoverKind::mremap, MoverKind::copy); }

// Makes page `page` of 4 KiB the only one of a run that has memory.
void touch_one_page(std::byte* run, std::size_t page) {
  os::advise(run, run_bytes, MADV_NOHUGEPAGE);
  fill(run + page * os::page_bytes, 5, os::page_bytes);
}

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

// Reads one byte of every page in a thread of its own.
class Toucher {
 public:
  explicit Toucher(const std::function<void()>& touch)
      : thread_([this, touch] {
          touch();
          done_.store(true);
        }) {}
  ~Toucher() { join(); }
  bool done() const { return done_.load(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace

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
  CHECK(keeps == f.mover.takes_by_copy());
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

TEST_CASE("A run with holes that a child shares can be taken or is refused") {
  const MoverKind kind = any_kind();
  CHECK(in_child([&] {
          MoverFixture f(kind, [](std::byte* heap) { touch_one_page(heap, 3); });
          if (!f.ready()) return 0;
          const pid_t child = test::start_child([] { return ::pause(); });
          const int error = f.take(0);
          if (error == 0 && f.put(0) != 0) return 2;
          ::kill(child, SIGKILL);
          test::result_of(child);
          return holds(f.run(0) + 3 * os::page_bytes, 5, os::page_bytes) ? 0 : 3;
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
  CHECK(f.take(0) == EBUSY);
  CHECK(holds(f.run(0), 1));
  CHECK(test::resident_pages(f.run(0)) == run_bytes / os::page_bytes);
  // The device still sees what the program writes.
  fill(f.run(0), 2);
  CHECK(f.take(0) == EBUSY);
  CHECK(holds(f.run(0), 2));
  ::io_uring_unregister_buffers(&ring);
  ::io_uring_queue_exit(&ring);
  // Unpinned, it can go.
  REQUIRE(f.take(0) == 0);
  CHECK(holds(f.frame(0), 2));
  REQUIRE(f.put(0) == 0);
  CHECK(holds(f.run(0), 2));
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

TEST_CASE("A run of which the parent wrote a part after fork keeps its bytes, taken or refused") {
  MoverFixture f(any_kind());
  if (!f.ready()) return;
  INFO(f.mover.name());
  REQUIRE(f.back(0, 1) == 0);
  Reader child(f.run(0), 1);
  fill(f.run(0) + run_bytes / 2, 9, os::page_bytes);
  const int error = f.take(0);
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
          if (words[last] != 2 * 0x9e3779b97f4a7c15 + last) return 5;
          return child.result();
        }) == 0);
}

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
  CHECK(words[512] == 2 * 0x9e3779b97f4a7c15 + 512);
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
