// What a chain decides: which tier an extent lies on, what moves down and when, and that nothing is lost on
// the way.
#include "tiers/chain/chained_tier.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "as_drive.h"
#include "support.h"
#include "tiers/adaptors/failing_adaptor.h"
#include "tiers/adaptors/slow_adaptor.h"
#include "tiers/memory/dram_tier.h"
#include "tiers/memory/nvm_file.h"
#include "tiers/memory/nvm_tier.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

using Operation = FailingAdaptor::Operation;

Extent store_in(ChainedTier& tier, std::uint64_t seed, std::uint64_t bytes) {
  Extent extent;
  REQUIRE(tier.reserve(bytes, &extent) == 0);
  Buffer buffer(bytes);
  buffer.fill(seed);
  REQUIRE(write(tier, extent, buffer) == 0);
  return extent;
}

// DRAM over a drive that is in memory, so that a transfer ends at the second poll() and not before.
struct Chain {
  explicit Chain(std::uint64_t upper_bytes, std::uint64_t lower_bytes = 64 * mib,
                 std::uint64_t largest_bytes = mib) {
    REQUIRE(upper.open(upper_bytes, 64, DramTier::Memory::of_slabs) == 0);
    REQUIRE(lower.open(lower_bytes, 64) == 0);
    const ChainedTier::Upper uppers[] = {{&upper, largest_bytes, &upper}};
    REQUIRE(tier.open(uppers, &drive) == 0);
  }
  ~Chain() { CHECK(tier.check_invariants()); }

  bool is_above(const Extent& extent) { return tier.medium_of(extent.offset) == Medium::dram; }

  Extent store(std::uint64_t seed, std::uint64_t bytes = mib) { return store_in(tier, seed, bytes); }
  // One that is on its way down, and not there yet.
  Extent store_leaving(std::uint64_t seed) {
    const Extent extent = store(seed);
    tier.set_memory_limit(0);
    poll();
    return extent;
  }
  bool holds(const Extent& extent, std::uint64_t seed) {
    Buffer buffer(extent.bytes);
    return read(tier, extent, buffer) == 0 && buffer.holds(seed);
  }
  void poll() { REQUIRE(tier.poll({}) == 0); }
  // Takes what is under way to its end.
  void settle() {
    Completion none;
    for (int i = 0; i < 200; ++i) REQUIRE(tier.poll({&none, 1}) == 0);
  }

  DramTier upper;
  DramTier lower;
  AsDrive below{lower};
  FailingAdaptor drive{below};
  ChainedTier tier;
};

// NVM over such a drive: what moves down from there has to be read first.
struct NvmChain {
  explicit NvmChain(std::uint64_t nvm_bytes, std::uint64_t dram_bytes = 0) {
    int fd = -1;
    REQUIRE(open_nvm_in_directory("/dev/shm", &fd) == 0);
    REQUIRE(nvm.open(fd, nvm_bytes) == 0);
    REQUIRE(lower.open(64 * mib, 64) == 0);
    std::vector<ChainedTier::Upper> uppers;
    if (dram_bytes != 0) {
      REQUIRE(dram.open(dram_bytes, 64, DramTier::Memory::of_slabs) == 0);
      uppers.push_back({&dram, mib, &dram});
    }
    uppers.push_back({.tier = &damaged});
    REQUIRE(tier.open(uppers, &drive) == 0);
  }
  ~NvmChain() { CHECK(tier.check_invariants()); }

