// First fit over a two-level bitmap; the picture is in the header.
#include "tiers/extent_allocator.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>

namespace terrace::tiers {
namespace {

constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t all_ones = ~std::uint64_t{0};

// Bits [first, first + count) of one word, count <= 64 - first.
constexpr std::uint64_t bits(std::uint64_t first, std::uint64_t count) {
  return count == 64 ? all_ones : ((std::uint64_t{1} << count) - 1) << first;
}

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

int ExtentAllocator::open(std::uint64_t bytes) noexcept {
  if (bytes < unit_bytes || bytes > max_capacity_bytes) return EINVAL;
  const std::uint64_t units = bytes / unit_bytes;
  const std::uint64_t used_words = (units + word_bits - 1) / word_bits;
  const std::uint64_t full_words = (used_words + word_bits - 1) / word_bits;
  if (const int error = table_.map((used_words + full_words) * sizeof(std::uint64_t))) return error;
  used_ = reinterpret_cast<std::uint64_t*>(table_.data());
  full_ = used_ + used_words;
  units_ = units;
  // Bits that stand for nothing are set, so that no search ends in them.
  if (units % word_bits != 0) mark_word(used_words - 1, ~bits(0, units % word_bits), true);
  if (used_words % word_bits != 0) full_[full_words - 1] |= ~bits(0, used_words % word_bits);
  return 0;
}

void ExtentAllocator::close() noexcept {
  table_.unmap();
  used_ = full_ = nullptr;
  units_ = used_units_ = 0;
  floor_.fill(0);
}

int ExtentAllocator::reserve(std::uint64_t bytes, Extent* out) noexcept {
  if (bytes == 0) return EINVAL;
  if (bytes > capacity_bytes()) return ENOSPC;
  const std::uint64_t count = (bytes + unit_bytes - 1) / unit_bytes;
  const std::uint64_t unit = find(count);
  raise_floors(count, unit);
  if (unit == none) return ENOSPC;
  mark(unit, count, true);
  *out = {unit * unit_bytes, round_up(bytes, block_bytes)};
  return 0;
}

bool ExtentAllocator::release(const Extent& extent) noexcept {
  if (!is_reserved(extent)) return false;
  const std::uint64_t unit = extent.offset / unit_bytes;
  const std::uint64_t count = (extent.bytes + unit_bytes - 1) / unit_bytes;
  mark(unit, count, false);
  lower_floors(unit, count);
  return true;
}

bool ExtentAllocator::is_reserved(const Extent& extent) const noexcept {
  if (extent.bytes == 0 || extent.bytes % block_bytes != 0 || extent.offset % unit_bytes != 0) return false;
  if (extent.offset >= capacity_bytes() || extent.bytes > capacity_bytes() - extent.offset) return false;
  return all_used(extent.offset / unit_bytes, (extent.bytes + unit_bytes - 1) / unit_bytes);
}

// The bits past the end are set, and stand for nothing.
std::uint64_t ExtentAllocator::end_of_reserved(std::uint64_t below) const noexcept {
  const std::uint64_t units = std::min(units_, below / unit_bytes + 1);
  for (std::uint64_t word = (units + word_bits - 1) / word_bits; word-- > 0;) {
    const std::uint64_t there = std::min(units_ - word * word_bits, word_bits);
    const std::uint64_t used = used_[word] & bits(0, there);
    if (used != 0) return (word * word_bits + static_cast<std::uint64_t>(std::bit_width(used))) * unit_bytes;
  }
  return 0;
}

Extent ExtentAllocator::free_stretch(std::uint64_t from, std::uint64_t below) const noexcept {
  const std::uint64_t end = std::min(units_, below / unit_bytes);
  const std::uint64_t unit = next_free((from + unit_bytes - 1) / unit_bytes);
  if (unit == none || unit >= end) return {};
  return {unit * unit_bytes, free_length(unit, end - unit) * unit_bytes};
}

std::uint64_t ExtentAllocator::find(std::uint64_t count) const noexcept {
  std::uint64_t unit = next_free(floor_[std::min<std::uint64_t>(count, floors)]);
  while (unit != none) {
    const std::uint64_t length = free_length(unit, count);
    if (length == count) return unit;
    unit = next_free(unit + length);
  }
  return none;
}

std::uint64_t ExtentAllocator::next_free(std::uint64_t unit) const noexcept {
  if (unit >= units_) return none;
  std::uint64_t word = unit / word_bits;
  const std::uint64_t here = ~used_[word] & ~bits(0, unit % word_bits);
  if (here != 0) return word * word_bits + std::countr_zero(here);
  word = next_word_with_room(word + 1);
  if (word == none) return none;
  return word * word_bits + std::countr_one(used_[word]);
}

std::uint64_t ExtentAllocator::next_word_with_room(std::uint64_t word) const noexcept {
  const std::uint64_t full_words = (words() + word_bits - 1) / word_bits;
  std::uint64_t index = word / word_bits;
  if (index >= full_words) return none;
  std::uint64_t room = ~full_[index] & ~bits(0, word % word_bits);
  while (room == 0) {
    if (++index == full_words) return none;
    room = ~full_[index];
  }
  return index * word_bits + std::countr_zero(room);
}

std::uint64_t ExtentAllocator::free_length(std::uint64_t unit, std::uint64_t limit) const noexcept {
  std::uint64_t length = 0;
  while (length < limit && unit + length < units_) {
    const std::uint64_t at = unit + length;
    const std::uint64_t rest = used_[at / word_bits] >> (at % word_bits);
    const std::uint64_t in_word = word_bits - at % word_bits;
    const std::uint64_t run = std::min<std::uint64_t>(std::countr_zero(rest), in_word);
    length += run;
    if (run < in_word) break;
  }
  return std::min(length, limit);
}

std::uint64_t ExtentAllocator::free_length_before(std::uint64_t unit, std::uint64_t limit) const noexcept {
  std::uint64_t length = 0;
  while (length < limit && length < unit) {
    const std::uint64_t at = unit - length - 1;
    const std::uint64_t in_word = at % word_bits + 1;
    const std::uint64_t rest = used_[at / word_bits] << (word_bits - in_word);
    const std::uint64_t run = std::min<std::uint64_t>(std::countl_zero(rest), in_word);
    length += run;
    if (run < in_word) break;
  }
  return std::min(length, limit);
}

bool ExtentAllocator::all_used(std::uint64_t unit, std::uint64_t count) const noexcept {
  while (count > 0) {
    const std::uint64_t first = unit % word_bits;
    const std::uint64_t here = std::min(count, word_bits - first);
    const std::uint64_t mask = bits(first, here);
    if ((used_[unit / word_bits] & mask) != mask) return false;
    unit += here;
    count -= here;
  }
  return true;
}

void ExtentAllocator::mark(std::uint64_t unit, std::uint64_t count, bool used) noexcept {
  used_units_ = used ? used_units_ + count : used_units_ - count;
  while (count > 0) {
    const std::uint64_t first = unit % word_bits;
    const std::uint64_t here = std::min(count, word_bits - first);
    mark_word(unit / word_bits, bits(first, here), used);
    unit += here;
    count -= here;
  }
}

void ExtentAllocator::mark_word(std::uint64_t word, std::uint64_t mask, bool used) noexcept {
  used_[word] = used ? used_[word] | mask : used_[word] & ~mask;
  const std::uint64_t bit = std::uint64_t{1} << (word % word_bits);
  std::uint64_t& full = full_[word / word_bits];
  full = used_[word] == all_ones ? full | bit : full & ~bit;
}

// The search for `count` found nothing below `unit`, so nothing longer is there either. Lengths above the
// last floor share it, which such a search must not raise: it says nothing about a run of exactly 64.
void ExtentAllocator::raise_floors(std::uint64_t count, std::uint64_t unit) noexcept {
  for (std::uint64_t length = count; length <= floors; ++length)
    floor_[length] = std::max(floor_[length], std::min(unit, units_));
}

// The hole that [unit, unit + count) now lies in is a home for every length up to its own.
void ExtentAllocator::lower_floors(std::uint64_t unit, std::uint64_t count) noexcept {
  const std::uint64_t before = free_length_before(unit, floors);
  const std::uint64_t start = unit - before;
  const std::uint64_t length = free_length(start, std::max<std::uint64_t>(floors, before + count));
  for (std::uint64_t fits = 1; fits <= std::min<std::uint64_t>(length, floors); ++fits)
    floor_[fits] = std::min(floor_[fits], start);
}

bool ExtentAllocator::check_invariants() const noexcept {
  std::uint64_t used = 0;
  for (std::uint64_t unit = 0; unit < units_; ++unit) used += all_used(unit, 1) ? 1 : 0;
  for (std::uint64_t word = 0; word < words(); ++word) {
    const bool marked = (full_[word / word_bits] >> (word % word_bits) & 1) != 0;
    if (marked != (used_[word] == all_ones)) return false;
  }
  for (std::uint64_t length = 1; length <= floors; ++length) {
    for (std::uint64_t unit = next_free(0); unit < floor_[length]; unit = next_free(unit + 1))
      if (free_length(unit, length) == length) return false;
  }
  return used == used_units_;
}

}  // namespace terrace::tiers
