// What lies where; what moves down and when is demotion.cpp.
#include "tiers/chain/chained_tier.h"

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "tiers/chain/units.h"
#include "tiers/fixed_queue.h"
#include "tiers/transfer.h"

namespace terrace::tiers {
namespace {

// Space for names is looser than the tiers, so that its holes refuse nobody.
constexpr std::uint64_t names_bytes(std::uint64_t capacity_bytes) noexcept {
  return std::min(2 * capacity_bytes, ExtentAllocator::max_capacity_bytes);
}

}  // namespace

// ---- life -------------------------------------------------------------------------------------------------

int ChainedTier::open(std::span<const Upper> uppers, Tier* last) noexcept {
  if (last_ != nullptr) return EBUSY;
  if (uppers.empty() || uppers.size() > most_uppers || last == nullptr) return EINVAL;
  std::uint64_t capacity = last->space().capacity_bytes;
  std::size_t depth = last->queue_depth();
  bool reads_first = false;
  for (const Upper& upper : uppers) {
    if (upper.tier == nullptr || upper.tier->wait_fd() >= 0) return EINVAL;
    reads_first = reads_first || upper.dram == nullptr;
    capacity += upper.tier->space().capacity_bytes;
    depth = std::min(depth, upper.tier->queue_depth());
  }
  if (depth <= Demotions::most) return EINVAL;
  if (const int error = names_.open(names_bytes(capacity))) return error;
  last_ = last;
  int error = places_.open(names_.capacity_bytes() / unit_bytes);
  if (error == 0 && reads_first) error = moved_.map(Demotions::most * most_read_bytes);
  for (const Upper& upper : uppers) {
    Level& level = levels_[count_++];
    level.tier = upper.tier;
    level.dram = upper.dram;
    level.largest_bytes = upper.largest_bytes;
    if (error == 0) error = level.occupants.open(upper.tier->space().capacity_bytes);
  }
  if (error != 0) {
    close();
    return error;
  }
  queue_depth_ = depth - Demotions::most;
  return 0;
}

void ChainedTier::close() noexcept {
  for (Level& level : uppers()) level.occupants.close();
  count_ = 0;
  last_ = nullptr;
  moved_.unmap();
  places_.close();
  names_.close();
}

int ChainedTier::reopen_after_fork() noexcept {
  lock_.unlock();  // whoever held it is not here
  is_frozen_ = true;
  demotions_.clear();
  for (const Level& level : uppers())
    if (const int error = level.tier->reopen_after_fork()) return error;
  return last_->reopen_after_fork();
}

Tier& ChainedTier::tier_of(std::uint32_t level) const noexcept {
  return level == last_level ? *last_ : *levels_[level].tier;
}

// ---- space ------------------------------------------------------------------------------------------------

Space ChainedTier::space() const noexcept {
  const SpinGuard guard(lock_);
  Space all = last_->space();
  for (const Level& level : uppers()) {
    const Space one = level.tier->space();
    all.capacity_bytes += one.capacity_bytes;
    all.used_bytes += one.used_bytes;
  }
  return all;
}

void ChainedTier::set_limit(std::uint64_t bytes) noexcept {
  const SpinGuard guard(lock_);
  last_->set_limit(bytes);
}

int ChainedTier::reserve(std::uint64_t bytes, Extent* out) noexcept {
  const SpinGuard guard(lock_);
  if (is_frozen_) return EROFS;
  Extent name;
  if (const int error = names_.reserve(bytes, &name)) return error;
  Extent place;
  std::uint32_t level = 0;
  if (const int error = find_room(name.bytes, 0, true, &level, &place)) {
    static_cast<void>(names_.release(name));
    return error;
  }
  map(unit_of(name.offset), level, place);
  places_.note_came(unit_of(name.offset), now_);
  if (Level* const on = upper(level)) on->occupants.add(place, unit_of(name.offset), now_);
  now_ = std::max(now_ + units_of(name.bytes), 1U);
  *out = name;
  return 0;
}

int ChainedTier::find_room(std::uint64_t bytes, std::uint32_t from_level, bool for_new, std::uint32_t* level,
                           Extent* out) noexcept {
  for (*level = from_level; *level < count_; ++*level) {
    Level& one = levels_[*level];
    if (bytes > one.largest_bytes || is_resting(&one.rest_until)) continue;
    if (one.tier->reserve(bytes, out) == 0) return 0;
    one.has_refused = one.has_refused || for_new;
  }
  *level = last_level;
  return last_->reserve(bytes, out);
}

void ChainedTier::map(std::uint32_t name, std::uint32_t level, const Extent& place) noexcept {
  for (std::uint32_t i = 0; i < units_of(place.bytes); ++i)
    places_.put(name + i, {level, unit_of(place.offset) + i});
}

// Neighbours that were given out as two may come back as one, and they may lie apart.
void ChainedTier::release(const Extent& extent) noexcept {
  const SpinGuard guard(lock_);
  if (is_frozen_) return;
  const bool was_reserved = names_.is_reserved(extent);
  assert(was_reserved && "release() of an extent that is not reserved");
  if (!was_reserved) return;
  const std::uint32_t begin = unit_of(extent.offset);
  const std::uint32_t end = begin + units_of(extent.bytes);
  for (std::uint32_t name = begin; name < end;) {
    const Place first = places_.at(name);
    std::uint32_t units = 0;
    for (; name < end && places_.at(name) == Place{first.level, first.unit + units}; ++name, ++units)
      places_.clear(name);
    take_stretch(first, units);
  }
  static_cast<void>(names_.release(extent));
}

void ChainedTier::take_stretch(Place first, std::uint32_t units) noexcept {
  const Extent place{first.offset(), units * unit_bytes};
  if (Level* const on = upper(first.level)) {
    demotions_.call_off(first.level, place);
    on->occupants.remove(place);
  }
  tier_of(first.level).release(place);
}

Medium ChainedTier::medium_of(std::uint64_t offset) const noexcept {
  const SpinGuard guard(lock_);
  if (offset >= names_.capacity_bytes() || !places_.has(unit_of(offset))) return Medium::drive;
  const Place at = places_.at(unit_of(offset));
  return tier_of(at.level).medium_of(at.offset());
}

bool ChainedTier::is_passed_over(std::uint64_t offset) const noexcept {
  const SpinGuard guard(lock_);
  if (offset >= names_.capacity_bytes() || !places_.has(unit_of(offset))) return false;
  const std::uint32_t level = places_.at(unit_of(offset)).level;
  return level < count_ && rests(levels_[level].rest_until);
}

const char* ChainedTier::place_of(std::uint64_t offset) const noexcept {
  const SpinGuard guard(lock_);
  if (offset >= names_.capacity_bytes() || !places_.has(unit_of(offset))) return "";
  const Place at = places_.at(unit_of(offset));
  return tier_of(at.level).place_of(at.offset());
}

std::uint64_t ChainedTier::bytes_on(Medium medium) const noexcept {
  const SpinGuard guard(lock_);
  std::uint64_t bytes = last_->bytes_on(medium);
  for (const Level& level : uppers()) bytes += level.tier->bytes_on(medium);
  return bytes + (medium == Medium::dram ? bytes_being_moved() : 0);
}

std::uint64_t ChainedTier::bytes_being_moved() const noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < Demotions::most; ++i) {
    const Demotion& one = demotions_[i];
    if (one.is_busy && levels_[one.level].dram == nullptr) bytes += one.from.bytes;
  }
  return bytes;
}