  Medium medium(const Extent& extent) { return tier.medium_of(extent.offset); }
  Extent store(std::uint64_t seed, std::uint64_t bytes = mib) { return store_in(tier, seed, bytes); }
  bool holds(const Extent& extent, std::uint64_t seed) {
    Buffer buffer(extent.bytes);
    return read(tier, extent, buffer) == 0 && buffer.holds(seed);
  }
  void pass_through(int times) {
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(times); ++i) {
      const Extent extent = store(1000 + i);
      CHECK(holds(extent, 1000 + i));
      tier.release(extent);
    }
  }
  void settle() {
    Completion none;
    for (int i = 0; i < 200; ++i) REQUIRE(tier.poll({&none, 1}) == 0);
  }

  DramTier dram, lower;
  NvmTier nvm;
  FailingAdaptor damaged{nvm};
  AsDrive below{lower};
  FailingAdaptor drive{below};
  ChainedTier tier;
};

// Stores, reads and releases: what a training step does with what it needs again.
void pass_through(Chain& chain, int times) {
  for (int i = 0; i < times; ++i) {
    const Extent extent = chain.store(1000 + static_cast<std::uint64_t>(i));
    CHECK(chain.holds(extent, 1000 + static_cast<std::uint64_t>(i)));
    chain.tier.release(extent);
  }
}

}  // namespace

TEST_CASE("An extent lies on the first tier that takes it and has room") {
  Chain chain(2 * mib);
  const Extent large = chain.store(1, 2 * mib);
  const Extent first = chain.store(2);
  const Extent second = chain.store(3);
  const Extent third = chain.store(4);
  CHECK_FALSE(chain.is_above(large));
  CHECK(chain.is_above(first));
  CHECK(chain.is_above(second));
  CHECK_FALSE(chain.is_above(third));
  CHECK(chain.holds(large, 1));
  CHECK(chain.holds(first, 2));
  CHECK(chain.holds(third, 4));
  CHECK(chain.tier.space().used_bytes == 5 * mib);
  CHECK(chain.tier.limited_space().used_bytes == 3 * mib);
  CHECK(chain.tier.bytes_on(Medium::dram) == 2 * mib);
  chain.tier.release(first);
  CHECK(chain.tier.memory_room() == mib);
  CHECK(chain.is_above(chain.store(5)));
}

TEST_CASE("What nobody reads again moves down once something newer found no room") {
  Chain chain(4 * mib);
  std::vector<Extent> cold;
  for (std::uint64_t i = 0; i < 4; ++i) cold.push_back(chain.store(i));
  pass_through(chain, 2);
  for (const Extent& extent : cold)
    CHECK(chain.is_above(extent));  // for all that is known it may be wanted next
  pass_through(chain, 30);
  const std::uint64_t moved = chain.tier.counts().demotions;
  CHECK(moved > 0);
  CHECK(chain.tier.demoted().to_drives_bytes == moved * mib);
  for (std::uint64_t i = 0; i < 4; ++i)
    CHECK(chain.is_above(cold[i]) == (i >= moved));  // the oldest go first
  const Extent wanted = chain.store(9);
  CHECK(chain.is_above(wanted));
  CHECK(chain.tier.limited_space().used_bytes == moved * mib);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(chain.holds(cold[i], i));
}

TEST_CASE("What is wanted in a cycle stays where it is") {
  Chain chain(4 * mib);
  std::vector<Extent> all;
  for (std::uint64_t i = 0; i < 12; ++i) all.push_back(chain.store(i));
  for (int cycle = 0; cycle < 8; ++cycle) {
    for (std::uint64_t i = 0; i < all.size(); ++i) {
      CHECK(chain.holds(all[i], i));
      if (!chain.is_above(all[i])) continue;  // what lies in DRAM comes back as the only copy
      chain.tier.release(all[i]);
      all[i] = chain.store(i);
      CHECK(chain.is_above(all[i]));
    }
  }
  CHECK(chain.tier.counts().demotions == 0);
}

TEST_CASE("What was stored first is read last, and no byte moves twice") {
  Chain chain(4 * mib);
  for (int step = 0; step < 6; ++step) {
    std::vector<Extent> stack;
    for (std::uint64_t i = 0; i < 12; ++i) stack.push_back(chain.store(i));
    for (std::uint64_t i = 12; i-- > 0;) {
      CHECK(chain.holds(stack[i], i));
      chain.tier.release(stack[i]);
    }
  }
  CHECK(chain.tier.counts().demotions == 0);
}

