// What the pager does when the tier is full, fails or lies: data stays in DRAM, or is said to be lost; it is
// never wrong.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <thread>

#include "liballoc/paging/pager.h"
#include "tests/liballoc/captured_stderr.h"
#include "tests/liballoc/paging/pager_fixture.h"
#include "tiers/adaptors/failing_adaptor.h"
#include "tiers/memory/dram_tier.h"

namespace terrace::liballoc {
namespace {

using test::any_kind;
using test::budget_runs;
using test::mib;
using test::PagerFixture;
using tiers::FailingAdaptor;
using Operation = tiers::FailingAdaptor::Operation;

struct Failing {
  explicit Failing(std::size_t bytes) {
    if (dram.open(bytes) != 0) std::abort();  // in a forked child no assertion would be heard
  }
  tiers::DramTier dram;
  FailingAdaptor tier{dram};
};

struct DamagedPager : Failing, PagerFixture {
  explicit DamagedPager(std::size_t pool_bytes = 512 * mib, MoverKind kind = any_kind(),
                        Compression compression = test::compression_of_this_run())
      : Failing(pool_bytes), PagerFixture(kind, tier, budget_runs, 1024 * mib, compression) {}
};

struct Overfilled {
  bool right;  // every byte, afterwards
  std::string said;
};

// More than the budget by half.
Overfilled overfill(PagerFixture& f) {
  test::CapturedStderr captured;
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < budget_runs * 3 / 2; ++i) {
    blocks.push_back(f.allocate_filled(run_bytes, i));
  }
  bool right = true;
  for (std::size_t i = 0; right && i < blocks.size(); ++i) right = f.reads(blocks[i], i);
  return {right, captured.text()};
}

// Overwrites the stored bytes of a run behind the pager's back.
void corrupt(DamagedPager& f, const std::byte* block) {
  test::Region rubbish(run_bytes);
  test::fill(rubbish.base(), 666);
  const Run& r = f.pager.run(f.run_of(block));
  if (f.dram.submit({tiers::Direction::write, {r.slot_offset, r.slot_bytes}, rubbish.base(), 0}) != 0)
    std::abort();
  tiers::Completion done[1];
  if (f.dram.poll(done) != 1 || done[0].error != 0) std::abort();
}

// In a child: evicts one run, damages it, touches it. The child's end tells what the touch met.
int touch_after(MoverKind kind, const std::function<void(DamagedPager&, std::byte*)>& damage) {
  return test::in_child([&] {
    ::signal(SIGBUS, SIG_DFL);
    DamagedPager f(512 * mib, kind);
    if (!f.ready()) return 200 + SIGBUS;
    std::byte* block = f.allocate_filled(run_bytes, 1);
    f.page_out(block);
    damage(f, block);
    return f.reads(block, 1) ? 0 : 1;
  });
}

}  // namespace

TEST_CASE("PoolFullLeavesDataInDram") {
  DamagedPager f(8 * run_bytes);
  if (!f.ready()) return;
  INFO(f.mover.name());
  const Overfilled overfilled = overfill(f);
  CHECK(overfilled.right);
  CHECK(overfilled.said.find("the pool is full") != std::string::npos);
  CHECK(f.pager.extents().used_bytes() <= 8 * run_bytes);
  CHECK(f.statistics().lost_runs == 0);
  f.check();
}

// Compressed or not: an extent takes whole units.
TEST_CASE("ShareOfThePoolIsKeptInWhatExtentsTake") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  constexpr std::uint64_t share = 2 * run_bytes;
  f.pager.extents().set_limit(share);
  test::CapturedStderr captured;
  constexpr std::size_t runs = 80;
  std::byte* block = f.allocate(runs * run_bytes, true);
  for (std::size_t n = 0; n < runs; ++n) {  // a byte in each, so that they are there, and compress well
    f.with([&] { block[n * run_bytes] = std::byte{1}; });
    f.page_out(block + n * run_bytes);
  }
  CHECK(captured.text().find("is full, this one's part at") != std::string::npos);
  CHECK(f.dram.space().used_bytes <= share);
  CHECK(f.dram.space().used_bytes > share / 2);
  f.check();
}