ChainedTier::Counts ChainedTier::counts() const noexcept {
  const SpinGuard guard(lock_);
  return counts_;
}

void ChainedTier::set_memory_limit(std::uint64_t bytes) noexcept {
  const SpinGuard guard(lock_);
  for (Level& level : uppers()) {
    if (level.dram == nullptr) continue;
    level.memory_limit_bytes = bytes;
    level.dram->set_limit(bytes);
  }
}

void ChainedTier::set_memory_source(MemorySource* source) noexcept {
  const SpinGuard guard(lock_);
  for (Level& level : uppers())
    if (level.dram != nullptr) level.dram->set_memory_source(source);
}

std::uint64_t ChainedTier::memory_room() const noexcept {
  const SpinGuard guard(lock_);
  std::uint64_t room = 0;
  for (const Level& level : uppers()) {
    if (level.dram == nullptr) continue;
    const Space space = level.dram->space();
    const std::uint64_t most = std::min(space.capacity_bytes, level.memory_limit_bytes);
    room += most - std::min(most, space.used_bytes);
    const std::uint32_t oldest = level.occupants.oldest();
    if (oldest != Occupants::none && is_cold(level, oldest)) room += level.largest_bytes;
  }
  return room;
}

// ---- transfers --------------------------------------------------------------------------------------------

std::size_t ChainedTier::in_flight() const noexcept {
  std::size_t all = last_->in_flight();
  for (const Level& level : uppers()) all += level.tier->in_flight();
  return all - demotions_.count();
}

