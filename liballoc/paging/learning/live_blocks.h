// The blocks that live, as the learner sees them: which object of which phase each is, and since when a run
// of it is away, so that its next touch will show. By the block's number; zeroes are a block of which nothing
// is known. Belongs to who holds the gate.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "liballoc/base/os.h"

namespace terrace::liballoc {

inline constexpr std::uint32_t most_learned_phases = 4;

struct LiveBlock {
  std::uint64_t left = 0;     // number of the position at which run `away` left, or a little later
  std::uint64_t chained = 0;  // the same: since when it is to be taken out after each touch, or is
  std::uint32_t born = 0;     // 1 + ordinal of its birth, of claim `claim`
  std::uint32_t claim = 0;
  std::uint32_t away = 0;                              // 1 + run; 0: none, or it is not known since when
  std::uint32_t away_claim = 0;                        // of which `left` is a position
  std::uint32_t stops_at = 0;                          // interval of its last touch, or its birth
  std::uint32_t met_claim = 0, met_period = 0;         // when it was seen first at the beginning of a period
  std::uint16_t persistent[most_learned_phases] = {};  // 1 + its number among what persists in that phase
  std::uint8_t touches = 0;                            // since `chained`
  bool is_chained = false;
  bool is_begun = false;  // and a run of it has been taken out
  bool is_cut = false;    // probing stopped before the end of its life or its period
};

class LiveBlocks {
 public:
  // 0 or ENOMEM. Ids are smaller than `most`.
  int initialise(std::uint32_t most) {
    blocks_ = static_cast<LiveBlock*>(
        os::map_anonymous(std::size_t{most} * sizeof(LiveBlock), PROT_READ | PROT_WRITE));
    most_ = blocks_ != nullptr ? most : 0;
    return blocks_ == nullptr ? ENOMEM : 0;
  }
  LiveBlock& operator[](std::uint32_t id) {
    if (id >= top_) top_ = id + 1;
    return blocks_[id];
  }
  bool has(std::uint32_t id) const { return id < most_; }
  // Past the highest id that was ever asked for.
  std::uint32_t top() const { return top_; }

 private:
  LiveBlock* blocks_ = nullptr;
  std::uint32_t most_ = 0;
  std::uint32_t top_ = 0;
};

}  // namespace terrace::liballoc