TEST_CASE("A lower limit moves away what lies beyond, and gives the memory back") {
  Chain chain(8 * mib);
  std::vector<Extent> all;
  for (std::uint64_t i = 0; i < 8; ++i) all.push_back(chain.store(i));
  CHECK(chain.tier.bytes_on(Medium::dram) == 8 * mib);
  chain.tier.set_memory_limit(2 * mib);
  chain.settle();
  CHECK(chain.tier.bytes_on(Medium::dram) == 2 * mib);
  CHECK(chain.tier.counts().demotions == 6);
  for (std::uint64_t i = 0; i < 8; ++i) CHECK(chain.holds(all[i], i));
  CHECK_FALSE(chain.is_above(chain.store(9)));
  chain.tier.set_memory_limit(8 * mib);
  CHECK(chain.is_above(chain.store(10)));
}

TEST_CASE("What is released on its way down is gone, and its place is free") {
  Chain chain(4 * mib);
  std::vector<Extent> all;
  for (std::uint64_t i = 0; i < 4; ++i) all.push_back(chain.store(i));
  chain.tier.set_memory_limit(0);
  chain.poll();  // begins
  for (const Extent& extent : all) chain.tier.release(extent);
  const Extent other = chain.store(7);  // in the same place of the table
  chain.settle();
  CHECK(chain.tier.counts().demotions == 0);
  CHECK(chain.tier.space().used_bytes == mib);
  CHECK(chain.holds(other, 7));
}

TEST_CASE("What is written on its way down is what is read afterwards") {
  Chain chain(2 * mib);
  const Extent extent = chain.store_leaving(1);
  Buffer buffer(mib);
  buffer.fill(2);
  REQUIRE(write(chain.tier, extent, buffer) == 0);
  CHECK(chain.holds(extent, 2));
  chain.settle();
  CHECK_FALSE(chain.is_above(extent));
  CHECK(chain.holds(extent, 2));
}

TEST_CASE("The end of an extent is released on its way down, and the rest keeps its bytes") {
  Chain chain(2 * mib);
  const Extent extent = chain.store_leaving(1);
  chain.tier.release({extent.offset + 512 * kib, 512 * kib});
  chain.settle();
  CHECK_FALSE(chain.is_above(extent));
  CHECK(chain.tier.space().used_bytes == 512 * kib);
  CHECK(chain.holds({extent.offset, 512 * kib}, 1));
}

TEST_CASE("A drive that does not take it leaves it where it is, and is not asked at once again") {
  const Operation refused = GENERATE(Operation::reserve, Operation::submit, Operation::write);
  Chain chain(4 * mib);
  std::vector<Extent> all;
  for (std::uint64_t i = 0; i < 4; ++i) all.push_back(chain.store(i));
  chain.drive.fail_from(refused, 1, refused == Operation::reserve ? ENOSPC : EIO);
  chain.tier.set_memory_limit(2 * mib);
  chain.settle();
  CHECK(chain.tier.counts().demotions == 0);
  CHECK(chain.tier.counts().failed <= Demotions::most);
  CHECK(chain.tier.limited_space().used_bytes == 0);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(chain.holds(all[i], i));
  chain.drive.heal();
  for (int i = 0; i < 256; ++i) chain.tier.release(chain.store(9));  // 256 MiB later
  chain.settle();
  CHECK(chain.tier.counts().demotions == 2);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(chain.holds(all[i], i));
}

