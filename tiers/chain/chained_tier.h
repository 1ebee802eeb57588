// Several kinds of memory as one tier, the fastest first: compressed DRAM, then NVM, then the drives.
//
//   reserve()   the first tier that takes an extent of this size and has room, the last one else
//   failure     a tier above the last where a transfer failed is passed over for a while, and so is the place
//               of what lies there and is written anew (is_passed_over())
//   demotion    what has become cold above moves one tier down while the drive has little to do, and what
//               lies beyond a tier's limit moves down at once
//
// Nothing moves up by itself: what is read comes to the caller, who stores it anew, or keeps the copy below.
// An extent keeps its offset while it moves. Offsets are units of a space of the chain's own, and a table
// says on which tier a unit lies and where:
//
//      offsets  |aaaa|bb|cccccc|dd|...            as reserve() gives them out
//      tier 0   |cccccc|aaaa|                     dram
//      tier 1   |dd|bb|                           drive
//
// Full and cold. Where extents come and go in the order of a training step (what is stored last is read
// first), or in a cycle, the best that a fast tier can do is to stay full: what has no room goes past it, and
// no byte moves twice. What spoils that is data that nobody reads again. Time is counted in what came to the
// chain, in units. An extent that is read tells how long extents stay before they are wanted. One above is
// cold that has stayed several times as long, and until several times of what the chain holds came after it:
// at the turn of a step the last ones stay for a moment, and the first ones until all others were read. A
// cold one leaves when a newer one found no room.
//
// What moves down from DRAM is written from where it lies. From another tier it is read first, into memory
// that is given back as soon as it is written, and that counts as DRAM meanwhile.
//
// A forked child has its own copy of what lies in DRAM, and of the table. What lies elsewhere it reads where
// it lay at the fork, so that nothing moves down from there as long as one may.
//
// Like an adaptor this owns nothing: the tiers outlive it. All but the last finish a transfer inside submit()
// (their wait_fd() is -1). Threads as in tier.h: the two groups of calls share the table under a lock of
// their own. Tokens from `own_tokens` on are not the caller's. No malloc anywhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tiers/chain/demotions.h"
#include "tiers/chain/occupants.h"
#include "tiers/chain/place_map.h"
#include "tiers/chain/spin_lock.h"
#include "tiers/extent_allocator.h"
#include "tiers/mapping.h"
#include "tiers/memory/dram_tier.h"
#include "tiers/tier.h"

namespace terrace::tiers {

// How long extents stay before they are read again: the longest of late.
class Stays {
 public:
  void note(std::uint32_t units) noexcept;
  // `stored`: units in the chain.
  bool is_cold(std::uint64_t units, std::uint64_t stored) const noexcept;

 private:
  std::uint32_t longest_ = 0;  // 0: nothing was read
};

class ChainedTier final : public Tier {
 public:
  static constexpr std::size_t most_uppers = 3;
  static constexpr std::uint64_t own_tokens = UINT64_MAX - Demotions::most + 1;
  // Of an extent that moves down from a tier that is not DRAM; larger ones stay.
  static constexpr std::uint64_t most_read_bytes = std::uint64_t{4} << 20;

  struct Upper {
    Tier* tier = nullptr;
    std::uint64_t largest_bytes = UINT64_MAX;  // of an extent that it takes
    DramTier* dram = nullptr;                  // the same, where it is one
  };

  struct Counts {
    std::uint64_t demotions = 0;
    std::uint64_t failed = 0;
    Demoted moved = {};
  };

  constexpr ChainedTier() = default;
  ~ChainedTier() override { close(); }

  // The tiers are open and empty. 0; EINVAL: none above, too many, one missing, one above the last that does
  // not finish in submit(), or a queue too short to share; ENOMEM; EBUSY: open already.
  int open(std::span<const Upper> uppers, Tier* last) noexcept;
  // Leaves the tiers open. Also done on destruction.
  void close() noexcept;

