#include "liballoc/gpu/optimizer/shelf.h"

#include <algorithm>
#include <cerrno>

namespace terrace::liballoc::optimizer {
namespace {

constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;

}  // namespace

// Several streams of memory are read and written at once: with pages of 4 KiB their translations do not fit
// the processor's tables.
int Shelf::add_in_dram(std::vector<Block>* blocks) {
  if (blocks->empty()) return 0;
  auto memory = std::make_unique<tiers::Mapping>();
  const std::uint64_t bytes = blocks->size() * blocks->front().bytes();
  if (const int error = memory->map(bytes + huge_page_bytes); error != 0) return error;
  const std::uint64_t past = reinterpret_cast<std::uintptr_t>(memory->data()) % huge_page_bytes;
  std::byte* place = memory->data() + (past == 0 ? 0 : huge_page_bytes - past);
  ::madvise(place, bytes, MADV_HUGEPAGE);  // a wish: without it the same, slower
  for (Block& block : *blocks) {
    block.memory = place;
    place += block.bytes();
  }
  memory_.push_back(std::move(memory));
  dram_bytes_ += bytes;
  return 0;
}

int Shelf::add_on_drive(std::vector<Block>* blocks, Drive* drive) {
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    Block& block = (*blocks)[i];
    const int error = drive->reserve(block.bytes(), &block.extent);
    if (error == 0) continue;
    while (i-- > 0) drive->release((*blocks)[i].extent);
    return error;
  }
  return 0;
}

int Shelf::add(std::uint64_t elements, Drive* drive, std::uint64_t* number, std::uint64_t* first) {
  const std::uint64_t end = elements_ + (elements + element_unit - 1) / element_unit * element_unit;
  const std::uint64_t needed = (end + block_elements - 1) / block_elements;
  std::vector<Block> blocks(needed - blocks_.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].number = *number + i;
    blocks[i].planes = planes_;
  }
  const int error = drive != nullptr ? add_on_drive(&blocks, drive) : add_in_dram(&blocks);
  if (error != 0) return error;
  blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
  *number += blocks.size();
  *first = elements_;
  elements_ = end;
  return 0;
}

void Shelf::append_parts(std::uint64_t first, std::uint64_t elements, std::size_t owner,
                         std::vector<Part>* out) {
  for (std::uint64_t at = 0; at < elements;) {
    const std::uint64_t place = first + at;
    const std::uint64_t offset = place % slice_elements;
    const std::uint64_t length = std::min(elements - at, slice_elements - offset);
    out->push_back({.block = &blocks_[place / block_elements],
                    .slice = static_cast<std::uint32_t>(place % block_elements / slice_elements),
                    .offset = static_cast<std::uint32_t>(offset),
                    .elements = static_cast<std::uint32_t>(length),
                    .at = at,
                    .owner = owner});
    at += length;
  }
}

}  // namespace terrace::liballoc::optimizer