int ChainedTier::submit(const Transfer& transfer) noexcept {
  Transfer below;
  std::uint32_t level = 0;
  {
    const SpinGuard guard(lock_);
    if (const int error = translate(transfer, &level, &below)) return error;
  }
  if (in_flight() >= queue_depth_) return EAGAIN;
  const int error = tier_of(level).submit(below);
  if (Level* const on = upper(level); on != nullptr && error != 0 && error != EAGAIN) note_failure(*on);
  return error;
}

int ChainedTier::translate(const Transfer& transfer, std::uint32_t* level, Transfer* out) noexcept {
  if (const int error = check_transfer(transfer, names_.capacity_bytes())) return error;
  if (transfer.token >= own_tokens) return EINVAL;
  const std::uint32_t name = unit_of(transfer.extent.offset);
  const std::uint32_t end_name = unit_of(transfer.extent.offset + transfer.extent.bytes - 1);
  if (!places_.has(name) || !places_.has(end_name)) return EINVAL;
  const Place at = places_.at(name);
  if (places_.at(end_name) != Place{at.level, at.unit + (end_name - name)}) return EINVAL;
  if (is_frozen_ && transfer.direction == Direction::write) return EROFS;
  *level = at.level;
  *out = transfer;
  out->extent.offset = at.offset() + transfer.extent.offset % unit_bytes;
  if (transfer.direction == Direction::write) {
    demotions_.call_off(at.level, out->extent);
  } else if (const std::uint32_t since = places_.take_since(name); since != 0) {
    stays_.note(now_ - since);
  }
  return 0;
}

std::size_t ChainedTier::poll(std::span<Completion> out) noexcept {
  std::size_t count = poll_uppers(out);
  count += poll_tier(*last_, out.subspan(count));
  while (!is_frozen_ && demote_one()) count += poll_uppers(out.subspan(count));
  return count;
}

std::size_t ChainedTier::poll_uppers(std::span<Completion> out) noexcept {
  std::size_t count = 0;
  for (Level& level : uppers()) {
    const std::size_t came = poll_tier(*level.tier, out.subspan(count));
    note_failures(level, out.subspan(count, came));
    count += came;
  }
  return count;
}

// The caller stores anew what could not be written: where the next tier takes it.
void ChainedTier::note_failures(Level& level, std::span<const Completion> done) noexcept {
  if (std::any_of(done.begin(), done.end(), [](const Completion& one) { return one.error != 0; }))
    note_failure(level);
}

void ChainedTier::note_failure(Level& level) noexcept {
  const SpinGuard guard(lock_);
  level.rest_until = now_ + rest_units;
}

// Takes our own completions out.
std::size_t ChainedTier::poll_tier(Tier& tier, std::span<Completion> out) noexcept {
  std::size_t count = 0;
  while (count < out.size()) {
    const std::span<Completion> came = out.subspan(count).first(tier.poll(out.subspan(count)));
    if (came.empty()) break;
    for (const Completion& one : came) {
      if (one.token < own_tokens)
        out[count++] = one;
      else
        take_own(one);
    }
  }
  return count;
}

// What was read is written next.
void ChainedTier::take_own(const Completion& completion) noexcept {
  Demotion& one = demotions_[completion.token - own_tokens];
  int error = completion.error;
  if (!one.is_read && error == 0 && !is_called_off(one)) {
    one.is_read = true;
    error = submit_part(one);
    if (error == 0) return;
  }
  const SpinGuard guard(lock_);
  finish(one, error);
}

// ---- for tests --------------------------------------------------------------------------------------------

bool ChainedTier::check_invariants() const noexcept {
  const SpinGuard guard(lock_);
  std::uint64_t mapped = 0;
  for (std::uint64_t name = 0; name < names_.capacity_bytes() / unit_bytes; ++name) {
    const bool is_reserved = names_.is_reserved({name * unit_bytes, block_bytes});
    if (is_reserved != places_.has(name)) return false;
    mapped += is_reserved ? unit_bytes : 0;
  }
  std::uint64_t used = last_->space().used_bytes;
  for (const Level& level : uppers()) {
    if (!level.occupants.check_invariants()) return false;
    used += level.tier->space().used_bytes;
    for (std::uint32_t unit = level.occupants.oldest(); unit != Occupants::none;
         unit = level.occupants.after(unit)) {
      const Place at = places_.at(level.occupants.name_of(unit));
      if (&tier_of(at.level) != level.tier || at.unit != unit) return false;
    }
  }
  return used - demotions_.bytes_under_way() == mapped;
}

}  // namespace terrace::tiers
