#include "liballoc/heap/space/address_space.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

std::uint32_t granules_for(std::size_t bytes) {
  return static_cast<std::uint32_t>(std::max<std::size_t>((bytes + granule_bytes - 1) / granule_bytes, 1));
}

[[noreturn]] void broken(const char* what, std::uint32_t id) {
  Message(Severity::error) << "heap invariant broken: " << what << ", block " << std::uint64_t{id};
  std::abort();
}

}  // namespace

int AddressSpace::initialise(std::byte* base, std::size_t bytes) {
  const auto granules = static_cast<std::uint32_t>(bytes / granule_bytes);
  // One for each granule, none, and what an allocation takes for a moment.
  most_records_ = std::min<std::uint32_t>(granules + 4, 1U << 24);
  auto* map = os::map_anonymous(std::size_t{granules} * sizeof(std::uint32_t), PROT_READ | PROT_WRITE);
  auto* records = os::map_anonymous(std::size_t{most_records_} * sizeof(Block), PROT_READ | PROT_WRITE);
  if (map == nullptr || records == nullptr || starts_.initialise(granules) != 0) return ENOMEM;
  base_ = base;
  granules_ = granules;
  block_at_ = static_cast<std::uint32_t*>(map);
  blocks_ = static_cast<Block*>(records);
  // The base itself is only on a run.
  alignment_ = Alignment(reinterpret_cast<std::uintptr_t>(base) / granule_bytes);
  used_.initialise(blocks_, alignment_);
  virgin_.initialise(blocks_, alignment_);
  return 0;
}

std::uint32_t AddressSpace::new_record() {
  if (spare_ != 0) {
    const std::uint32_t id = spare_;
    spare_ = blocks_[id].next;
    blocks_[id] = Block{};
    return id;
  }
  return records_ < most_records_ ? records_++ : 0;
}

// Extending takes one record, carving two: an operation that would run out halfway is not begun.
bool AddressSpace::has_records(std::uint32_t wanted) const {
  std::uint32_t have = most_records_ - records_;
  for (std::uint32_t id = spare_; id != 0 && have < wanted; id = blocks_[id].next) ++have;
  return have >= wanted;
}

void AddressSpace::drop_record(std::uint32_t id) {
  blocks_[id] = Block{};
  blocks_[id].next = spare_;
  spare_ = id;
}

void AddressSpace::map_ends(std::uint32_t id) {
  const Block& b = blocks_[id];
  block_at_[b.first] = id;
  block_at_[b.first + b.granules - 1] = id;
  starts_.insert(b.first);
}

void AddressSpace::unmap_ends(std::uint32_t id) {
  const Block& b = blocks_[id];
  block_at_[b.first] = 0;
  block_at_[b.first + b.granules - 1] = 0;
  starts_.erase(b.first);
}

std::uint32_t AddressSpace::add_free(std::uint32_t first, std::uint32_t granules, bool virgin) {
  const std::uint32_t id = new_record();
  if (id == 0) return 0;
  blocks_[id] = Block{.first = first, .granules = granules, .state = BlockState::free, .virgin = virgin};
  map_ends(id);
  bins_of(id).link(id);
  return id;
}

// Takes fresh address space: a free block at the top that is about to be carved.
std::uint32_t AddressSpace::extend(std::uint32_t granules, std::uint32_t align) {
  const std::uint32_t start = alignment_.next(top_, align);
  if (start < top_ || start > granules_ || granules > granules_ - start) return 0;
  const std::uint32_t id = add_free(top_, start + granules - top_, true);
  if (id != 0) top_ = start + granules;
  return id;
}

// Turns a part of a free block into a live one; what is left at either end stays free.
std::uint32_t AddressSpace::carve(std::uint32_t id, std::uint32_t start, std::uint32_t granules) {
  const Block whole = blocks_[id];
  bins_of(id).unlink(id);
  unmap_ends(id);
  const std::uint32_t left = start - whole.first;
  const std::uint32_t right = whole.granules - left - granules;
  blocks_[id] =
      Block{.first = start, .granules = granules, .state = BlockState::live, .virgin = whole.virgin};
  map_ends(id);
  if (left != 0) add_free(whole.first, left, whole.virgin);
  if (right != 0) add_free(start + granules, right, whole.virgin);
  live_ += granules;
  return id;
}

