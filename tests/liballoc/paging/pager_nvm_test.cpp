// Runs that go to NVM before the drive: what is counted as what, and that NVM is no DRAM.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "liballoc/base/os.h"
#include "liballoc/base/tier_list.h"
#include "tests/liballoc/captured_stderr.h"
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
    REQUIRE(kept.open(64 * mib, 64, tiers::DramTier::Memory::of_slabs) == 0);
    const tiers::ChainedTier::Upper uppers[] = {{&kept, RunFrame::most_kept_bytes, &kept},
                                                {.tier = &failing}};
    REQUIRE(chain.open(uppers, &failing_drive) == 0);
    REQUIRE(list.read("compressed=40%") == nullptr);
  }

  tiers::DramTier below, kept;
  tiers::NvmTier nvm;
  tiers::FailingAdaptor failing{nvm};
  tiers::test::AsDrive drive{below};
  tiers::FailingAdaptor failing_drive{drive};
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

TEST_CASE("Runs go to NVM until it is full, then to the drive, and each is counted there", "[any_codec]") {
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

TEST_CASE("What NVM does not take after all goes on to the drive at once", "[any_codec]") {
  NvmPager f;
  if (!f.ready()) return;
  test::CapturedStderr captured;
  f.failing.fail_from(tiers::FailingAdaptor::Operation::write, 1, EIO);
  std::byte* const block = f.allocate_filled(block_bytes, 3);
  f.page_out(block, block_bytes);
  const terrace_statistics out = f.statistics();
  CHECK(out.nvm_bytes == 0);
  CHECK(out.io_errors > 0);
  CHECK(out.written_bytes == block_bytes);
  CHECK(out.cancelled_evictions == 0);  // nothing came back meanwhile
  CHECK_FALSE(f.pager.extents().is_failing());
  for (std::size_t at = 0; at < block_bytes; at += run_bytes) CHECK(f.state(block + at) == RunState::stored);
  const std::string said = captured.text();
  CHECK(said.find("writing to NVM failed: errno 5 (EIO)") != std::string::npos);
  CHECK(said.find("to the pool failed") == std::string::npos);
  CHECK(f.statistics().lost_runs == 0);
  CHECK(f.reads(block, 3, block_bytes));
  f.check();
}

TEST_CASE("What lies on NVM and cannot be written anew there goes to the drive as a whole", "[any_codec]") {
  NvmPager f;
  if (!f.ready()) return;
  std::byte* const block = f.allocate_filled(run_bytes, 4);
  f.page_out(block);
  REQUIRE(f.statistics().nvm_bytes == run_bytes);
  std::vector<std::byte> expected(run_bytes);
  f.with([&] {
    block[5 * os::page_bytes] = std::byte{0x5A};
    std::copy_n(block, run_bytes, expected.data());
  });
  f.failing.fail_from(tiers::FailingAdaptor::Operation::write, 1, EIO);
  f.page_out(block);
  CHECK(f.state(block) == RunState::stored);
  CHECK(f.statistics().nvm_bytes == 0);
  CHECK(f.statistics().written_bytes == run_bytes);
  CHECK(f.statistics().io_errors == 1);
  bool right = false;
  f.with([&] { right = std::equal(expected.begin(), expected.end(), block); });
  CHECK(right);
  f.check();
}

TEST_CASE("A drive that fails behind NVM that fails leaves data in DRAM", "[any_codec]") {
  NvmPager f;
  if (!f.ready()) return;
  test::CapturedStderr captured;
  f.failing.fail_from(tiers::FailingAdaptor::Operation::write, 1, EIO);
  f.failing_drive.fail_from(tiers::FailingAdaptor::Operation::write, 1, EIO);
  std::byte* const block = f.allocate_filled(block_bytes, 6);
  f.advise(block, block_bytes, TERRACE_ADVISE_PAGE_OUT);
  f.settle();
  CHECK(f.pager.extents().is_failing());
  CHECK(captured.text().find("writing to the pool failed") != std::string::npos);
  CHECK(f.reads(block, 6, block_bytes));
  CHECK(f.statistics().lost_runs == 0);
  f.check();
}