TEST_CASE("PoolThatNeverHadRoomLeavesDataInDram") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  f.tier.fail_from(Operation::reserve, 1, ENOSPC);
  const Overfilled overfilled = overfill(f);
  CHECK(overfilled.right);
  CHECK(overfilled.said.find("ENOSPC") != std::string::npos);
  CHECK(f.pager.extents().used_bytes() == 0);
  CHECK(f.statistics().written_bytes == 0);
  f.check();
}

// A run that is held in its frame for touches leaves no sooner than others do: while the pool takes nothing,
// who waits for memory must not wait for that run.
TEST_CASE("PoolFullLetsTheBudgetGiveWayThoughRunsAreHeld") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  f.tier.fail_from(Operation::reserve, 1, ENOSPC);
  test::CapturedStderr captured;
  std::byte* const held = f.allocate_filled(run_bytes, 1);
  const_cast<Run&>(f.pager.run(f.run_of(held))).scattered = true;
  while (f.pager.budget().has_room_for(pages_per_run)) f.write(f.allocate(run_bytes), 2);
  const std::uint64_t budget = f.pager.budget().bytes();
  const std::uint32_t runs_held = f.pager.runs().lists().held.size();
  std::vector<std::byte*> touched;
  for (int i = 0; i < 3; ++i) {
    touched.push_back(f.allocate(run_bytes));
    f.pager.handle_fault({.address = touched.back(), .write_protected = false});  // as if a thread touched it
    for (int round = 0; round < 10; ++round) f.pump();
  }
  const std::string said = captured.text();
  CHECK(runs_held == 1);
  for (std::byte* const block : touched) CHECK(f.state(block) == RunState::resident);
  CHECK(f.pager.budget().bytes() > budget);
  CHECK(said.find("going over the budget") != std::string::npos);
  CHECK(f.reads(held, 1));
  f.check();
}

// What has an extent of its own needs no room: the budget gives way for the rest alone. Compressed runs have
// extents of their present size, so they are left out.
TEST_CASE("PoolFullStillTakesWhatHasAnExtent") {
  DamagedPager f(512 * mib, any_kind(), Compression::off);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < budget_runs + 8; ++i) blocks.push_back(f.allocate_filled(run_bytes, i));
  for (std::size_t i = 0; i < blocks.size(); ++i)
    REQUIRE(f.reads(blocks[i], i));  // all have left once, or most
  f.tier.fail_from(Operation::reserve, 1, ENOSPC);
  test::CapturedStderr captured;
  const std::uint64_t evicted = f.statistics().evicted_bytes;
  for (std::size_t i = 0; i < 64; ++i) {
    std::byte* const block = blocks[i % 8];
    f.write(block, 100 + i);  // changed, or it would leave without a write
    REQUIRE(f.reads(blocks[8 + i % 8], 8 + i % 8));
  }
  CHECK(f.statistics().evicted_bytes - evicted >= 16 * run_bytes);
  CHECK(f.pager.budget().backed_runs() <= budget_runs + 8);
  for (std::size_t i = 16; i < blocks.size(); ++i) CHECK(f.reads(blocks[i], i));
  f.check();
}

TEST_CASE("PoolThatGetsRoomAgainIsUsedAgain") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  f.tier.fail_from(Operation::reserve, 1, ENOSPC);
  test::CapturedStderr captured;
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  const RunState while_full = f.state(block);
  f.tier.heal();
  f.page_out(block);
  captured.text();
  CHECK(while_full == RunState::resident);
  CHECK(f.state(block) == RunState::stored);
  CHECK(f.reads(block, 1));
}

TEST_CASE("BudgetThatGaveWayComesBackWhenThePoolTakesDataAgain") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  const auto failing = GENERATE(Operation::reserve, Operation::write);
  f.tier.fail_from(failing, 1, ENOSPC);
  const std::uint64_t budget = f.pager.budget().bytes();
  test::CapturedStderr captured;
  std::vector<std::byte*> blocks;
  for (std::size_t i = 0; i < budget_runs * 3 / 2; ++i) blocks.push_back(f.allocate_filled(run_bytes, i));
  const std::uint64_t while_full = f.pager.budget().bytes();
  f.tier.heal();
  f.page_out(blocks[0]);
  f.settle();
  const std::string said = captured.text();
  CHECK(while_full > budget);
  CHECK(f.pager.budget().bytes() == budget);
  CHECK(f.pager.budget().backed_bytes() <= budget);
  CHECK(said.find("going over the budget") != std::string::npos);
  CHECK(said.find("back to the budget of") != std::string::npos);
  CHECK(said.find("back to the budget of") == said.rfind("back to the budget of"));
  bool right = true;
  for (std::size_t i = 0; right && i < blocks.size(); ++i) right = f.reads(blocks[i], i);
  CHECK(right);
  f.check();
}

