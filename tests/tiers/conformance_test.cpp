// The conformance suite over every tier that stores bytes, and over adaptors around one.
#include <catch2/catch.hpp>

#include "support.h"
#include "tier_conformance.h"
#include "tiers/adaptors/failing_adaptor.h"
#include "tiers/adaptors/slow_adaptor.h"
#include "tiers/adaptors/trace_adaptor.h"
#include "tiers/chain/chained_tier.h"
#include "tiers/memory/dram_tier.h"
#include "tiers/memory/nvm_file.h"
#include "tiers/memory/nvm_tier.h"
#include "tiers/striped_tier.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

struct Dram : Subject {
  explicit Dram(std::uint64_t capacity) { REQUIRE(dram_.open(capacity, 16) == 0); }
  Tier& tier() override { return dram_; }
  DramTier dram_;
};

struct Nvme : Subject {
  Nvme(std::uint64_t capacity, NvmeTier::Io io, bool direct = true, const char* dir = TERRACE_TEST_POOL_DIR) {
    REQUIRE(open_nvme(nvme_, {.capacity_bytes = capacity, .grow_step_bytes = 8 * mib, .io = io}, direct,
                      dir) == 0);
    if (!direct) REQUIRE_FALSE(nvme_.direct());
  }
  Tier& tier() override { return nvme_; }
  NvmeTier nvme_;
};

// An adaptor around `Base`, built from whatever follows the capacity.
template <class Adaptor, class Base>
struct Adapted : Subject {
  template <class... Arguments>
  explicit Adapted(std::unique_ptr<Base> base, const Arguments&... arguments)
      : base_(std::move(base)), adaptor_(base_->tier(), arguments...) {}
  Tier& tier() override { return adaptor_; }
  std::unique_ptr<Base> base_;
  Adaptor adaptor_;
};

// Drives in directories of their own.
struct Striped : Subject {
  Striped(std::uint64_t capacity, std::initializer_list<NvmeTier::Io> drives, bool direct = true) {
    for (const NvmeTier::Io io : drives) {
      directories_.push_back(std::make_unique<TemporaryDirectory>());
      drives_.push_back(
          std::make_unique<Nvme>(capacity / drives.size(), io, direct, directories_.back()->path()));
    }
    std::vector<StripedTier::Drive> members;
    for (const auto& drive : drives_) members.push_back({&drive->nvme_});
    REQUIRE(striped_.open(members) == 0);
  }
  Tier& tier() override { return striped_; }
  std::vector<std::unique_ptr<TemporaryDirectory>> directories_;
  std::vector<std::unique_ptr<Nvme>> drives_;
  StripedTier striped_;
};

// A quarter in DRAM, for extents of at most `largest_bytes`, a quarter in NVM, the rest on a drive.
struct Chained : Subject {
  Chained(std::uint64_t capacity, NvmeTier::Io io, std::uint64_t largest_bytes)
      : drive_(capacity, io), chain_(std::make_unique<ChainedTier>()) {
    REQUIRE(first_.open(capacity / 4, 64, DramTier::Memory::of_slabs) == 0);
    int fd = -1;
    REQUIRE(open_nvm_in_directory(TERRACE_TEST_POOL_DIR, &fd) == 0);
    REQUIRE(second_.open(fd, capacity / 4) == 0);
    const ChainedTier::Upper uppers[] = {{&first_, largest_bytes, &first_}, {&second_, largest_bytes}};
    REQUIRE(chain_->open(uppers, &drive_.nvme_) == 0);
  }
  Tier& tier() override { return *chain_; }
  Nvme drive_;
  DramTier first_;
  NvmTier second_;
  std::unique_ptr<ChainedTier> chain_;
};

bool io_uring_works() {
  NvmeTier tier;
  return open_nvme(tier, {.capacity_bytes = mib, .grow_step_bytes = 0, .io = NvmeTier::Io::io_uring}) == 0;
}

}  // namespace

TEST_CASE("Dram conforms") {
  check_conformance([](std::uint64_t capacity) { return std::make_unique<Dram>(capacity); });
}

TEST_CASE("NvmeOverIoUring conforms") {
  if (!io_uring_works()) {
    puts("SKIP: io_uring is refused on this machine");
    return;
  }
  check_conformance(
      [](std::uint64_t capacity) { return std::make_unique<Nvme>(capacity, NvmeTier::Io::io_uring); });
}