std::uint32_t AddressSpace::allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes > std::size_t{granules_} * granule_bytes || !has_records(3)) return 0;
  const std::uint32_t granules = granules_for(bytes);
  if (alignment > (std::size_t{1} << 40)) return 0;
  std::uint32_t align = static_cast<std::uint32_t>(std::max<std::size_t>(alignment / granule_bytes, 1));
  if (granules >= granules_per_run) align = std::max(align, granules_per_run);
  std::uint32_t id = used_.find(granules, align, false);
  if (id == 0) id = virgin_.find(granules, align, false);
  if (id == 0 && unite_largest(granules)) id = used_.find(granules, align, true);
  if (id == 0) id = extend(granules, align);
  if (id == 0) id = used_.find(granules, align, true);
  if (id == 0) id = virgin_.find(granules, align, true);
  if (id == 0 && unite()) id = used_.find(granules, align, true);
  return id == 0 ? 0 : carve(id, alignment_.next(blocks_[id].first, align), granules);
}

// The second extent lies behind the first and joins it; the whole counts as used.
void AddressSpace::join(std::uint32_t first, std::uint32_t second) {
  for (const std::uint32_t part : {first, second}) {
    bins_of(part).unlink(part);
    unmap_ends(part);
  }
  blocks_[first].granules += blocks_[second].granules;
  blocks_[first].virgin = false;
  drop_record(second);
  map_ends(first);
  bins_of(first).link(first);
}

// An extent of which a part gave its memory back would never be used as a whole again, and the next block of
// its size would take fresh memory, and so on. True: it was joined with what is beside it, and is large
// enough.
bool AddressSpace::unite_largest(std::uint32_t granules) {
  std::uint32_t id = used_.largest();
  if (id == 0) return false;
  const Block& b = blocks_[id];
  const std::uint32_t left = b.first == 0 ? 0 : block_at_[b.first - 1];
  const std::uint32_t right = b.first + b.granules >= top_ ? 0 : block_at_[b.first + b.granules];
  const auto free_granules = [this](std::uint32_t n) {
    return n != 0 && blocks_[n].state == BlockState::free ? blocks_[n].granules : 0;
  };
  if (b.granules + free_granules(left) + free_granules(right) < granules) return false;
  if (free_granules(right) != 0) join(id, right);
  if (free_granules(left) != 0 && blocks_[id].granules < granules) {
    join(left, id);
    id = left;
  }
  bins_of(id).unlink(id);
  id = merge_with_neighbours(id);
  bins_of(id).link(id);
  return true;
}

// Address space is short: what is virgin joins free neighbours that were used, and counts as used. True: some
// did.
bool AddressSpace::unite() {
  bool done = false;
  std::uint32_t before = 0;
  for (std::uint32_t at = 0; at < top_;) {
    const std::uint32_t id = block_at_[at];
    at += blocks_[id].granules;
    const bool is_free = blocks_[id].state == BlockState::free;
    if (!is_free || before == 0) {
      before = is_free ? id : 0;
      continue;
    }
    join(before, id);
    done = true;
  }
  return done;
}

// The range may lie in several free extents, as what was used and what is virgin do not coalesce.
std::uint32_t AddressSpace::claim(std::uint32_t first, std::uint32_t granules) {
  const std::uint32_t end = first + granules;
  if (!has_records(granules + 3) || (end > top_ && extend(end - top_, 1) == 0)) return 0;
  const std::uint32_t start = starts_.last_up_to(first);
  if (start == GranuleMap::absent) return 0;
  for (std::uint32_t at = start; at < end; at += blocks_[block_at_[at]].granules)
    if (blocks_[block_at_[at]].state != BlockState::free) return 0;
  const std::uint32_t id = block_at_[start];
  carve(id, first, std::min(end, start + blocks_[id].granules) - first);
  for (std::uint32_t at = first + blocks_[id].granules; at < end; at = first + blocks_[id].granules) {
    const std::uint32_t part = std::min(end - at, blocks_[block_at_[at]].granules);
    grow(id, std::size_t{blocks_[id].granules + part} * granule_bytes);
  }
  return id;
}

std::uint32_t AddressSpace::claim_recycled(std::uint32_t most) {
  const std::uint32_t id = used_.largest();
  if (id == 0 || !has_records(2)) return 0;
  const Block& b = blocks_[id];
  const std::uint32_t granules = std::min(most, b.granules);
  return carve(id, b.first + b.granules - granules, granules);
}

bool AddressSpace::can_merge(std::uint32_t id, std::uint32_t neighbour) const {
  return neighbour != 0 && blocks_[neighbour].state == BlockState::free &&
         blocks_[neighbour].virgin == blocks_[id].virgin;
}

std::uint32_t AddressSpace::merge_left(std::uint32_t id) {
  const Block b = blocks_[id];
  if (b.first == 0) return id;
  const std::uint32_t left = block_at_[b.first - 1];
  if (!can_merge(id, left)) return id;
  bins_of(left).unlink(left);
  unmap_ends(left);
  unmap_ends(id);
  blocks_[left].granules += b.granules;
  drop_record(id);
  map_ends(left);
  return left;
}