TEST_CASE("Tokens of its own and places that were not given out are refused") {
  Chain chain(2 * mib);
  const Extent extent = chain.store(1);
  Buffer buffer(mib);
  CHECK(chain.tier.submit({Direction::read, extent, buffer.data(), ChainedTier::own_tokens}) == EINVAL);
  CHECK(chain.tier.submit({Direction::read, {extent.offset + 16 * mib, mib}, buffer.data(), 0}) == EINVAL);
  CHECK(chain.tier.submit({Direction::read, {extent.offset, 2 * mib}, buffer.data(), 0}) == EINVAL);
  const ChainedTier::Upper none[] = {{nullptr}};
  CHECK(ChainedTier().open(none, &chain.lower) == EINVAL);
  CHECK(ChainedTier().open({}, &chain.lower) == EINVAL);
}

TEST_CASE("A child that is forked while extents move down reads all of them") {
  Chain chain(4 * mib);
  std::vector<Extent> all;
  for (std::uint64_t i = 0; i < 6; ++i) all.push_back(chain.store(i));
  chain.tier.set_memory_limit(mib);
  chain.poll();
  CHECK(in_child([&] {
          if (chain.tier.reopen_after_fork() != 0) return 1;
          if (chain.tier.in_flight() != 0) return 2;
          for (std::uint64_t i = 0; i < 6; ++i)
            if (!chain.holds(all[i], i)) return 3;
          return 0;
        }) == 0);
  chain.settle();
  CHECK(chain.tier.counts().demotions == 3);
  for (std::uint64_t i = 0; i < 6; ++i) CHECK(chain.holds(all[i], i));
}

TEST_CASE("What has no room in compressed DRAM goes to NVM and from there on to the drive") {
  NvmChain chain(4 * mib, 2 * mib);
  const Extent large = chain.store(1, 2 * mib);
  std::vector<Extent> all;
  for (std::uint64_t i = 0; i < 6; ++i) all.push_back(chain.store(10 + i));
  CHECK(chain.medium(large) == Medium::nvm);
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(chain.medium(all[i]) == (i < 2 ? Medium::dram : i < 4 ? Medium::nvm : Medium::drive));
  CHECK(chain.holds(large, 1));
  for (std::uint64_t i = 0; i < all.size(); ++i) CHECK(chain.holds(all[i], 10 + i));
  CHECK(chain.tier.bytes_on(Medium::nvm) == 4 * mib);
  CHECK(chain.tier.bytes_on(Medium::drive) == 2 * mib);
  CHECK(chain.tier.limited_space().used_bytes == 2 * mib);
  CHECK(chain.tier.memory_room() == 0);
}

TEST_CASE("What is cold on NVM moves on to the drive and is right there") {
  NvmChain chain(4 * mib);
  std::vector<Extent> cold;
  for (std::uint64_t i = 0; i < 4; ++i) cold.push_back(chain.store(i));
  chain.pass_through(40);
  chain.settle();
  const Demoted moved = chain.tier.demoted();
  CHECK(moved.to_drives_bytes > 0);
  CHECK(moved.from_nvm_bytes == moved.to_drives_bytes);
  CHECK(moved.to_nvm_bytes == 0);
  CHECK(chain.medium(cold[0]) == Medium::drive);
  CHECK(chain.medium(chain.store(9)) == Medium::nvm);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(chain.holds(cold[i], i));
  CHECK(chain.tier.bytes_on(Medium::dram) == 0);  // what it was read into is given back
}

TEST_CASE("What leaves compressed DRAM goes to NVM where that has room") {
  NvmChain chain(8 * mib, 4 * mib);
  std::vector<Extent> all;
  for (std::uint64_t i = 0; i < 4; ++i) all.push_back(chain.store(i));
  chain.tier.set_memory_limit(mib);
  chain.settle();
  CHECK(chain.tier.demoted().to_nvm_bytes == 3 * mib);
  CHECK(chain.tier.demoted().to_drives_bytes == 0);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(chain.holds(all[i], i));
}

