// The memory of the tiers: what is in use, what evictions have asked for, what copies could give way. What a
// tier inside tier 0 holds is in use in tier 0, too. Who takes memory is said for the recording.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "daemon/planner/machine.h"
#include "daemon/planner/simulate/store/recording.h"

namespace terrace::planner {

class Room {
 public:
  // The recording must outlive it.
  Room(const Machine& machine, Recording& recording)
      : machine_(machine),
        recording_(recording),
        used_(machine.tiers.size(), 0),
        peak_(used_),
        asked_(used_),
        spare_(used_) {}

  // Memory of a tensor, or with Stay::of_a_run of the run that begins.
  void take(std::uint32_t tier, std::uint64_t bytes, std::uint32_t tensor) {
    use(tier, bytes);
    if (is_inside(tier)) use(0, bytes);
    if (tier == 0 || is_inside(tier)) recording_.comes(tensor, is_inside(tier), bytes);
  }
  // All that take() took for this tensor in this tier, or for the run.
  void give(std::uint32_t tier, std::uint64_t bytes, std::uint32_t tensor) {
    used_[tier] -= bytes;
    if (is_inside(tier)) used_[0] -= bytes;
    if (tier == 0 || is_inside(tier)) recording_.goes(tensor, is_inside(tier));
  }
  bool is_inside(std::uint32_t tier) const { return machine_.is_inside(tier); }
  std::uint64_t used(std::uint32_t tier) const { return used_[tier]; }
  const std::vector<std::uint64_t>& used() const { return used_; }
  bool fits(std::uint32_t tier, std::uint64_t bytes) const { return fits(tier, used_[tier], bytes); }

  // By evictions that wait.
  void ask(std::uint32_t tier, std::uint64_t bytes) { asked_[tier] += bytes; }
  void unask(std::uint32_t tier, std::uint64_t bytes) { asked_[tier] -= bytes; }
  // Of copies that may give way: in use, and room for evictions all the same.
  void spare(std::uint32_t tier, std::uint64_t bytes) { spare_[tier] += bytes; }
  void unspare(std::uint32_t tier, std::uint64_t bytes) { spare_[tier] -= bytes; }
  bool fits_without_copies(std::uint32_t tier, std::uint64_t bytes) const {
    return fits(tier, used_[tier] - spare_[tier], bytes) && (!is_inside(tier) || fits(0, bytes));
  }
  // Also when all that wait have their room.
  bool fits_beside_asked(std::uint32_t tier, std::uint64_t bytes) const {
    return fits(tier, used_[tier] - spare_[tier] + asked_[tier], bytes);
  }

  // Of tier 0, by all evictions that were asked for and have not ended.
  void leave(std::uint64_t bytes) { leaving_bytes_ += bytes; }
  void end_leaving(std::uint64_t bytes) { leaving_bytes_ -= bytes; }
  std::uint64_t leaving_bytes() const { return leaving_bytes_; }

  // In tier 0, for the run that is next.
  void reserve(std::uint64_t bytes) { reserved_ += bytes; }
  void unreserve(std::uint64_t bytes) { reserved_ -= bytes; }
  void reserve_none() { reserved_ = 0; }
  std::uint64_t reserved() const { return reserved_; }
  std::uint64_t free_bytes() const { return capacity(0) > used_[0] ? capacity(0) - used_[0] : 0; }
  // Short of what is reserved even when `coming_free` has become free.
  bool short_of_reserved(std::uint64_t coming_free) const {
    const std::uint64_t wanted = used_[0] + reserved_;
    return wanted > coming_free && wanted - coming_free > capacity(0);
  }

  void begin_report() { peak_ = used_; }
  const std::vector<std::uint64_t>& peak() const { return peak_; }

 private:
  const Machine& machine_;
  Recording& recording_;
  std::vector<std::uint64_t> used_, peak_, asked_, spare_;  // per tier
  std::uint64_t reserved_ = 0, leaving_bytes_ = 0;

  std::uint64_t capacity(std::uint32_t tier) const { return machine_.tiers[tier].capacity_bytes; }
  void use(std::uint32_t tier, std::uint64_t bytes) {
    used_[tier] += bytes;
    peak_[tier] = std::max(peak_[tier], used_[tier]);
  }
  bool fits(std::uint32_t tier, std::uint64_t used, std::uint64_t bytes) const {
    return used <= capacity(tier) && bytes <= capacity(tier) - used;
  }
};

}  // namespace terrace::planner