void AddressSpace::merge_right(std::uint32_t id) {
  const std::uint32_t end = blocks_[id].first + blocks_[id].granules;
  if (end >= top_) return;
  const std::uint32_t right = block_at_[end];
  if (!can_merge(id, right)) return;
  bins_of(right).unlink(right);
  unmap_ends(right);
  unmap_ends(id);
  blocks_[id].granules += blocks_[right].granules;
  drop_record(right);
  map_ends(id);
}

void AddressSpace::free(std::uint32_t id, bool virgin) {
  live_ -= blocks_[id].granules;
  blocks_[id].state = BlockState::free;
  blocks_[id].virgin = virgin;
  id = merge_with_neighbours(id);
  bins_of(id).link(id);
}

std::uint32_t AddressSpace::merge_with_neighbours(std::uint32_t id) {
  merge_right(id);
  // More than once: two extents that were skipped for alignment lie beside each other.
  for (std::uint32_t left = merge_left(id); left != id; left = merge_left(id)) id = left;
  return id;
}

bool AddressSpace::grow(std::uint32_t id, std::size_t bytes) {
  if (bytes > std::size_t{granules_} * granule_bytes || !has_records(2)) return false;
  const Block b = blocks_[id];
  const std::uint32_t wanted = granules_for(bytes);
  if (wanted <= b.granules) return true;
  const std::uint32_t end = b.first + b.granules;
  if (end == top_ && extend(wanted - b.granules, 1) == 0) return false;
  const std::uint32_t right = block_at_[end];
  if (right == 0 || blocks_[right].state != BlockState::free ||
      b.granules + blocks_[right].granules < wanted) {
    return false;
  }
  carve(right, end, wanted - b.granules);
  blocks_[id].virgin = b.virgin && blocks_[right].virgin;
  unmap_ends(right);
  drop_record(right);
  unmap_ends(id);
  blocks_[id].granules = wanted;
  map_ends(id);
  return true;
}

void AddressSpace::shrink(std::uint32_t id, std::size_t bytes) {
  const std::uint32_t wanted = granules_for(bytes);
  Block& b = blocks_[id];
  if (wanted >= b.granules || !has_records(1)) return;
  unmap_ends(id);
  const std::uint32_t rest = b.granules - wanted;
  b.granules = wanted;
  map_ends(id);
  live_ -= rest;
  const std::uint32_t tail = add_free(b.first + wanted, rest, false);
  bins_of(tail).unlink(tail);
  merge_right(tail);
  bins_of(tail).link(tail);
}

std::uint32_t AddressSpace::live_block_at(const void* address) const {
  const std::size_t offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_);
  if (offset % granule_bytes != 0) return 0;
  const std::size_t granule = offset / granule_bytes;
  if (granule >= top_) return 0;
  const std::uint32_t id = block_at_[granule];
  return id != 0 && blocks_[id].first == granule && blocks_[id].state == BlockState::live ? id : 0;
}

std::uint32_t AddressSpace::live_block_covering(const void* address) const {
  const std::size_t offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_);
  if (offset / granule_bytes >= top_) return 0;
  const std::uint32_t start = starts_.last_up_to(static_cast<std::uint32_t>(offset / granule_bytes));
  if (start == GranuleMap::absent) return 0;
  const std::uint32_t id = block_at_[start];
  return blocks_[id].state == BlockState::live ? id : 0;
}

void AddressSpace::check_invariants() const {
  std::uint32_t granule = 0;
  std::uint32_t live = 0;
  std::uint32_t recycled = 0;
  std::uint32_t before = 0;
  while (granule < top_) {
    const std::uint32_t id = block_at_[granule];
    if (id == 0 || id >= records_) broken("no block at a boundary", id);
    const Block& b = blocks_[id];
    if (b.first != granule || b.granules == 0) broken("record and map disagree", id);
    if (block_at_[b.first + b.granules - 1] != id) broken("the end is not mapped", id);
    if (starts_.last_up_to(granule + b.granules - 1) != granule) broken("the map of starts disagrees", id);
    if (b.state == BlockState::unused) broken("an unused record is mapped", id);
    const bool is_free = b.state == BlockState::free;
    const bool merges = is_free && before != 0 && blocks_[before].virgin == b.virgin;
    if (merges && !b.virgin) broken("free neighbours were not merged", id);
    before = is_free ? id : 0;
    if (!is_free) live += b.granules;
    if (is_free && !b.virgin) recycled += b.granules;
    granule += b.granules;
  }
  if (granule != top_) broken("blocks end beyond the top", 0);
  if (live != live_ || recycled != recycled_granules()) broken("the counts of granules disagree", 0);
}

}  // namespace terrace::liballoc
