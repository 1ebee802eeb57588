// What becomes of a run while a worker computes on its frame. The double holds jobs of one kind back until it
// is let go, so that "while" is certain, and only then works on what the frame holds by that time: a frame
// that was used again meanwhile would be found out.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>

#include "tests/liballoc/captured_stderr.h"
#include "tests/liballoc/paging/pager_fixture.h"
#include "tiers/adaptors/failing_adaptor.h"

namespace terrace::liballoc {
namespace {

using test::any_kind;
using test::budget_runs;
using test::mib;
using test::PagerFixture;

constexpr int nothing = -1;
std::atomic<int> held_kind{nothing};
std::atomic<int> held_jobs{0};

void work_when_let_go(Job& job, CodecScratch* scratch) {
  const int kind = static_cast<int>(job.kind);
  if (held_kind == kind) {
    ++held_jobs;
    while (held_kind == kind) ::usleep(50);
    --held_jobs;
  }
  job.work(scratch);
}

// Where a run is caught.
struct Stage {
  RunState state;
  Job::Kind kind;
  Compression compression;
};

Stage any_stage() {
  return GENERATE(Stage{RunState::writing, Job::Kind::sum, Compression::off},
                  Stage{RunState::writing, Job::Kind::sum, Compression::zvc},
                  Stage{RunState::writing, Job::Kind::encode, Compression::zvc},
                  Stage{RunState::reading, Job::Kind::sum, Compression::off},
                  Stage{RunState::reading, Job::Kind::decode, Compression::zvc});
}

Stage any_stage_of_a_write() {
  return GENERATE(Stage{RunState::writing, Job::Kind::sum, Compression::off},
                  Stage{RunState::writing, Job::Kind::sum, Compression::zvc},
                  Stage{RunState::writing, Job::Kind::encode, Compression::zvc});
}

Stage any_stage_of_a_read() {
  return GENERATE(Stage{RunState::reading, Job::Kind::sum, Compression::off},
                  Stage{RunState::reading, Job::Kind::decode, Compression::zvc});
}

struct Tiers {
  Tiers() {
    if (dram.open(512 * mib) != 0) std::abort();
  }
  tiers::DramTier dram;
  tiers::FailingAdaptor tier{dram};
};

struct HeldPager : Tiers, PagerFixture {
  explicit HeldPager(const Stage& at, MoverKind kind = any_kind())
      : PagerFixture(kind, tier, budget_runs, 1024 * mib, at.compression), stage(at) {
    held_kind = nothing;
    workers.stop();
    workers.start(2, &work_when_let_go);
  }
  ~HeldPager() { held_kind = nothing; }

  // A run whose job is held. Its bytes are those of seed 1, of which a third is not zero.
  std::byte* caught() {
    std::byte* block = allocate_filled(run_bytes, 1);
    if (stage.state == RunState::reading) page_out(block);
    held_kind = static_cast<int>(stage.kind);
    advise(block, run_bytes,
           stage.state == RunState::reading ? TERRACE_ADVISE_WILL_NEED : TERRACE_ADVISE_COLD);
    const std::uint64_t deadline = os::now_ns() + 20'000'000'000;
    while (held_jobs == 0) {
      balance();
      pager.handle_completions();
      if (os::now_ns() > deadline) std::abort();
    }
    REQUIRE(state(block) == stage.state);
    check();
    return block;
  }
  void let_go() {
    held_kind = nothing;
    finish_transfers();
    check();
  }
  // Faults alone: nothing that is held can end.
  void write_meanwhile(std::byte* block, std::uint64_t seed, std::size_t bytes = run_bytes) {
    with([=] { test::fill(block, seed, bytes); }, [this] { serve_faults(); });
  }

