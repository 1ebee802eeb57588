// What moves down a chain, and when; chained_tier.h has the reasons.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "tiers/chain/chained_tier.h"
#include "tiers/chain/units.h"

namespace terrace::tiers {
namespace {

// A period varies a little, and what comes back twice as late as all others is not known to be cold.
constexpr std::uint64_t stays_until_cold = 3;
// A stay that is not seen again is forgotten by so much with each read.
constexpr std::uint32_t forgotten_part = 1024;
// Cold extents leave while the drive has no more than this to do.
constexpr std::size_t idle_in_flight = 2;

}  // namespace

void Stays::note(std::uint32_t units) noexcept {
  longest_ = std::max({units, longest_ - longest_ / forgotten_part, 1U});
}

bool Stays::is_cold(std::uint64_t units, std::uint64_t stored) const noexcept {
  return longest_ > 0 && units > stays_until_cold * std::max<std::uint64_t>(longest_, stored);
}

// False: there is nothing that should move down, or no way to.
bool ChainedTier::demote_one() noexcept {
  Demotion* demotion = nullptr;
  {
    const SpinGuard guard(lock_);
    demotion = prepare();
  }
  if (demotion == nullptr) return false;
  const int error = submit_part(*demotion);
  if (error == 0) return true;
  const SpinGuard guard(lock_);
  finish(*demotion, error);
  return false;
}

bool ChainedTier::is_called_off(const Demotion& demotion) const noexcept {
  const SpinGuard guard(lock_);
  return demotion.is_called_off;
}

// Reads what is to move, or writes it where it was read or lies in DRAM.
int ChainedTier::submit_part(Demotion& demotion) noexcept {
  const Level& on = levels_[demotion.level];
  Transfer part{.direction = Direction::write,
                .extent = demotion.to,
                .token = own_tokens + demotions_.number_of(demotion)};
  if (on.dram != nullptr) {
    part.buffer = const_cast<std::byte*>(on.dram->at(demotion.from.offset));
  } else {
    part.buffer = room_for(demotion);
    if (!demotion.is_read) {
      part.direction = Direction::read;
      part.extent = demotion.from;
    }
  }
  return tier_of(part.direction == Direction::read ? demotion.level : demotion.to_level).submit(part);
}

// What is on its way from where a child will look for it stays there, too.
void ChainedTier::set_read_by_children(bool are_there) noexcept {
  const SpinGuard guard(lock_);
  is_read_by_children_ = are_there;
  for (std::size_t i = 0; are_there && i < Demotions::most; ++i)
    if (demotions_[i].is_busy && levels_[demotions_[i].level].dram == nullptr)
      demotions_[i].is_called_off = true;
}

Demotion* ChainedTier::prepare() noexcept {
  if (demotions_.count() == Demotions::most || is_resting(&rest_until_)) return nullptr;
  for (std::uint32_t level = 0; level < count_; ++level) {
    std::uint32_t unit = beyond_limit(level);
    if (unit == Occupants::none) unit = cold_one(level);
    if (unit != Occupants::none) return prepare(level, unit);
  }
  return nullptr;
}

// The highest extent, as long as it ends above the limit: the memory below it goes with it.
std::uint32_t ChainedTier::beyond_limit(std::uint32_t level) const noexcept {
  const Level& on = levels_[level];
  if (on.dram == nullptr || on.dram->bytes_on(Medium::dram) <= on.memory_limit_bytes) return Occupants::none;
  for (std::uint64_t end = on.dram->end_of_reserved(); end > on.memory_limit_bytes;) {
    const std::uint32_t unit = on.occupants.at(end - unit_bytes);
    if (unit == Occupants::none) break;
    end = on.occupants.place_of(unit).offset;
    if (!demotions_.is_leaving(level, end)) return unit;
    if (end == 0) break;
  }
  return Occupants::none;
}

// The first that came and is not on its way, if it is cold and the last tier has the time.
std::uint32_t ChainedTier::cold_one(std::uint32_t level) const noexcept {
  const Level& on = levels_[level];
  if (!on.has_refused || last_->in_flight() > idle_in_flight) return Occupants::none;
  if (is_read_by_children_ && on.dram == nullptr) return Occupants::none;
  const auto stays = [&](std::uint32_t unit) {
    const Extent place = on.occupants.place_of(unit);
    return demotions_.is_leaving(level, place.offset) || !on.may_move_down(place.bytes);
  };
  std::uint32_t unit = on.occupants.oldest();
  while (unit != Occupants::none && stays(unit)) unit = on.occupants.after(unit);
  return unit != Occupants::none && is_cold(on, unit) ? unit : Occupants::none;
}

bool ChainedTier::is_cold(const Level& level, std::uint32_t unit) const noexcept {
  const std::uint64_t stored = names_.space().used_bytes / unit_bytes;
  return stays_.is_cold(now_ - level.occupants.since(unit), stored);
}

Demotion* ChainedTier::prepare(std::uint32_t level, std::uint32_t unit) noexcept {
  Demotion& one = demotions_.free_one();
  Level& on = levels_[level];
  one = {.is_read = on.dram != nullptr,
         .level = level,
         .from = on.occupants.place_of(unit),
         .name = on.occupants.name_of(unit)};
  if (find_room(one.from.bytes, level + 1, false, &one.to_level, &one.to) != 0) {
    rest_until_ = now_ + rest_units;
    return nullptr;
  }
  one.is_busy = true;
  on.has_refused = false;
  return &one;
}

void ChainedTier::finish(Demotion& one, int error) noexcept {
  if (levels_[one.level].dram == nullptr) ::madvise(room_for(one), most_read_bytes, MADV_DONTNEED);
  one.is_busy = false;
  if (error != 0 || one.is_called_off) return give_up(one, error);
  Level& on = levels_[one.level];
  const std::uint32_t since = on.occupants.since(on.occupants.at(one.from.offset));
  map(one.name, one.to_level, one.to);
  on.occupants.remove(one.from);
  on.tier->release(one.from);
  if (Level* const to = upper(one.to_level)) to->occupants.add(one.to, one.name, since);
  count_moved(one);
}

void ChainedTier::give_up(Demotion& one, int error) noexcept {
  tier_of(one.to_level).release(one.to);
  counts_.failed += error != 0 ? 1 : 0;
  if (error != 0 && error != EAGAIN) rest_until_ = now_ + rest_units;
}

void ChainedTier::count_moved(const Demotion& one) noexcept {
  ++counts_.demotions;
  Demoted& moved = counts_.moved;
  const Medium to = tier_of(one.to_level).medium_of(one.to.offset);
  if (to == Medium::drive) moved.to_drives_bytes += one.to.bytes;
  if (to == Medium::nvm) moved.to_nvm_bytes += one.to.bytes;
  if (levels_[one.level].tier->medium_of(one.from.offset) == Medium::nvm)
    moved.from_nvm_bytes += one.from.bytes;
}

}  // namespace terrace::tiers