TEST_CASE("BudgetThatGaveWayComesBackWhenTheLastReaderOfTheFullPoolHasGone") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  const std::uint64_t budget = f.pager.budget().bytes();
  std::byte* read_by_a_child = f.allocate_filled(run_bytes, 1);
  f.page_out(read_by_a_child);
  {
    f.pager.follow_blocks();
    f.pager.forking().seal();
    f.pager.forking().after_in_parent(true);
  }
  f.release(read_by_a_child);
  f.tier.fail_from(Operation::reserve, 1, ENOSPC);
  const Overfilled overfilled = overfill(f);
  CHECK(overfilled.right);
  CHECK(f.pager.budget().bytes() > budget);
  test::CapturedStderr captured;
  {
    f.pager.follow_blocks();
    int child = -1;
    REQUIRE(f.pager.extents().forks().watched(&child, 1) == 1);
    f.pager.extents().forks().child_gone(child);
    f.pager.extents().release_unread();
  }
  captured.text();
  CHECK(f.pager.extents().used_bytes() == 0);
  CHECK(f.pager.budget().bytes() == budget);
}

// Memory that a touch waits for is not to be had: that is waited for, not asked for in a circle (the child's
// alarm would end that), and the budget stays what it is.
TEST_CASE("KernelWithoutMemoryIsWaitedFor") {
  const MoverKind kind = any_kind();
  CHECK(test::in_child([&] {
          DamagedPager f(512 * mib, kind);
          if (!f.ready()) return 0;
          const std::uint64_t budget = f.pager.budget().bytes();
          std::byte* block = f.allocate(2 * run_bytes);
          if (!test::deny_advice(os::advice_populate_write, ENOMEM)) return 2;
          for (std::byte* run : {block, block + run_bytes})
            f.pager.handle_fault({.address = run, .write_protected = false});  // as if threads touched them
          for (int i = 0; i < 10; ++i) f.pump();
          if (f.pager.budget().bytes() != budget) return 3;
          return f.state(block) == RunState::empty && f.pager.run(f.run_of(block)).waiting ? 0 : 4;
        }) == 0);
}

TEST_CASE("WriteErrorLeavesDataInDram") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  const auto failing = GENERATE(Operation::write, Operation::submit);
  f.tier.fail_from(failing, 1, EIO);
  const Overfilled overfilled = overfill(f);
  CHECK(overfilled.right);
  CHECK(overfilled.said.find("writing to the pool failed: errno 5 (EIO)") != std::string::npos);
  CHECK(f.statistics().io_errors > 0);
  CHECK(f.pager.extents().used_bytes() == 0);
  CHECK(f.dram.space().used_bytes == 0);
  f.check();
}

TEST_CASE("OneWriteErrorCostsNothing") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  f.tier.fail_nth(Operation::write, 1, EIO);
  test::CapturedStderr captured;
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  const RunState after_error = f.state(block);
  f.page_out(block);
  captured.text();
  CHECK(after_error == RunState::resident);
  CHECK(f.state(block) == RunState::stored);
  CHECK(f.statistics().io_errors == 1);
  CHECK(f.reads(block, 1));
}

TEST_CASE("OneReadErrorIsRetried") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  const bool flips = GENERATE(false, true);
  if (flips) {
    f.tier.flip_bit_in_nth_read(1, 4321);
  } else {
    f.tier.fail_nth(Operation::read, 1, EIO);
  }
  CHECK(f.reads(block, 1));
  CHECK(f.statistics().checksum_failures == (flips ? 1 : 0));
  CHECK(f.statistics().io_errors == (flips ? 0 : 1));
  CHECK(f.statistics().lost_runs == 0);
  f.check();
}

