// The promises of tier.h, one function each. What a promise means is the function's name.
#include "tier_conformance.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "support.h"

namespace terrace::tiers::test {
namespace {

constexpr std::uint64_t capacity = 32 * mib;

Extent reserve(Tier& tier, std::uint64_t bytes) {
  Extent extent;
  REQUIRE(tier.reserve(bytes, &extent) == 0);
  return extent;
}

struct Stored {
  Extent extent;
  std::uint64_t seed;
};

std::vector<Stored> store_random(Tier& tier, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Stored> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bytes = (random() % 256 + 1) * block_bytes;
    all.push_back({reserve(tier, bytes), random()});
    Buffer buffer(bytes);
    buffer.fill(all.back().seed);
    REQUIRE(write(tier, all.back().extent, buffer) == 0);
  }
  return all;
}

bool reads_back(Tier& tier, const Stored& stored) {
  Buffer buffer(stored.extent.bytes);
  return read(tier, stored.extent, buffer) == 0 && buffer.holds(stored.seed);
}

void round_trip_of_random_sizes(Tier& tier) {
  std::vector<Stored> all = store_random(tier, 24, 1);
  std::shuffle(all.begin(), all.end(), std::mt19937(2));
  for (const Stored& stored : all) CHECK(reads_back(tier, stored));
}

void a_transfer_of_four_mebibytes(Tier& tier) {
  const Stored stored{reserve(tier, 4 * mib), 3};
  Buffer buffer(4 * mib);
  buffer.fill(stored.seed);
  REQUIRE(write(tier, stored.extent, buffer) == 0);
  CHECK(reads_back(tier, stored));
}

void parts_of_an_extent_move_alone(Tier& tier) {
  const Extent whole = reserve(tier, 256 * kib);
  Buffer first(128 * kib);
  Buffer second(128 * kib);
  first.fill(4);
  second.fill(5);
  REQUIRE(write(tier, {whole.offset, 128 * kib}, first) == 0);
  REQUIRE(write(tier, {whole.offset + 128 * kib, 128 * kib}, second) == 0);
  Buffer middle(128 * kib);
  REQUIRE(read(tier, {whole.offset + 64 * kib, 128 * kib}, middle) == 0);
  CHECK(std::equal(middle.at(0), middle.at(64 * kib), first.at(64 * kib)));
  CHECK(std::equal(middle.at(64 * kib), middle.at(0) + 128 * kib, second.at(0)));
}

// What was given back is found again: at once, or by a later one where a tier takes turns over several
// places.
bool is_reserved_again(Tier& tier, const Extent& wanted) {
  std::vector<Extent> others;
  Extent extent;
  bool found = false;
  while (!found && tier.reserve(wanted.bytes, &extent) == 0) {
    found = extent == wanted;
    if (!found) others.push_back(extent);
  }
  for (const Extent& other : others) tier.release(other);
  return found;
}

void an_extents_end_is_given_back_alone(Tier& tier) {
  const std::uint64_t before = tier.space().used_bytes;
  const Extent whole = reserve(tier, 256 * kib);
  Buffer buffer(64 * kib);
  buffer.fill(6);
  REQUIRE(write(tier, {whole.offset, 64 * kib}, buffer) == 0);
  tier.release({whole.offset + 64 * kib, 192 * kib});
  CHECK(tier.space().used_bytes == before + 64 * kib);
  CHECK(is_reserved_again(tier, {whole.offset + 64 * kib, 192 * kib}));
  CHECK(reads_back(tier, {{whole.offset, 64 * kib}, 6}));
  tier.release(whole);  // two neighbours by now
  CHECK(tier.space().used_bytes == before);
}

void space_that_went_back_can_be_had_again(Tier& tier) {
  const std::uint64_t before = tier.space().used_bytes;
  const Extent first = reserve(tier, 2 * mib);
  Buffer buffer(2 * mib);
  buffer.fill(8);
  REQUIRE(write(tier, first, buffer) == 0);
  for (unsigned round = 0; round < 3; ++round) {
    tier.release(reserve(tier, 8 * mib));
    for (const bool all : {true, false, true})
      while (tier.give_space_back(all)) continue;
    CHECK(tier.space().used_bytes == before + 2 * mib);
    CHECK(reads_back(tier, {first, 8}));
    const Extent second = reserve(tier, 4 * mib);
    Buffer other(4 * mib);
    other.fill(round);
    REQUIRE(write(tier, second, other) == 0);
    tier.give_space_back(true);
    CHECK(reads_back(tier, {second, round}));
    tier.release(second);
  }
  CHECK(reads_back(tier, {first, 8}));
}

void many_in_flight_then_eagain(Tier& tier) {
  const std::size_t depth = tier.queue_depth();
  Buffer buffer(depth * 64 * kib);
  buffer.fill(6);
  const Extent extent = reserve(tier, buffer.bytes());
  REQUIRE(tier.in_flight() == 0);
  const auto piece = [&](std::size_t i) {
    return Transfer{Direction::write, {extent.offset + i * 64 * kib, 64 * kib}, buffer.at(i * 64 * kib), i};
  };
  for (std::size_t i = 0; i < depth; ++i) REQUIRE(tier.submit(piece(i)) == 0);
  CHECK(tier.in_flight() == depth);
  CHECK(tier.submit(piece(0)) == EAGAIN);
  std::set<std::uint64_t> tokens;
  for (const Completion& done : finish(tier)) {
    CHECK(done.error == 0);
    CHECK(tokens.insert(done.token).second);
  }
  CHECK(tokens.size() == depth);
  CHECK(*tokens.rbegin() == depth - 1);
  CHECK(tier.in_flight() == 0);
  CHECK(reads_back(tier, {extent, 6}));
}

void malformed_transfers_are_einval(Tier& tier) {
  const Extent good = reserve(tier, 128 * kib);
  Buffer buffer(128 * kib);
  const std::uint64_t end = tier.space().capacity_bytes;
  const Extent bad[] = {{good.offset + 1, block_bytes},
                        {good.offset + 512, block_bytes},
                        {good.offset, 0},
                        {good.offset, 100},
                        {end, block_bytes},
                        {end - block_bytes, 2 * block_bytes},
                        {block_bytes, UINT64_MAX / block_bytes * block_bytes}};
  for (const Direction direction : {Direction::read, Direction::write}) {
    for (const Extent& extent : bad) CHECK(tier.submit({direction, extent, buffer.data(), 0}) == EINVAL);
    CHECK(tier.submit({direction, good, buffer.at(1), 0}) == EINVAL);
    CHECK(tier.submit({direction, good, nullptr, 0}) == EINVAL);
  }
  CHECK(tier.in_flight() == 0);
  Completion none;
  CHECK(tier.poll({&none, 1}) == 0);
}

void reserving_nothing_is_einval(Tier& tier) {
  Extent extent{1, 2};
  CHECK(tier.reserve(0, &extent) == EINVAL);
  CHECK(extent == Extent{1, 2});
}

void full_is_enospc_and_release_recovers(Tier& tier) {
  const Stored kept = store_random(tier, 1, 7).front();
  const std::uint64_t before = tier.space().used_bytes;
  std::vector<Extent> all;
  Extent extent;
  while (tier.reserve(mib, &extent) == 0) all.push_back(extent);
  REQUIRE(all.size() >= 16);
  const Extent untouched{123, 456};
  extent = untouched;
  CHECK(tier.reserve(mib, &extent) == ENOSPC);
  CHECK(tier.reserve(UINT64_MAX, &extent) == ENOSPC);
  CHECK(extent == untouched);
  CHECK(tier.space().used_bytes <= tier.space().capacity_bytes);
  tier.release(all.back());
  CHECK(tier.reserve(mib, &all.back()) == 0);
  for (const Extent& one : all) tier.release(one);
  CHECK(tier.space().used_bytes == before);
  CHECK(reads_back(tier, kept));
}

using Model = std::map<std::uint64_t, std::uint64_t>;  // offset -> bytes

bool fits_between(const Model& model, const Extent& extent) {
  const auto next = model.lower_bound(extent.offset);
  if (next != model.end() && next->first < extent.offset + extent.bytes) return false;
  if (next == model.begin()) return true;
  const auto previous = std::prev(next);
  return previous->first + previous->second <= extent.offset;
}

void extents_never_overlap(Tier& tier) {
  std::mt19937 random(8);
  Model model;
  std::uint64_t reserved = 0;
  bool sound = true;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t bytes = random() % mib + 1;
    Extent extent;
    if (random() % 2 == 0 && tier.reserve(bytes, &extent) == 0) {
      sound = sound && extent.bytes == (bytes + block_bytes - 1) / block_bytes * block_bytes;
      sound = sound && extent.offset + extent.bytes <= tier.space().capacity_bytes;
      sound = sound && fits_between(model, extent);
      model.emplace(extent.offset, extent.bytes);
      reserved += extent.bytes;
    } else if (!model.empty()) {
      const auto victim = std::next(model.begin(), static_cast<long>(random() % model.size()));
      tier.release({victim->first, victim->second});
      reserved -= victim->second;
      model.erase(victim);
    }
    sound = sound && tier.space().used_bytes >= reserved;
  }
  CHECK(sound);
}

