#include "liballoc/gpu/preload/block_table.h"

#include <cstdlib>

namespace terrace::liballoc::gpu {

namespace {
constexpr std::size_t first_capacity = 256;
}

BlockTable::~BlockTable() { std::free(slots_); }

// Blocks lie at multiples of 512 (Fibonacci hashing: Knuth, TAOCP 3, 6.4).
std::size_t BlockTable::home(std::uintptr_t address) const {
  return ((address >> 9) * 0x9E3779B97F4A7C15ULL >> 20) & (capacity_ - 1);
}

// Where the address is, or would go. The table has an empty slot.
std::size_t BlockTable::slot_of(std::uintptr_t address) const {
  std::size_t at = home(address);
  while (slots_[at].address != 0 && slots_[at].address != address) at = (at + 1) & (capacity_ - 1);
  return at;
}

bool BlockTable::grow() {
  const std::size_t wider = capacity_ == 0 ? first_capacity : capacity_ * 2;
  auto* slots = static_cast<Block*>(std::calloc(wider, sizeof(Block)));
  if (slots == nullptr) return false;
  Block* const before = slots_;
  const std::size_t count = capacity_;
  slots_ = slots;
  capacity_ = wider;
  for (std::size_t i = 0; i < count; ++i)
    if (before[i].address != 0) slots_[slot_of(before[i].address)] = before[i];
  std::free(before);
  return true;
}

bool BlockTable::insert(const Block& block) {
  const std::lock_guard guard(lock_);
  if ((size_ + 1) * 2 > capacity_ && !grow()) return false;
  slots_[slot_of(block.address)] = block;
  ++size_;
  return true;
}

bool BlockTable::find(std::uintptr_t address, Block* out) const {
  const std::lock_guard guard(lock_);
  if (capacity_ == 0 || address == 0) return false;
  const Block& found = slots_[slot_of(address)];
  if (found.address == 0) return false;
  *out = found;
  return true;
}

bool BlockTable::take(std::uintptr_t address, Block* out) {
  const std::lock_guard guard(lock_);
  if (capacity_ == 0 || address == 0) return false;
  const std::size_t at = slot_of(address);
  if (slots_[at].address == 0) return false;
  *out = slots_[at];
  close_gap(at);
  --size_;
  return true;
}

// Moves back what probing would no longer find behind an empty slot.
void BlockTable::close_gap(std::size_t gap) {
  const std::size_t mask = capacity_ - 1;
  for (std::size_t at = (gap + 1) & mask; slots_[at].address != 0; at = (at + 1) & mask) {
    const std::size_t distance = (at - home(slots_[at].address)) & mask;
    if (distance < ((at - gap) & mask)) continue;
    slots_[gap] = slots_[at];
    gap = at;
  }
  slots_[gap] = Block{};
}

std::size_t BlockTable::size() const {
  const std::lock_guard guard(lock_);
  return size_;
}

}  // namespace terrace::liballoc::gpu