// A job at its limit: what is on the drive is not lost for that.
TEST_CASE("ReadForWhichTheKernelHasNoMemoryIsTriedUntilItHas") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  f.tier.fail_from(GENERATE(Operation::read, Operation::submit), 1, ENOMEM);
  f.pager.handle_fault({.address = block, .write_protected = false});  // as if a thread touched it
  for (int i = 0; i < 10; ++i) f.pump();
  CHECK(f.state(block) == RunState::reading);
  CHECK(f.statistics().io_errors == 0);
  f.tier.heal();
  f.pump();
  CHECK(f.reads(block, 1));
  CHECK(f.statistics().lost_runs == 0);
  f.check();
}

TEST_CASE("ReadErrorTwiceIsSigbus") {
  CHECK(touch_after(any_kind(), [](DamagedPager& f, std::byte*) {
          f.tier.fail_from(Operation::read, 1, EIO);
        }) == 200 + SIGBUS);
}

TEST_CASE("LostDeviceIsSigbus") {
  CHECK(touch_after(any_kind(), [](DamagedPager& f, std::byte*) { f.tier.lose_device(); }) == 200 + SIGBUS);
}

TEST_CASE("ReadThatCannotBeSubmittedIsSigbus") {
  CHECK(touch_after(any_kind(), [](DamagedPager& f, std::byte*) {
          f.tier.fail_from(Operation::submit, 1, EIO);
        }) == 200 + SIGBUS);
}

TEST_CASE("CorruptedExtentIsSigbus") {
  CHECK(touch_after(any_kind(), [](DamagedPager& f, std::byte* block) { corrupt(f, block); }) ==
        200 + SIGBUS);
}

TEST_CASE("PageThatVanishedIsSigbus") {
  const MoverKind kind = MoverKind::move;
  CHECK(touch_after(kind, [](DamagedPager& f, std::byte* block) {
          if (!f.reads(block, 1)) std::abort();  // it is whole now, as whatever comes back is
          os::advise(block + 7 * os::page_bytes, os::page_bytes, MADV_DONTNEED);
        }) == 200 + SIGBUS);
}

TEST_CASE("RunWhoseMappingWasCutComesBack") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(3 * run_bytes, 1);
  f.page_out(block, 3 * run_bytes);
  const int advice = GENERATE(MADV_DONTDUMP, MADV_NOHUGEPAGE);
  REQUIRE(os::advise(block + run_bytes + 37 * os::page_bytes, os::page_bytes, advice) == 0);
  REQUIRE(os::advise(block + 2 * run_bytes, run_bytes - os::page_bytes, advice) == 0);
  CHECK(f.reads(block, 1, 3 * run_bytes));
  CHECK(f.statistics().lost_runs == 0);
  f.check();
}

// A page of the run's mapping is missing for a while, as if the kernel had no memory for it.
TEST_CASE("PutThatTheKernelRefusesIsTriedAgain") {
  DamagedPager f(512 * mib, MoverKind::move);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  const bool evicted = GENERATE(true, false);
  if (evicted) f.page_out(block);
  if (!evicted) {
    f.release(block);
    f.pager.trim(0);
    block = f.allocate(run_bytes);
  }
  std::byte* const page = block + 37 * os::page_bytes;
  REQUIRE(os::unmap(page, os::page_bytes) == 0);
  test::CapturedStderr captured;
  const std::uint64_t budget = f.pager.budget().bytes();
  std::atomic<bool> mended{false};
  int refusals = 0;
  f.with(
      [&] {
        test::fill(block, 2, os::page_bytes);  // a page that may be put back for a moment
        while (!mended) std::this_thread::yield();
        static_cast<void>(test::is_zero(page, 8));
      },
      [&] {
        f.pump();
        f.check();
        refusals += f.state(block) == RunState::staged ? 1 : 0;
        if (refusals != 30 || mended) return;
        if (os::map_anonymous(os::page_bytes, PROT_READ | PROT_WRITE, page) == nullptr) std::abort();
        if (f.mover.watch(page, os::page_bytes) != 0) std::abort();
        mended = true;
      });
  const std::string said = captured.text();
  CHECK(said.find("the kernel does not put 2 MiB back at") == said.rfind("the kernel does not put"));
  CHECK(said.find("Terrace tries again") != std::string::npos);
  CHECK(f.pager.budget().bytes() == budget);
  CHECK(f.statistics().lost_runs == 0);
  CHECK(f.state(block) == RunState::resident);
  CHECK(test::holds(block, 2, os::page_bytes));
  const auto* words = reinterpret_cast<const std::uint64_t*>(block);
  std::size_t wrong = 0;
  for (std::size_t i = os::page_bytes / 8; evicted && i < run_bytes / 8; ++i)
    wrong += words[i] != test::word_of(1, i) ? 1 : 0;
  CHECK(wrong == 0);
  f.check();
}