void reserve_and_release_run_beside_transfers(Tier& tier) {
  const std::vector<Stored> kept = store_random(tier, 4, 9);
  bool unfit = false;
  std::thread other([&] {
    std::mt19937 random(10);
    for (int i = 0; i < 2000; ++i) {
      Extent extent;
      if (tier.reserve(random() % mib + 1, &extent) != 0) continue;
      for (const Stored& stored : kept) unfit = unfit || extent.offset == stored.extent.offset;
      tier.release(extent);
    }
  });
  bool sound = true;
  for (int i = 0; i < 40; ++i) sound = reads_back(tier, kept[static_cast<std::size_t>(i) % 4]) && sound;
  other.join();
  CHECK(sound);
  CHECK_FALSE(unfit);
}

// Exit code of the child: which of its expectations failed first.
int child_of_a_fork(Tier& tier, const std::vector<Stored>& stored) {
  const int descriptors = open_descriptors();
  if (tier.reopen_after_fork() != 0) return 1;
  if (tier.in_flight() != 0) return 2;
  if (open_descriptors() > descriptors) return 7;
  for (const Stored& one : stored)
    if (!reads_back(tier, one)) return 3;
  Extent extent;
  if (tier.reserve(block_bytes, &extent) != EROFS) return 4;
  Buffer buffer(stored[0].extent.bytes);
  if (tier.submit({Direction::write, stored[0].extent, buffer.data(), 0}) != EROFS) return 5;
  tier.release(stored[0].extent);
  return reads_back(tier, stored[0]) ? 0 : 6;
}

