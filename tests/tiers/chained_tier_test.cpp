// What a chain decides: which tier an extent lies on, what moves down and when, and that nothing is lost on
// the way.
#include "tiers/chain/chained_tier.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "as_drive.h"
#include "support.h"
#include "tiers/adaptors/failing_adaptor.h"
#include "tiers/memory/dram_tier.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

using Operation = FailingAdaptor::Operation;

// DRAM over a drive that is in memory, so that a transfer ends at the second poll() and not before.
struct Chain {
  explicit Chain(std::uint64_t upper_bytes, std::uint64_t lower_bytes = 64 * mib,
                 std::uint64_t largest_bytes = mib) {
    REQUIRE(upper.open(upper_bytes, 64, DramTier::Released::stays) == 0);
    REQUIRE(lower.open(lower_bytes, 64) == 0);
    const ChainedTier::Upper uppers[] = {{&upper, largest_bytes, &upper}};
    REQUIRE(tier.open(uppers, &drive) == 0);
  }
  ~Chain() { CHECK(tier.check_invariants()); }

  bool is_above(const Extent& extent) { return tier.medium_of(extent.offset) == Medium::dram; }

  Extent store(std::uint64_t seed, std::uint64_t bytes = mib) {
    Extent extent;
    REQUIRE(tier.reserve(bytes, &extent) == 0);
    Buffer buffer(bytes);
    buffer.fill(seed);
    REQUIRE(write(tier, extent, buffer) == 0);
    return extent;
  }
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
  CHECK(chain.tier.demoted_bytes() == moved * mib);
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