// Its bytes are right, and its memory is not given up: the pager would not be told of the next touch.
TEST_CASE("RunThatTheKernelDoesNotWatchAgainStays") {
  CHECK(test::in_child([&] {
          DamagedPager f(512 * mib, MoverKind::mremap);
          if (!f.ready()) return 0;
          std::byte* block = f.allocate_filled(run_bytes, 1);
          f.page_out(block);
          if (!test::deny_call(SYS_ioctl, 1, UFFDIO_REGISTER, ENOMEM)) return 2;
          if (!f.reads(block, 1)) return 3;
          f.page_out(block);
          if (f.state(block) != RunState::resident || !test::holds(block, 1)) return 4;
          f.release(block);
          f.pager.trim(0);
          f.write(f.allocate(run_bytes), 2);
          f.release(block);
          f.pager.trim(0);
          if (f.allocate(run_bytes, true) != block) return 5;
          const bool is_zero = !f.space.block(f.space.live_block_at(block)).virgin || test::is_zero(block);
          ::_exit(is_zero ? 0 : 6);  // it is not level, as the run has memory still
        }) == 0);
}

// Standard error is a pipe that nobody reads from at first, so that the message takes as long as it likes.
TEST_CASE("LossIsReportedBeforeTheSignal") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  char filling[4096] = {};
  while (::write(ends[1], filling, sizeof filling) > 0) continue;
  REQUIRE(::fcntl(ends[1], F_SETFL, 0) == 0);
  const pid_t child = test::start_child([&] {
    ::signal(SIGBUS, SIG_DFL);
    DamagedPager f(512 * mib, MoverKind::automatic);
    if (!f.ready()) return 200 + SIGBUS;
    std::byte* block = f.allocate_filled(run_bytes, 1);
    f.page_out(block);
    corrupt(f, block);
    ::dup2(ends[1], STDERR_FILENO);
    return f.reads(block, 1) ? 0 : 1;
  });
  ::close(ends[1]);
  ::usleep(500'000);
  REQUIRE(::fcntl(ends[0], F_SETFL, 0) == 0);
  std::string said;
  for (ssize_t got = 0; (got = ::read(ends[0], filling, sizeof filling)) > 0;)
    said.append(filling, static_cast<std::size_t>(got));
  ::close(ends[0]);
  CHECK(test::result_of(child) == 200 + SIGBUS);
  CHECK(said.find("lost 2 MiB at") != std::string::npos);
}

TEST_CASE("ReadAheadOfALostRunIsToldAndItsNeighboursLive") {
  DamagedPager f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(3 * run_bytes, 1);
  f.page_out(block, 3 * run_bytes);
  corrupt(f, block + run_bytes);
  const std::uint64_t lost_bytes = f.space_taken(block + run_bytes, run_bytes);
  test::CapturedStderr captured;
  f.advise(block, 3 * run_bytes, TERRACE_ADVISE_WILL_NEED);
  f.settle();
  const std::string text = captured.text();
  CHECK(text.find("lost 2 MiB at") != std::string::npos);
  CHECK(text.find("of the allocation of 6.0 MiB") != std::string::npos);
  CHECK(text.find("its checksum is wrong") != std::string::npos);
  CHECK(f.state(block + run_bytes) == RunState::lost);
  CHECK(f.statistics().lost_runs == 1);
  CHECK(f.statistics().checksum_failures == 1);
  CHECK(f.reads(block, 1));
  f.check();
  // Freed and used again, the address is ordinary memory. The extent stays out of use, and counts.
  f.release(block);
  CHECK(f.pager.extents().used_bytes() == lost_bytes);
  std::byte* next = f.allocate(3 * run_bytes);
  REQUIRE(next == block);
  f.write(next, 2, 3 * run_bytes);
  CHECK(f.reads(next, 2, 3 * run_bytes));
  f.check();
}

}  // namespace terrace::liballoc
