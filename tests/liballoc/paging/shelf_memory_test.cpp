// Memory of what is kept compressed: it is a frame's, moved, and becomes a frame again.
#include "liballoc/paging/memory/shelf_memory.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/liballoc/mover/mover_fixture.h"
#include "tiers/memory/dram_tier.h"

namespace terrace::liballoc::test {
namespace {

constexpr std::uint32_t frames = 8;

struct Shelf {
  explicit Shelf(MoverKind kind) {
    if (!open_or_skip(mover, kind)) return;
    REQUIRE(staging.initialise(frames, &mover) == 0);
    REQUIRE(tier.open(4 * run_bytes, 16, tiers::DramTier::Memory::of_slabs) == 0);
    budget.share(frames);
    memory.lend_to(tier, mover);
    ready = true;
  }
  ~Shelf() {
    if (mover.fd() >= 0) mover.close();
  }
  std::byte* free_one() {
    const std::uint32_t frame = staging.take_absent();
    REQUIRE(mover.populate(staging.address(frame)) == 0);
    staging.note_memory(frame, pages_per_run, false);
    budget.gain(pages_per_run);
    staging.release(frame);
    return staging.address(frame);
  }
  tiers::Extent reserve(std::uint64_t bytes) {
    tiers::Extent extent;
    REQUIRE(tier.reserve(bytes, &extent) == 0);
    return extent;
  }
  std::byte* slab() const { return const_cast<std::byte*>(tier.at(0)); }

  Mover mover;
  Staging staging;
  MemoryBudget budget;
  ShelfMemory memory{staging, budget};
  tiers::DramTier tier;
  bool ready = false;
};

}  // namespace

TEST_CASE("A slab takes the memory of a free frame and gives it back as one") {
  Shelf f(MoverKind::move);
  if (!f.ready) return;
  std::byte* const frame = f.free_one();
  const std::size_t huge = huge_bytes(frame);
  fill(frame, 11, run_bytes);
  const tiers::Extent extent = f.reserve(64 * kib);
  CHECK(f.staging.free_frames() == 0);
  CHECK(f.budget.kept_runs() == 1);
  CHECK(f.budget.backed_pages() == 0);
  CHECK(f.budget.runs() == frames - 1);
  CHECK(holds(f.slab(), 11, run_bytes));  // moved, not fresh
  CHECK(huge_bytes(f.slab()) == huge);
  f.tier.release(extent);
  CHECK(f.staging.free_frames() == 1);
  CHECK(f.budget.kept_runs() == 0);
  CHECK(f.budget.backed_pages() == pages_per_run);
  CHECK(f.budget.runs() == frames);
  CHECK(resident_pages(f.slab()) == 0);
  std::byte* const back = f.staging.address(f.staging.take_free());
  CHECK(holds(back, 11, run_bytes));
  CHECK(huge_bytes(back) == huge);
}

TEST_CASE("Without a free frame nothing is kept") {
  Shelf f(MoverKind::move);
  if (!f.ready) return;
  tiers::Extent extent;
  CHECK(f.tier.reserve(64 * kib, &extent) == ENOMEM);
  CHECK(f.budget.kept_runs() == 0);
  CHECK(f.budget.runs() == frames);
  f.free_one();
  CHECK(f.tier.reserve(64 * kib, &extent) == 0);
}

TEST_CASE("What a forked child reads stays with it, and its memory is no frame") {
  Shelf f(MoverKind::move);
  if (!f.ready) return;
  f.free_one();
  const tiers::Extent extent = f.reserve(run_bytes);
  fill(f.slab(), 12, run_bytes);
  int go[2];
  REQUIRE(::pipe(go) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    const bool came = ::read(go[0], &byte, 1) == 1;
    ::_exit(came && holds(f.slab(), 12, run_bytes) ? 0 : 1);
  }
  f.tier.release(extent);
  CHECK(f.staging.free_frames() == 0);
  CHECK(f.budget.kept_runs() == 0);
  CHECK(f.budget.backed_pages() == 0);
  CHECK(resident_pages(f.slab()) == 0);
  // The slab is as good as before.
  f.free_one();
  f.reserve(run_bytes);
  fill(f.slab(), 13, run_bytes);
  REQUIRE(::write(go[1], "x", 1) == 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(holds(f.slab(), 13, run_bytes));
  ::close(go[0]);
  ::close(go[1]);
}

TEST_CASE("A slab that the kernel has locked is no place for a frame until it is unlocked") {
  Shelf f(MoverKind::move);
  if (!f.ready) return;
  std::byte* const frame = f.free_one();
  fill(frame, 14, run_bytes);
  if (::syscall(SYS_mlock2, f.slab(), std::size_t{run_bytes}, MLOCK_ONFAULT) != 0) {
    std::printf("SKIP: 2 MiB cannot be locked here\n");
    return;
  }
  tiers::Extent extent;
  CHECK(f.tier.reserve(64 * kib, &extent) != 0);
  CHECK(f.staging.free_frames() == 1);
  CHECK(f.budget.backed_pages() == pages_per_run);
  CHECK(holds(frame, 14, run_bytes));
  f.memory.unlock();
  CHECK(f.tier.reserve(64 * kib, &extent) == 0);
}

TEST_CASE("Where mappings move what is kept has memory of the kernel") {
  Shelf f(MoverKind::mremap);
  if (!f.ready) return;
  f.free_one();
  const tiers::Extent extent = f.reserve(run_bytes);
  fill(f.slab(), 15, run_bytes);
  CHECK(f.staging.free_frames() == 1);
  CHECK(f.budget.kept_runs() == 0);
  f.tier.release(extent);
  CHECK(resident_pages(f.slab()) == 0);
  CHECK(f.staging.free_frames() == 1);
}

}  // namespace terrace::liballoc::test
