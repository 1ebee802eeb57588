// What the pager does when the tier is full, fails or lies: data stays in DRAM, or is said to be lost; it is
// never wrong.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "liballoc/pager.h"
#include "tests/liballoc/captured_stderr.h"
#include "tests/liballoc/pager_fixture.h"
#include "tiers/dram_tier.h"
#include "tiers/failing_adaptor.h"

namespace terrace::liballoc {
namespace {

using test::mib;
using test::PagerFixture;
using tiers::FailingAdaptor;
using Operation = tiers::FailingAdaptor::Operation;

constexpr std::size_t budget_runs = 32;

MoverKind any_kind() { return GENERATE(MoverKind::move, MoverKind::mremap, MoverKind::copy); }

struct Damaged {
  explicit Damaged(std::size_t bytes = 512 * mib) {
    if (dram.open(bytes) != 0) std::abort();
  }
  tiers::DramTier dram;
  FailingAdaptor tier{dram};
};

// More than the budget by half; true when every byte is right afterwards.
bool overfill(PagerFixture& f, std::vector<std::byte*>& blocks) {
  for (std::size_t i = 0; i < budget_runs * 3 / 2; ++i) {
    blocks.push_back(f.allocate(run_bytes));
    f.write(blocks.back(), i);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (!f.reads(blocks[i], i)) return false;
  return true;
}

// Overwrites the stored bytes of a run behind the pager's back.
void corrupt(PagerFixture& f, tiers::DramTier& dram, const std::byte* block) {
  test::Region rubbish(run_bytes);
  test::fill(rubbish.base(), 666);
  const Run& r = f.pager.run(f.run_of(block));
  if (dram.submit({tiers::Direction::write, {r.slot_offset, run_bytes}, rubbish.base(), 0}) != 0)
    std::abort();
  tiers::Completion done[1];
  if (dram.poll(done) != 1 || done[0].error != 0) std::abort();
}

// In a child: evicts one run, damages it, touches it. The child's end tells what the touch met.
int touch_after(MoverKind kind, const std::function<void(PagerFixture&, Damaged&, std::byte*)>& damage) {
  return test::in_child([&] {
    ::signal(SIGBUS, SIG_DFL);
    Damaged damaged;
    PagerFixture f(kind, damaged.tier, budget_runs);
    if (!f.ready()) return 200 + SIGBUS;
    std::byte* block = f.allocate(run_bytes);
    f.write(block, 1);
    f.page_out(block);
    damage(f, damaged, block);
    return f.reads(block, 1) ? 0 : 1;
  });
}

}  // namespace

TEST_CASE("PoolFullLeavesDataInDram") {
  Damaged damaged(8 * run_bytes);
  PagerFixture f(any_kind(), damaged.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  test::CapturedStderr captured;
  std::vector<std::byte*> blocks;
  const bool right = overfill(f, blocks);
  const std::string text = captured.text();
  CHECK(right);
  CHECK(text.find("the pool is full") != std::string::npos);
  CHECK(f.pager.pool_used_bytes() <= 8 * run_bytes);
  CHECK(f.statistics().lost_runs == 0);
  f.check();
}

TEST_CASE("PoolThatNeverHadRoomLeavesDataInDram") {
  Damaged damaged;
  damaged.tier.fail_from(Operation::reserve, 1, ENOSPC);
  PagerFixture f(any_kind(), damaged.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  test::CapturedStderr captured;
  std::vector<std::byte*> blocks;
  const bool right = overfill(f, blocks);
  const std::string text = captured.text();
  CHECK(right);
  CHECK(text.find("ENOSPC") != std::string::npos);
  CHECK(f.pager.pool_used_bytes() == 0);
  CHECK(f.statistics().written_bytes == 0);
  f.check();
}

TEST_CASE("PoolThatGetsRoomAgainIsUsedAgain") {
  Damaged damaged;
  damaged.tier.fail_from(Operation::reserve, 1, ENOSPC);
  PagerFixture f(any_kind(), damaged.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  test::CapturedStderr captured;
  std::byte* block = f.allocate(run_bytes);
  f.write(block, 1);
  f.page_out(block);
  const RunState while_full = f.state(block);
  damaged.tier.heal();
  f.page_out(block);
  captured.text();
  CHECK(while_full == RunState::resident);
  CHECK(f.state(block) == RunState::stored);
  CHECK(f.reads(block, 1));
}

TEST_CASE("WriteErrorLeavesDataInDram") {
  Damaged damaged;
  PagerFixture f(any_kind(), damaged.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  const auto failing = GENERATE(Operation::write, Operation::submit);
  damaged.tier.fail_from(failing, 1, EIO);
  test::CapturedStderr captured;
  std::vector<std::byte*> blocks;
  const bool right = overfill(f, blocks);
  const std::string text = captured.text();
  CHECK(right);
  CHECK(text.find("writing to the pool failed: errno 5 (EIO)") != std::string::npos);
  CHECK(f.statistics().io_errors > 0);
  CHECK(f.pager.pool_used_bytes() == 0);
  CHECK(damaged.dram.space().used_bytes == 0);
  f.check();
}

TEST_CASE("OneWriteErrorCostsNothing") {
  Damaged damaged;
  damaged.tier.fail_nth(Operation::write, 1, EIO);
  PagerFixture f(any_kind(), damaged.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  test::CapturedStderr captured;
  std::byte* block = f.allocate(run_bytes);
  f.write(block, 1);
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
  Damaged damaged;
  PagerFixture f(any_kind(), damaged.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(run_bytes);
  f.write(block, 1);
  f.page_out(block);
  const bool flips = GENERATE(false, true);
  if (flips) {
    damaged.tier.flip_bit_in_nth_read(1, 4321);
  } else {
    damaged.tier.fail_nth(Operation::read, 1, EIO);
  }
  CHECK(f.reads(block, 1));
  CHECK(f.statistics().checksum_failures == (flips ? 1 : 0));
  CHECK(f.statistics().io_errors == (flips ? 0 : 1));
  CHECK(f.statistics().lost_runs == 0);
  f.check();
}

TEST_CASE("ReadErrorTwiceIsSigbus") {
  CHECK(touch_after(any_kind(), [](PagerFixture&, Damaged& damaged, std::byte*) {
          damaged.tier.fail_from(Operation::read, 1, EIO);
        }) == 200 + SIGBUS);
}

TEST_CASE("LostDeviceIsSigbus") {
  CHECK(touch_after(any_kind(), [](PagerFixture&, Damaged& damaged, std::byte*) {
          damaged.tier.lose_device();
        }) == 200 + SIGBUS);
}

TEST_CASE("ReadThatCannotBeSubmittedIsSigbus") {
  CHECK(touch_after(any_kind(), [](PagerFixture&, Damaged& damaged, std::byte*) {
          damaged.tier.fail_from(Operation::submit, 1, EIO);
        }) == 200 + SIGBUS);
}

TEST_CASE("CorruptedExtentIsSigbus") {
  CHECK(touch_after(any_kind(), [](PagerFixture& f, Damaged& damaged, std::byte* block) {
          corrupt(f, damaged.dram, block);
        }) == 200 + SIGBUS);
}

TEST_CASE("ReadAheadOfALostRunIsToldAndItsNeighboursLive") {
  Damaged damaged;
  PagerFixture f(any_kind(), damaged.tier, budget_runs);
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate(3 * run_bytes);
  f.write(block, 1, 3 * run_bytes);
  f.page_out(block, 3 * run_bytes);
  corrupt(f, damaged.dram, block + run_bytes);
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
  CHECK(f.pager.pool_used_bytes() == run_bytes);
  std::byte* next = f.allocate(3 * run_bytes);
  REQUIRE(next == block);
  f.write(next, 2, 3 * run_bytes);
  CHECK(f.reads(next, 2, 3 * run_bytes));
  f.check();
}

}  // namespace terrace::liballoc