TEST_CASE("Nothing moves from where a forked child reads it, and what was on its way stays") {
  NvmChain chain(4 * mib);
  std::vector<Extent> cold;
  for (std::uint64_t i = 0; i < 4; ++i) cold.push_back(chain.store(i));
  chain.tier.set_read_by_children(true);
  chain.pass_through(40);
  CHECK(chain.tier.counts().demotions == 0);
  chain.tier.set_read_by_children(false);
  REQUIRE(chain.tier.poll({}) == 0);
  REQUIRE(chain.nvm.in_flight() > 0);  // begins
  chain.tier.set_read_by_children(true);
  chain.settle();
  CHECK(chain.tier.counts().demotions == 0);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(chain.medium(cold[i]) == Medium::nvm);
  CHECK(in_child([&] {
          if (chain.tier.reopen_after_fork() != 0) return 1;
          for (std::uint64_t i = 0; i < 4; ++i)
            if (!chain.holds(cold[i], i)) return 2;
          return 0;
        }) == 0);
  chain.tier.set_read_by_children(false);
  chain.pass_through(40);
  CHECK(chain.tier.counts().demotions > 0);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(chain.holds(cold[i], i));
}

TEST_CASE("NVM that cannot be read keeps what is cold there") {
  NvmChain chain(4 * mib);
  std::vector<Extent> cold;
  for (std::uint64_t i = 0; i < 4; ++i) cold.push_back(chain.store(i));
  chain.pass_through(8);  // on the drive: how long extents stay is known
  chain.damaged.fail_from(Operation::read, 1, EIO);
  chain.pass_through(40);
  chain.settle();
  CHECK(chain.tier.counts().demotions == 0);
  CHECK(chain.tier.counts().failed > 0);
  chain.damaged.heal();
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(chain.holds(cold[i], i));
}

TEST_CASE("NVM where a transfer failed is passed over for a while") {
  NvmChain chain(8 * mib);
  chain.damaged.fail_from(Operation::write, 1, ENOSPC);
  Extent extent;
  REQUIRE(chain.tier.reserve(mib, &extent) == 0);
  Buffer buffer(mib);
  buffer.fill(1);
  CHECK_FALSE(chain.tier.is_passed_over(extent.offset));
  CHECK(write(chain.tier, extent, buffer) == ENOSPC);
  CHECK(chain.tier.is_passed_over(extent.offset));  // what lies there is written anew elsewhere
  chain.tier.release(extent);
  CHECK_FALSE(chain.tier.is_passed_over(extent.offset));
  const Extent lower = chain.store(2);
  CHECK(chain.medium(lower) == Medium::drive);
  CHECK_FALSE(chain.tier.is_passed_over(lower.offset));
  chain.damaged.heal();
  chain.pass_through(254);
  CHECK(chain.medium(chain.store(3)) == Medium::drive);
  CHECK(chain.medium(chain.store(4)) == Medium::nvm);  // 256 MiB later
}

TEST_CASE("NVM that refuses a transfer is passed over like one where it failed") {
  NvmChain chain(8 * mib);
  const Extent extent = chain.store(1);
  REQUIRE(chain.medium(extent) == Medium::nvm);
  Buffer buffer(extent.bytes);
  chain.damaged.heal();
  chain.damaged.fail_nth(Operation::submit, 1, EAGAIN);  // that is no failure
  CHECK(write(chain.tier, extent, buffer) == EAGAIN);
  CHECK_FALSE(chain.tier.is_passed_over(extent.offset));
  chain.damaged.heal();
  chain.damaged.fail_nth(Operation::submit, 1, EBADF);
  CHECK(write(chain.tier, extent, buffer) == EBADF);
  CHECK(chain.tier.is_passed_over(extent.offset));
  CHECK(chain.medium(chain.store(2)) == Medium::drive);
}

TEST_CASE("A tier that does not finish in submit() is none to put before another") {
  DramTier upper, lower;
  REQUIRE(upper.open(mib, 64) == 0);
  REQUIRE(lower.open(mib, 64) == 0);
  SlowAdaptor slow(upper, {.latency_ns = 1});
  REQUIRE(slow.open() == 0);
  const ChainedTier::Upper uppers[] = {{.tier = &slow}};
  CHECK(ChainedTier().open(uppers, &lower) == EINVAL);
}