  const char* name() const noexcept override { return "chain"; }
  const char* io() const noexcept override { return last_->io(); }
  Space space() const noexcept override;
  // Of the last tier: the drives' space is what several share.
  Space limited_space() const noexcept override { return last_->limited_space(); }
  void set_limit(std::uint64_t bytes) noexcept override;
  bool give_space_back(bool all) noexcept override { return last_->give_space_back(all); }
  int reserve(std::uint64_t bytes, Extent* out) noexcept override;
  void release(const Extent& extent) noexcept override;
  int submit(const Transfer& transfer) noexcept override;
  std::size_t poll(std::span<Completion> out) noexcept override;
  int wait_fd() const noexcept override { return last_->wait_fd(); }
  std::size_t in_flight() const noexcept override;
  std::size_t queue_depth() const noexcept override { return queue_depth_; }
  Medium medium_of(std::uint64_t offset) const noexcept override;
  std::uint64_t bytes_on(Medium medium) const noexcept override;
  Demoted demoted() const noexcept override { return counts().moved; }
  void set_memory_limit(std::uint64_t bytes) noexcept override;
  void set_memory_source(MemorySource* source) noexcept override;
  std::uint64_t memory_room() const noexcept override;
  void set_read_by_children(bool are_there) noexcept override;
  bool is_passed_over(std::uint64_t offset) const noexcept override;
  const char* place_of(std::uint64_t offset) const noexcept override;
  int reopen_after_fork() noexcept override;

  Counts counts() const noexcept;
  // For tests: the table, the tiers' bookkeeping and what lies where agree.
  bool check_invariants() const noexcept;

 private:
  static constexpr std::uint32_t last_level = most_uppers;

  struct Level {
    Tier* tier = nullptr;
    DramTier* dram = nullptr;
    std::uint64_t largest_bytes = 0;
    bool may_move_down(std::uint64_t bytes) const { return dram != nullptr || bytes <= most_read_bytes; }
    Occupants occupants;
    std::uint64_t memory_limit_bytes = UINT64_MAX;
    bool has_refused = false;      // an extent found no room since one moved down
    std::uint32_t rest_until = 0;  // after a transfer failed: nothing new is put there
  };
  Tier& tier_of(std::uint32_t level) const noexcept;
  std::span<Level> uppers() noexcept { return {levels_.data(), count_}; }
  std::span<const Level> uppers() const noexcept { return {levels_.data(), count_}; }
  Level* upper(std::uint32_t level) noexcept { return level < count_ ? &levels_[level] : nullptr; }

  // ---- under the lock
  int find_room(std::uint64_t bytes, std::uint32_t from_level, bool for_new, std::uint32_t* level,
                Extent* out) noexcept;
  void map(std::uint32_t name, std::uint32_t level, const Extent& place) noexcept;
  void take_stretch(Place first, std::uint32_t units) noexcept;
  int translate(const Transfer& transfer, std::uint32_t* level, Transfer* out) noexcept;
  std::uint32_t beyond_limit(std::uint32_t level) const noexcept;
  std::uint32_t cold_one(std::uint32_t level) const noexcept;
  bool is_cold(const Level& level, std::uint32_t unit) const noexcept;
  Demotion* prepare() noexcept;
  Demotion* prepare(std::uint32_t level, std::uint32_t unit) noexcept;
  bool rests(std::uint32_t until) const noexcept { return static_cast<std::int32_t>(until - now_) > 0; }
  // A rest that is over ends now: the clock goes round.
  bool is_resting(std::uint32_t* until) const noexcept {
    if (!rests(*until)) *until = now_;
    return rests(*until);
  }
  void finish(Demotion& demotion, int error) noexcept;
  void give_up(Demotion& demotion, int error) noexcept;
  void count_moved(const Demotion& demotion) noexcept;
  std::uint64_t bytes_being_moved() const noexcept;

  // ---- without it
  std::size_t poll_tier(Tier& tier, std::span<Completion> out) noexcept;
  void note_failure(Level& level) noexcept;
  void note_failures(Level& level, std::span<const Completion> done) noexcept;
  std::size_t poll_uppers(std::span<Completion> out) noexcept;
  void take_own(const Completion& completion) noexcept;
  bool demote_one() noexcept;
  bool is_called_off(const Demotion& demotion) const noexcept;
  int submit_part(Demotion& demotion) noexcept;
  std::byte* room_for(const Demotion& demotion) noexcept {
    return moved_.data() + demotions_.number_of(demotion) * most_read_bytes;
  }

  std::array<Level, most_uppers> levels_{};
  std::size_t count_ = 0;
  Tier* last_ = nullptr;
  std::size_t queue_depth_ = 0;
  mutable SpinLock lock_;  // of all that follows, and of the tiers' reserve() and release()
  ExtentAllocator names_;
  PlaceMap places_;
  std::uint32_t now_ = 1;  // in units that came
  Stays stays_;
  Demotions demotions_;
  Mapping moved_;                 // what was read of a tier that is not DRAM, for each demotion
  std::uint32_t rest_until_ = 0;  // after one failed
  Counts counts_;
  bool is_frozen_ = false;
  bool is_read_by_children_ = false;
};

}  // namespace terrace::tiers