void a_forked_child_reads_and_cannot_write(Tier& tier) {
  std::vector<Stored> stored = store_random(tier, 6, 11);
  Buffer busy(mib);
  busy.fill(12);
  const Stored in_flight{reserve(tier, mib), 12};
  REQUIRE(tier.submit({Direction::write, in_flight.extent, busy.data(), 13}) == 0);
  CHECK(in_child([&] { return child_of_a_fork(tier, stored); }) == 0);
  const std::vector<Completion> done = finish(tier);
  REQUIRE(done.size() == 1);
  CHECK(done[0].token == 13);
  CHECK(done[0].error == 0);
  stored.push_back(in_flight);
  stored.push_back(store_random(tier, 1, 14).front());
  for (const Stored& one : stored) CHECK(reads_back(tier, one));
}

void a_grandchild_reads_too(Tier& tier) {
  const std::vector<Stored> stored = store_random(tier, 2, 15);
  const int result = in_child([&] {
    if (tier.reopen_after_fork() != 0) return 1;
    const int inner = in_child([&] { return child_of_a_fork(tier, stored); });
    return inner != 0 ? 10 + inner : reads_back(tier, stored[1]) ? 0 : 2;
  });
  CHECK(result == 0);
}

// poll() is given less room than there are completions.
void completions_wait_for_room(Tier& tier) {
  const Extent extent = reserve(tier, 3 * block_bytes);
  Buffer buffer(3 * block_bytes);
  for (std::uint64_t i = 0; i < 3; ++i)
    REQUIRE(tier.submit({Direction::write,
                         {extent.offset + i * block_bytes, block_bytes},
                         buffer.at(i * block_bytes),
                         i}) == 0);
  CHECK(tier.poll({}) == 0);
  std::set<std::uint64_t> tokens;
  while (tokens.size() < 3) {
    Completion one;
    if (tier.poll({&one, 1}) == 1) REQUIRE(tokens.insert(one.token).second);
  }
  CHECK(tier.in_flight() == 0);
}

}  // namespace

void check_conformance(const MakeSubject& make) {
  const std::unique_ptr<Subject> subject = make(capacity);
  REQUIRE(subject != nullptr);
  Tier& tier = subject->tier();
  REQUIRE(tier.queue_depth() >= 4);
  SECTION("round trip of random sizes") { round_trip_of_random_sizes(tier); }
  SECTION("a transfer of 4 MiB") { a_transfer_of_four_mebibytes(tier); }
  SECTION("parts of an extent move alone") { parts_of_an_extent_move_alone(tier); }
  SECTION("an extent's end is given back alone") { an_extents_end_is_given_back_alone(tier); }
  SECTION("space that went back can be had again") { space_that_went_back_can_be_had_again(tier); }
  SECTION("many in flight, then EAGAIN") { many_in_flight_then_eagain(tier); }
  SECTION("completions wait for room") { completions_wait_for_room(tier); }
  SECTION("malformed transfers are EINVAL") { malformed_transfers_are_einval(tier); }
  SECTION("reserving nothing is EINVAL") { reserving_nothing_is_einval(tier); }
  SECTION("full is ENOSPC, and release recovers") { full_is_enospc_and_release_recovers(tier); }
  SECTION("extents never overlap") { extents_never_overlap(tier); }
  SECTION("reserve and release run beside transfers") { reserve_and_release_run_beside_transfers(tier); }
  SECTION("a forked child reads and cannot write") { a_forked_child_reads_and_cannot_write(tier); }
  SECTION("a grandchild reads too") { a_grandchild_reads_too(tier); }
}

}  // namespace terrace::tiers::test
