#include "liballoc/gpu/optimizer/block_memory.h"

namespace terrace::liballoc::optimizer {
namespace {

constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;

}  // namespace

int BlockMemory::place(std::span<Block> blocks) {
  if (blocks.empty()) return 0;
  auto range = std::make_unique<tiers::Mapping>();
  const std::uint64_t bytes = blocks.size() * blocks.front().bytes();
  if (const int error = range->map(bytes + huge_page_bytes); error != 0) return error;
  const std::uint64_t past = reinterpret_cast<std::uintptr_t>(range->data()) % huge_page_bytes;
  std::byte* place = range->data() + (past == 0 ? 0 : huge_page_bytes - past);
  ::madvise(place, bytes, MADV_HUGEPAGE);  // a wish: without it the same, slower
  ranges_.push_back(std::move(range));
  for (Block& block : blocks) {
    block.place = place;
    place += block.bytes();
  }
  return 0;
}

void BlockMemory::fill(Block& block) {
  block.memory = block.place;
  bytes_ += block.bytes();
}

void BlockMemory::forget(const Block& block) { ::madvise(block.place, block.bytes(), MADV_DONTNEED); }

void BlockMemory::empty(Block& block) {
  forget(block);
  block.memory = nullptr;
  bytes_ -= block.bytes();
}

}  // namespace terrace::liballoc::optimizer