TEST_CASE("NvmeOverPread conforms") {
  check_conformance(
      [](std::uint64_t capacity) { return std::make_unique<Nvme>(capacity, NvmeTier::Io::pread); });
}

TEST_CASE("NvmeThroughThePageCache conforms") {
  const NvmeTier::Io io = GENERATE(NvmeTier::Io::automatic, NvmeTier::Io::pread);
  check_conformance([io](std::uint64_t capacity) { return std::make_unique<Nvme>(capacity, io, false); });
}

TEST_CASE("NvmeOnTmpfs conforms") {
  check_conformance([](std::uint64_t capacity) {
    return std::make_unique<Nvme>(capacity, NvmeTier::Io::automatic, false, "/dev/shm");
  });
}

TEST_CASE("StripedOverTwo conforms") {
  const NvmeTier::Io io = GENERATE(NvmeTier::Io::automatic, NvmeTier::Io::pread);
  check_conformance([io](std::uint64_t capacity) {
    return std::make_unique<Striped>(capacity, std::initializer_list<NvmeTier::Io>{io, io});
  });
}

TEST_CASE("Chained conforms") {
  const NvmeTier::Io io = GENERATE(NvmeTier::Io::automatic, NvmeTier::Io::pread);
  const std::uint64_t largest = GENERATE(64 * kib, 512 * kib, UINT64_MAX);
  check_conformance(
      [io, largest](std::uint64_t capacity) { return std::make_unique<Chained>(capacity, io, largest); });
}

// The second has no ring: as where the limit on locked memory or on descriptors is reached.
TEST_CASE("StripedOverThreeThatDiffer conforms") {
  check_conformance([](std::uint64_t capacity) {
    return std::make_unique<Striped>(
        capacity, std::initializer_list<NvmeTier::Io>{NvmeTier::Io::automatic, NvmeTier::Io::pread,
                                                      NvmeTier::Io::automatic});
  });
}

TEST_CASE("StripedThroughThePageCache conforms") {
  check_conformance([](std::uint64_t capacity) {
    const std::initializer_list<NvmeTier::Io> drives{NvmeTier::Io::automatic, NvmeTier::Io::automatic};
    return std::make_unique<Striped>(capacity, drives, false);
  });
}

TEST_CASE("SlowStriped conforms") {
  const SlowAdaptor::Speed speed{100'000, 4'000'000'000};
  check_conformance([&](std::uint64_t capacity) {
    auto subject = std::make_unique<Adapted<SlowAdaptor, Striped>>(
        std::make_unique<Striped>(
            capacity, std::initializer_list<NvmeTier::Io>{NvmeTier::Io::automatic, NvmeTier::Io::automatic}),
        speed);
    REQUIRE(subject->adaptor_.open() == 0);
    return subject;
  });
}

TEST_CASE("SlowDram conforms") {
  const SlowAdaptor::Speed speed{100'000, 4'000'000'000};
  check_conformance([&](std::uint64_t capacity) {
    auto subject = std::make_unique<Adapted<SlowAdaptor, Dram>>(std::make_unique<Dram>(capacity), speed);
    REQUIRE(subject->adaptor_.open() == 0);
    return subject;
  });
}

TEST_CASE("SlowNvme conforms") {
  const SlowAdaptor::Speed speed{100'000, 4'000'000'000};
  check_conformance([&](std::uint64_t capacity) {
    auto subject = std::make_unique<Adapted<SlowAdaptor, Nvme>>(
        std::make_unique<Nvme>(capacity, NvmeTier::Io::automatic), speed);
    REQUIRE(subject->adaptor_.open() == 0);
    return subject;
  });
}

TEST_CASE("TracedNvme conforms") {
  check_conformance([](std::uint64_t capacity) {
    return std::make_unique<Adapted<TraceAdaptor, Nvme>>(
        std::make_unique<Nvme>(capacity, NvmeTier::Io::automatic));
  });
}

TEST_CASE("FailingNvmeWithoutAPlan conforms") {
  check_conformance([](std::uint64_t capacity) {
    return std::make_unique<Adapted<FailingAdaptor, Nvme>>(
        std::make_unique<Nvme>(capacity, NvmeTier::Io::automatic));
  });
}
