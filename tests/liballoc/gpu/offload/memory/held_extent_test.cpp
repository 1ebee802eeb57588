// What brings tensors back: it is held, moved, and without memory until it is asked for.
#include "liballoc/gpu/offload/memory/held_extent.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

#include "tests/units.h"

using terrace::liballoc::offload::HeldExtent;
using terrace::liballoc::offload::Slab;
using terrace::tests::mib;
using terrace::tiers::Extent;

namespace {

struct OpenSlab : Slab {
  explicit OpenSlab(std::uint64_t bytes) {
    std::string reason;
    REQUIRE(open(bytes, nullptr, &reason) == 0);
  }
  Extent taken(std::uint64_t bytes) {
    Extent extent;
    if (reserve(bytes, &extent) == 0) return extent;
    REQUIRE(grow(bytes) == 0);
    REQUIRE(reserve(bytes, &extent) == 0);
    return extent;
  }
};

// As under a grant that has no room for it.
void withhold(OpenSlab& slab, HeldExtent& held) {
  slab.set_limit(1 * mib);
  held.withhold();
  slab.give_back_surplus();
}

}  // namespace

TEST_CASE("WhatIsHeldMovesBelowALimitOrIsWithheldAndHandedOutBeyondIt") {
  OpenSlab slab(16 * mib);
  const Extent first = slab.taken(6 * mib), second = slab.taken(2 * mib);
  HeldExtent held(&slab);
  held.hold(slab.taken(5 * mib));
  slab.set_limit(8 * mib);
  CHECK_FALSE(held.move_below_limit());
  slab.release(first);
  CHECK(held.move_below_limit());
  CHECK(held.extent() == Extent{0, 5 * mib});
  slab.give_back_surplus();
  CHECK(slab.committed_bytes() == 8 * mib);

  slab.set_limit(1 * mib);
  slab.release(second);
  CHECK_FALSE(held.move_below_limit());
  held.withhold();
  CHECK_FALSE(held.is_here());
  CHECK(held.bytes() == 5 * mib);
  slab.give_back_surplus();
  CHECK(slab.committed_bytes() == 0);
  REQUIRE(held.hand_out() == 0);
  CHECK(held.bytes() == 5 * mib);
  std::memset(slab.at(held.extent()), 1, 5 * mib);
  CHECK(slab.committed_bytes() == 5 * mib);
  CHECK(slab.is_over_limit());
  held.give_up();
  CHECK(held.hand_out() == ENOENT);
  slab.give_back_surplus();
  CHECK(slab.committed_bytes() == 0);
}

TEST_CASE("TheCapacityKeepsRoomForWhatIsWithheld") {
  OpenSlab slab(16 * mib);
  HeldExtent held(&slab), other(&slab);
  held.hold(slab.taken(5 * mib));
  other.hold(slab.taken(2 * mib));
  slab.set_limit(1 * mib);
  held.withhold();
  other.withhold();
  slab.give_back_surplus();
  slab.set_limit(16 * mib);
  CHECK(slab.limit_bytes() == 9 * mib);
  Extent all = slab.taken(9 * mib), more;
  CHECK(slab.grow(1) == ENOSPC);
  REQUIRE(held.hand_out() == 0);
  REQUIRE(other.hand_out() == 0);
  CHECK(slab.committed_bytes() == 16 * mib);
  CHECK(slab.limit_bytes() == 16 * mib);
  std::memset(slab.at(all), 1, all.bytes);
  std::memset(slab.at(held.extent()), 2, 5 * mib);
  CHECK(slab.at(all)[9 * mib - 1] == std::byte{1});
  held.give_up();
  CHECK(slab.reserve(5 * mib, &more) == 0);
}

TEST_CASE("WhatIsWithheldComesBackByItselfOnceTheLimitHasRoomForIt") {
  OpenSlab slab(16 * mib);
  HeldExtent held(&slab);
  held.hold(slab.taken(5 * mib));
  withhold(slab, held);
  slab.set_limit(4 * mib);
  held.come_back();
  CHECK_FALSE(held.is_here());
  slab.set_limit(8 * mib);
  held.come_back();
  CHECK(held.is_here());
  CHECK_FALSE(slab.is_over_limit());
}

TEST_CASE("WhatIsLeftBeyondTheLimitIsUsedForWhatIsHandedOut") {
  OpenSlab slab(16 * mib);
  const Extent first = slab.taken(5 * mib);
  HeldExtent held(&slab);
  held.hold(slab.taken(6 * mib));
  const Extent stuck = slab.taken(5 * mib);
  slab.release(first);
  withhold(slab, held);
  CHECK(slab.committed_bytes() == 16 * mib);  // what stands at the end holds it all
  REQUIRE(held.hand_out() == 0);
  CHECK_FALSE(held.extent() == stuck);
  CHECK(slab.used_bytes() == 11 * mib);
}

TEST_CASE("WhatIsSparedMakesNobodyMove") {
  OpenSlab slab(16 * mib);
  HeldExtent held(&slab);
  held.hold(slab.taken(5 * mib));
  const Extent all = slab.taken(11 * mib);
  held.spare();
  CHECK(held.is_here());
  CHECK_FALSE(slab.is_over_limit());
  slab.release(all);
  slab.trim_at_once();
  slab.give_back_surplus();
  held.spare();
  CHECK_FALSE(held.is_here());
  slab.give_back_surplus();
  CHECK(slab.committed_bytes() == 0);
  CHECK_FALSE(slab.is_over_limit());
  REQUIRE(held.hand_out() == 0);
}

TEST_CASE("WhileAChunkIsCommittedNothingIsHandedOut") {
  OpenSlab slab(16 * mib);
  HeldExtent held(&slab);
  held.hold(slab.taken(5 * mib));
  withhold(slab, held);
  slab.begin_growth();
  const Slab::Chunk coming = slab.growth_for(mib, false);
  REQUIRE(slab.commit(coming) == 0);
  CHECK(held.hand_out() == EAGAIN);
  slab.add(coming);
  slab.end_growth();
  const Extent first = slab.taken(mib);
  REQUIRE(held.hand_out() == 0);
  CHECK(held.extent().offset >= first.offset + first.bytes);
}

TEST_CASE("WhileAChunkIsGivenBackNothingIsHandedOut") {
  OpenSlab slab(16 * mib);
  HeldExtent held(&slab);
  held.hold(slab.taken(5 * mib));
  slab.set_limit(1 * mib);
  held.withhold();
  const Slab::Chunk going = slab.take_surplus();
  REQUIRE(going.bytes == 5 * mib);
  CHECK(held.hand_out() == EAGAIN);
  slab.decommit(going);
  slab.removed(going);
  CHECK(held.hand_out() == 0);
}

TEST_CASE("WhatIsFreeAtTheEndIsTrimmedAtOnce") {
  OpenSlab slab(16 * mib);
  const Extent first = slab.taken(mib);
  const Extent second = slab.taken(6 * mib), third = slab.taken(mib);
  slab.release(second);
  slab.release(third);
  CHECK(slab.spare_bytes() == 7 * mib);
  slab.give_back_surplus();
  CHECK(slab.committed_bytes() == 8 * mib);  // reached in this step
  slab.trim_at_once();
  slab.give_back_surplus();
  CHECK(slab.committed_bytes() == first.bytes);
  CHECK(slab.spare_bytes() == 0);
}