  Stage stage;
};

}  // namespace

TEST_CASE("A run that is freed while a worker computes leaves it the frame until it is done") {
  HeldPager f(any_stage());
  if (!f.ready()) return;
  INFO(f.mover.name() << ", state " << static_cast<int>(f.stage.state));
  std::byte* block = f.caught();
  f.release(block);
  f.check();
  std::vector<std::byte*> others;
  for (std::uint64_t i = 0; i < 4; ++i) {
    others.push_back(f.allocate(run_bytes));
    f.write_meanwhile(others.back(), i);
  }
  CHECK(held_jobs == 1);
  f.let_go();
  bool right = true;
  for (std::uint64_t i = 0; i < 4; ++i) right &= f.reads(others[i], i);
  CHECK(right);
  CHECK(f.pager.extents().used_bytes() == 0);
  CHECK(f.statistics().lost_runs == 0);
  CHECK(f.statistics().checksum_failures == 0);
}

TEST_CASE("A run that is touched while a worker computes comes back, and its write is called off") {
  HeldPager f(any_stage_of_a_write());
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.caught();
  f.write_meanwhile(block, 2);
  CHECK(f.state(block) == RunState::resident);
  f.let_go();
  CHECK(f.state(block) == RunState::resident);
  CHECK(f.statistics().written_bytes == 0);
  CHECK(f.pager.extents().used_bytes() == 0);
  CHECK(f.reads(block, 2));
  f.page_out(block);
  REQUIRE(f.state(block) == RunState::stored);
  CHECK(f.reads(block, 2));
}

// In a block of which only pages are used: they come singly, and the rest leaves all the same.
TEST_CASE("Pages that are touched while a worker computes are the newer ones") {
  HeldPager f(any_stage_of_a_write());
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.caught();
  f.pager.follow_blocks();
  const_cast<Run&>(f.pager.run(f.run_of(block))).scattered = true;
  std::byte* const page = block + 37 * os::page_bytes;
  f.write_meanwhile(page, 2, os::page_bytes);
  CHECK(f.state(block) == RunState::writing);
  f.let_go();
  f.settle();
  f.page_out(block);
  std::atomic<std::size_t> wrong{0};
  f.with([&] {
    const auto* words = reinterpret_cast<const std::uint64_t*>(block);
    constexpr std::size_t page_words = os::page_bytes / 8;
    for (std::size_t i = 0; i < run_bytes / 8; ++i) {
      const bool is_new = i / page_words == 37;
      wrong += words[i] != (is_new ? test::word_of(2, i % page_words) : test::word_of(1, i)) ? 1 : 0;
    }
  });
  CHECK(wrong == 0);
  f.check();
}

// The program drops pages (MADV_DONTNEED): they read as zeroes, whatever was on its way.
TEST_CASE("Pages that are forgotten while a worker computes stay forgotten") {
  HeldPager f(any_stage());
  if (!f.ready()) return;
  INFO(f.mover.name() << ", state " << static_cast<int>(f.stage.state));
  std::byte* block = f.caught();
  const bool all = GENERATE(false, true);
  const std::size_t begin = all ? 0 : 100 * os::page_bytes;
  const std::size_t bytes = all ? run_bytes : 300 * os::page_bytes;
  f.pager.forget(block + begin, block + begin + bytes);
  f.check();
  f.let_go();
  f.settle();
  CHECK(f.reads_zero(block + begin, bytes));
  CHECK(f.reads(block, 1, begin));
  f.page_out(block);
  CHECK(f.reads_zero(block + begin, bytes));
  CHECK(f.reads(block, 1, begin));
  CHECK(f.statistics().lost_runs == 0);
  f.check();
}

TEST_CASE("A child that is forked while a worker computes has the run, and so has its parent") {
  HeldPager f(any_stage_of_a_write());
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.caught();
  f.pager.forking().prepare(1'000'000);
  f.pager.follow_blocks();
  f.pager.forking().seal();
  CHECK(test::in_child([&] {
          f.workers.reset_in_child();
          if (f.pager.forking().after_in_child()) return 2;  // nothing lies on the tier
          return f.workers.given() == 0 && test::holds(block, 1) ? 0 : 1;
        }) == 0);
  f.pager.forking().after_in_parent(true);
  f.let_go();
  f.settle();
  CHECK(f.reads(block, 1));
  f.check();
}

// The child reads it from the tier itself: here, as a child with no agent, it only knows that it is there.
TEST_CASE("A child that is forked while a worker checks a read finds the run on the tier") {
  HeldPager f(any_stage_of_a_read());
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.caught();
  f.pager.forking().prepare(1'000'000);
  f.pager.follow_blocks();
  f.pager.forking().seal();
  CHECK(test::in_child([&] {
          f.workers.reset_in_child();
          if (!f.pager.forking().after_in_child()) return 2;
          return f.pager.run(f.run_of(block)).state == RunState::stored ? 0 : 1;
        }) == 0);
  f.pager.forking().after_in_parent(true);
  f.let_go();
  CHECK(f.reads(block, 1));
  f.check();
}

TEST_CASE("A fork waits for what workers compute no longer than it is told to") {
  HeldPager f(any_stage_of_a_write());
  if (!f.ready()) return;
  std::byte* block = f.caught();
  SECTION("too long") {
    const std::uint64_t start = os::now_ns();
    f.pager.forking().prepare(20'000'000);
    CHECK(os::now_ns() - start >= 20'000'000);
    CHECK(f.state(block) == RunState::writing);
  }
  SECTION("not long") {
    held_kind = nothing;
    f.pager.forking().prepare(10'000'000'000);
    CHECK(f.state(block) == RunState::cached);
    CHECK(f.workers.given() == 0);
  }
  f.let_go();
  CHECK(f.reads(block, 1));
}

TEST_CASE("Others are served while a worker checks what a thread waits for") {
  HeldPager f(any_stage_of_a_read());
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.caught();
  std::atomic<bool> right{false};
  std::thread waits([&] { right = test::holds(block, 1); });
  std::byte* other = f.allocate(run_bytes);
  f.write_meanwhile(other, 2);
  CHECK(held_jobs == 1);
  CHECK(test::holds(other, 2));
  held_kind = nothing;
  f.with([&] { waits.join(); });
  CHECK(right);
  f.check();
}

TEST_CASE("What a worker finds wrong is read again, and lost when it is wrong again") {
  HeldPager f(any_stage_of_a_read());
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.allocate_filled(run_bytes, 1);
  f.page_out(block);
  f.tier.flip_bit_in_nth_read(1, 4321);
  SECTION("once") {
    CHECK(f.reads(block, 1));
    CHECK(f.statistics().lost_runs == 0);
  }
  SECTION("twice") {
    test::Region rubbish(run_bytes);
    const Run& r = f.pager.run(f.run_of(block));
    REQUIRE(f.dram.submit({tiers::Direction::write, {r.slot_offset, r.slot_bytes}, rubbish.base(), 0}) == 0);
    tiers::Completion done[1];
    REQUIRE(f.dram.poll(done) == 1);
    test::CapturedStderr captured;
    f.advise(block, run_bytes, TERRACE_ADVISE_WILL_NEED);
    f.settle();
    CHECK(captured.text().find("its checksum is wrong") != std::string::npos);
    CHECK(f.state(block) == RunState::lost);
    CHECK(f.statistics().lost_runs == 1);
  }
  CHECK(f.statistics().checksum_failures == 1);
  f.check();
}

// What was summed cannot be written: it stays, and is not summed over and over.
TEST_CASE("A pool that fills while a worker computes leaves the data in DRAM") {
  HeldPager f(any_stage_of_a_write());
  if (!f.ready()) return;
  INFO(f.mover.name());
  std::byte* block = f.caught();
  f.tier.fail_from(tiers::FailingAdaptor::Operation::reserve, 1, ENOSPC);
  test::CapturedStderr captured;
  f.let_go();
  f.settle();
  CHECK(captured.text().find("the pool is full") != std::string::npos);
  CHECK(f.state(block) == RunState::resident);
  CHECK(test::holds(block, 1));
  CHECK(f.pager.extents().used_bytes() == 0);
  f.check();
}

}  // namespace terrace::liballoc