TEST_CASE("Random histories over NVM keep every byte") {
  const unsigned seed = GENERATE(range(1U, 4U));
  std::mt19937 random(seed);
  NvmChain chain(6 * mib, 3 * mib);
  std::map<std::uint64_t, std::pair<Extent, std::uint64_t>> model;
  for (int step = 0; step < 800; ++step) {
    const unsigned what = random() % 16;
    const auto one =
        model.empty() ? model.end() : std::next(model.begin(), static_cast<long>(random() % model.size()));
    if (one == model.end() || (what < 6 && model.size() < 40)) {
      const std::uint64_t content = random();
      const Extent extent = chain.store(content, (random() % 250 + 1) * block_bytes);
      model[extent.offset] = {extent, content};
    } else if (what < 9) {
      REQUIRE(chain.holds(one->second.first, one->second.second));
    } else if (what < 11) {  // written anew, on its way down or not
      Buffer buffer(one->second.first.bytes);
      buffer.fill(one->second.second = random());
      REQUIRE(write(chain.tier, one->second.first, buffer) == 0);
    } else if (what < 14) {
      chain.tier.release(one->second.first);
      model.erase(one);
    } else if (what == 14) {
      chain.tier.set_memory_limit((random() % 4) * mib);
    } else {
      chain.pass_through(static_cast<int>(random() % 12));
    }
    if (step % 100 == 0) REQUIRE(chain.tier.check_invariants());
  }
  for (const auto& [offset, one] : model) CHECK(chain.holds(one.first, one.second));
  CHECK(chain.tier.demoted().to_drives_bytes + chain.tier.demoted().to_nvm_bytes > 0);
}

// Everything at once, against a model of what was stored.
TEST_CASE("Random histories keep every byte") {
  const unsigned seed = GENERATE(range(1U, 9U));
  std::mt19937 random(seed);
  Chain chain(8 * mib, 48 * mib);
  struct Stored {
    std::uint64_t bytes = 0;
    std::uint64_t seed = 0;
  };
  std::map<std::uint64_t, Stored> model;
  const auto any = [&] { return std::next(model.begin(), static_cast<long>(random() % model.size())); };
  for (int step = 0; step < 1500; ++step) {
    const unsigned what = random() % 16;
    Extent extent;
    if (model.empty() || what < 6) {
      const std::uint64_t bytes = (random() % 500 + 1) * block_bytes;
      if (chain.tier.reserve(bytes, &extent) != 0) continue;
      chain.tier.release(extent);
      extent = chain.store(random(), bytes);
      model[extent.offset] = {extent.bytes, 0};
      Buffer buffer(extent.bytes);
      buffer.fill(model[extent.offset].seed = random());
      REQUIRE(write(chain.tier, extent, buffer) == 0);
    } else if (what < 11) {
      const auto one = any();
      REQUIRE(chain.holds({one->first, one->second.bytes}, one->second.seed));
    } else if (what < 14) {
      const auto one = any();
      const std::uint64_t kept = random() % 4 == 0 && one->second.bytes > 128 * kib ? 64 * kib : 0;
      chain.tier.release({one->first + kept, one->second.bytes - kept});
      if (kept == 0) model.erase(one);
      if (kept != 0) one->second.bytes = kept;
    } else if (what == 14) {
      chain.tier.set_memory_limit((random() % 9) * mib);
    } else {
      Completion none;
      REQUIRE(chain.tier.poll({&none, 1}) == 0);
    }
    if (step % 100 == 0) REQUIRE(chain.tier.check_invariants());
  }
  for (const auto& [offset, one] : model) CHECK(chain.holds({offset, one.bytes}, one.seed));
  CHECK(chain.tier.counts().demotions > 0);
}
