#include "liballoc/heap/space/free_bins.h"

#include <bit>

namespace terrace::liballoc {

FreeBins::Bin FreeBins::bin_of(std::uint32_t granules) {
  const unsigned level = static_cast<unsigned>(std::bit_width(granules | 1U)) - 1;
  if (level < sub_bits) return {0, granules};  // sizes 1..15 have bins of their own
  const unsigned sub = (granules >> (level - sub_bits)) & (sub_levels - 1);
  return {level - sub_bits + 1, sub};
}

void FreeBins::link(std::uint32_t id) {
  const auto [level, sub] = bin_of(blocks_[id].granules);
  std::uint32_t& head = heads_[level][sub];
  blocks_[id].previous = 0;
  blocks_[id].next = head;
  if (head != 0) blocks_[head].previous = id;
  head = id;
  first_level_map_ |= 1U << level;
  sub_level_map_[level] |= 1U << sub;
  granules_ += blocks_[id].granules;
}

void FreeBins::unlink(std::uint32_t id) {
  const auto [level, sub] = bin_of(blocks_[id].granules);
  const Block& b = blocks_[id];
  if (b.previous != 0) blocks_[b.previous].next = b.next;
  if (b.next != 0) blocks_[b.next].previous = b.previous;
  if (heads_[level][sub] == id) heads_[level][sub] = b.next;
  if (heads_[level][sub] == 0) sub_level_map_[level] &= ~(1U << sub);
  if (sub_level_map_[level] == 0) first_level_map_ &= ~(1U << level);
  granules_ -= b.granules;
}

std::uint32_t FreeBins::fit_in_bin(std::uint32_t head, std::uint32_t granules, std::uint32_t align,
                                   unsigned most_tries) const {
  for (std::uint32_t id = head; id != 0 && most_tries > 0; id = blocks_[id].next, --most_tries) {
    const Block& b = blocks_[id];
    if (alignment_.next(b.first, align) + granules <= b.first + b.granules) return id;
  }
  return 0;
}

std::uint32_t FreeBins::find(std::uint32_t granules, std::uint32_t align, bool whole_bin) const {
  const unsigned most_tries = whole_bin ? ~0U : 8;
  auto [level, sub] = bin_of(granules);
  std::uint32_t subs = sub_level_map_[level] & (~0U << sub);
  for (;;) {
    for (; subs != 0; subs &= subs - 1) {
      const auto s = static_cast<unsigned>(std::countr_zero(subs));
      const std::uint32_t id = fit_in_bin(heads_[level][s], granules, align, most_tries);
      if (id != 0) return id;
    }
    const std::uint32_t levels = level + 1 < first_levels ? first_level_map_ & (~0U << (level + 1)) : 0;
    if (levels == 0) return 0;
    level = static_cast<unsigned>(std::countr_zero(levels));
    subs = sub_level_map_[level];
  }
}

std::uint32_t FreeBins::largest() const {
  if (first_level_map_ == 0) return 0;
  const auto level = 31U - static_cast<unsigned>(std::countl_zero(first_level_map_));
  const auto sub = 31U - static_cast<unsigned>(std::countl_zero(sub_level_map_[level]));
  return heads_[level][sub];
}

}  // namespace terrace::liballoc
