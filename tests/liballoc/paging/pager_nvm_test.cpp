// Runs that go to NVM before the drive: what is counted as what, and that NVM is no DRAM.
#include <catch2/catch.hpp>

#include "liballoc/base/tier_list.h"
#include "tests/liballoc/paging/pager_fixture.h"
#include "tests/tiers/as_drive.h"
#include "tiers/adaptors/failing_adaptor.h"
#include "tiers/chain/chained_tier.h"
#include "tiers/memory/nvm_file.h"
#include "tiers/memory/nvm_tier.h"

using namespace terrace;
using namespace terrace::liballoc;
using liballoc::test::block_bytes;
using liballoc::test::budget_runs;
using liballoc::test::mib;

namespace {

constexpr std::uint64_t nvm_runs = 4;

// Compressed DRAM that takes nothing here, and NVM for a few runs, before a drive.
struct NvmTiers {
  NvmTiers() {
    int fd = -1;
    REQUIRE(tiers::open_nvm_in_directory("/dev/shm", &fd) == 0);
    REQUIRE(nvm.open(fd, nvm_runs * run_bytes) == 0);
    REQUIRE(below.open(1024 * mib, 64) == 0);
    REQUIRE(kept.open(64 * mib, 64, tiers::DramTier::Released::stays) == 0);
    const tiers::ChainedTier::Upper uppers[] = {{&kept, RunFrame::most_kept_bytes, &kept},
                                                {.tier = &failing}};
    REQUIRE(chain.open(uppers, &drive) == 0);
    REQUIRE(list.read("compressed=40%") == nullptr);
  }

  tiers::DramTier below, kept;
  tiers::NvmTier nvm;
  tiers::FailingAdaptor failing{nvm};
  tiers::test::AsDrive drive{below};
  tiers::ChainedTier chain;
  TierList list;
};

struct NvmPager : NvmTiers, test::PagerFixture {
  NvmPager()
      : PagerFixture(MoverKind::automatic, chain, budget_runs, 1024 * mib, Compression::off,
                     list.compressed()) {}
  ~NvmPager() { CHECK(chain.check_invariants()); }
};

}  // namespace

TEST_CASE("Runs go to NVM until it is full, then to the drive, and each is counted there") {
  NvmPager f;
  if (!f.ready()) return;
  std::byte* const first = f.allocate_filled(block_bytes, 1);
  std::byte* const second = f.allocate_filled(block_bytes, 2);
  f.page_out(first, block_bytes);
  f.page_out(second, block_bytes);
  const terrace_statistics out = f.statistics();
  CHECK(out.nvm_written_bytes == nvm_runs * run_bytes);
  CHECK(out.nvm_bytes == nvm_runs * run_bytes);
  CHECK(out.written_bytes == 2 * block_bytes - nvm_runs * run_bytes);
  CHECK(out.kept_bytes == 0);
  CHECK(out.compressed_bytes == 0);  // NVM is no DRAM
  CHECK(out.resident_bytes == f.pager.budget().backed_bytes());
  CHECK(f.reads(first, 1, block_bytes));
  CHECK(f.reads(second, 2, block_bytes));
  const terrace_statistics in = f.statistics();
  CHECK(in.nvm_read_bytes == nvm_runs * run_bytes);
  CHECK(in.read_bytes == 2 * block_bytes - nvm_runs * run_bytes);
  CHECK(in.fetched_bytes == 0);
  f.release(first);
  f.pump();
  CHECK(f.statistics().nvm_bytes == run_bytes);  // the last one's first run
  f.check();
}

TEST_CASE("What NVM does not take after all stays in DRAM and goes to the drive") {
  NvmPager f;
  if (!f.ready()) return;
  f.failing.fail_from(tiers::FailingAdaptor::Operation::write, 1, EIO);
  std::byte* const block = f.allocate_filled(block_bytes, 3);
  f.advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT);
  f.settle();
  CHECK(f.statistics().nvm_bytes == 0);
  CHECK(f.statistics().io_errors > 0);
  CHECK(f.statistics().lost_runs == 0);
  CHECK(f.reads(block, 3, block_bytes));
  f.check();
}
