#include "liballoc/gpu/optimizer/shelf.h"

#include <algorithm>

namespace terrace::liballoc::optimizer {
namespace {

std::uint64_t end_behind(std::uint64_t begin, std::uint64_t elements) {
  return begin + (elements + element_unit - 1) / element_unit * element_unit;
}

}  // namespace

std::uint64_t Shelf::blocks_for(std::uint64_t elements) const {
  const std::uint64_t end = end_behind(elements_, elements);
  return (end + block_elements - 1) / block_elements - blocks_.size();
}

std::uint64_t Shelf::bytes_for(std::uint64_t elements) const {
  const Block one{.planes = planes_};
  return blocks_for(elements) * one.bytes();
}

// A block that lives in DRAM has its range there from the beginning, wherever it begins.
int Shelf::house(std::vector<Block>* blocks, const Room& room) {
  std::uint64_t left = room.drive == nullptr ? ~std::uint64_t{0} : room.dram_bytes;
  if (!room.lives_on_drive)
    if (const int error = room.memory->place(*blocks); error != 0) return error;
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    Block& block = (*blocks)[i];
    const bool fits = !room.lives_on_drive && block.bytes() <= left;
    const int error = fits ? 0 : room.drive->reserve(block.bytes(), &block.extent);
    if (error != 0 && room.lives_on_drive) {
      while (i-- > 0) room.drive->release((*blocks)[i].extent);
      return error;
    }
    if (fits) left -= block.bytes();
    if (fits || error != 0) room.memory->fill(block);
  }
  return 0;
}

int Shelf::add(std::uint64_t elements, const Room& room, std::uint64_t* number, std::uint64_t* first) {
  std::vector<Block> blocks(blocks_for(elements));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].number = *number + i;
    blocks[i].planes = planes_;
  }
  if (const int error = house(&blocks, room); error != 0) return error;
  blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
  *number += blocks.size();
  *first = elements_;
  elements_ = end_behind(elements_, elements);
  return 0;
}

void Shelf::append_blocks(std::vector<Block*>* out) {
  for (Block& block : blocks_) out->push_back(&block);
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
