// The heap's address space: which granules belong to which block, and where the next block goes.
//
// Addresses are plentiful and frames are what counts, so this is a classic extent allocator over one
// reserved range, kept apart from what backs the range (paging/pager.h). Free extents hang in bins by size
// (free_bins.h). Neighbours coalesce at once.
//
//   granule (16 KiB)   |0|1|2|3|4|5|6|7|...            block_at_[granule] = id of the block that
//   blocks             [ live 3  ][free][ live  ...     begins or ends there
//   runs (2 MiB)       |------ 128 granules ------|     a block of 2 MiB or more begins on a run
//
// Blocks of a run or more begin on a run boundary, so that large tensors never share their runs' heads and
// huge pages fit; smaller blocks fill the tails. Not thread-safe: the heap's lock covers it. Never allocates:
// records come from a reserved array.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/heap/space/block.h"
#include "liballoc/heap/space/free_bins.h"
#include "liballoc/heap/space/granule_map.h"

namespace terrace::liballoc {

class AddressSpace {
 public:
  // `base` is run-aligned reserved memory of `bytes` (a multiple of run_bytes). 0 or errno.
  int initialise(std::byte* base, std::size_t bytes);

  // 0 when no extent fits. `alignment` is a power of two in bytes. Memory that was used before goes first.
  std::uint32_t allocate(std::size_t bytes, std::size_t alignment);
  // `virgin`: the block's memory went back to the kernel, so it reads as zeroes again.
  void free(std::uint32_t id, bool virgin = false);
  // Makes [first, first + granules) a live block if all of it is free; 0 if not. For who works on free
  // memory, so that nobody is given it meanwhile.
  std::uint32_t claim(std::uint32_t first, std::uint32_t granules);
  // The same with the whole of a large free extent that was used before, at most `most` granules; 0 if there
  // is none.
  std::uint32_t claim_recycled(std::uint32_t most);
  // Grows a live block in place to at least `bytes`; false if its right neighbour is not free or too small.
  bool grow(std::uint32_t id, std::size_t bytes);
  // Cuts a live block down to `bytes`.
  void shrink(std::uint32_t id, std::size_t bytes);

  // The live block that begins at `address`, or 0.
  std::uint32_t live_block_at(const void* address) const;
  // The live block that covers `address`, or 0.
  std::uint32_t live_block_covering(const void* address) const;

  const Block& block(std::uint32_t id) const { return blocks_[id]; }
  Block& block(std::uint32_t id) { return blocks_[id]; }
  std::byte* address(std::uint32_t id) const {
    return base_ + std::size_t{blocks_[id].first} * granule_bytes;
  }
  std::size_t capacity(std::uint32_t id) const { return std::size_t{blocks_[id].granules} * granule_bytes; }

  // Granules ever handed out; beyond them nothing has been touched.
  std::uint32_t top() const { return top_; }
  // Of live blocks; of free extents that were used before, so that there may be memory behind them.
  std::uint32_t live_granules() const { return live_; }
  std::uint32_t recycled_granules() const { return used_.granules(); }

  // The order of addresses: where the block or free extent begins that covers the granule, and what follows
  // one that begins there.
  std::uint32_t extent_start(std::uint32_t granule) const {
    return granule == 0 ? 0 : starts_.last_up_to(granule);
  }
  std::uint32_t extent_end(std::uint32_t start) const { return start + blocks_[block_at_[start]].granules; }
  std::uint32_t id_at(std::uint32_t start) const { return block_at_[start]; }

  std::uint32_t most_records() const { return most_records_; }

  // Aborts the process with a message if the bins, the map and the records disagree.
  void check_invariants() const;

 private:
  bool has_records(std::uint32_t wanted) const;
  // Free extents hang apart by whether they were used before, and only their like coalesce: what was used has
  // memory behind it that need not be faulted in again.
  FreeBins& bins_of(std::uint32_t id) { return blocks_[id].virgin ? virgin_ : used_; }
  std::uint32_t new_record();
  void drop_record(std::uint32_t id);
  void map_ends(std::uint32_t id);
  void unmap_ends(std::uint32_t id);
  std::uint32_t add_free(std::uint32_t first, std::uint32_t granules, bool virgin);
  std::uint32_t merge_with_neighbours(std::uint32_t id);
  bool unite();
  bool unite_largest(std::uint32_t granules);
  void join(std::uint32_t first, std::uint32_t second);
  bool can_merge(std::uint32_t id, std::uint32_t neighbour) const;
  std::uint32_t extend(std::uint32_t granules, std::uint32_t align);
  std::uint32_t carve(std::uint32_t id, std::uint32_t start, std::uint32_t granules);
  std::uint32_t merge_left(std::uint32_t id);
  void merge_right(std::uint32_t id);

  std::byte* base_ = nullptr;
  std::uint32_t granules_ = 0;
  std::uint32_t top_ = 0;
  std::uint32_t* block_at_ = nullptr;
  Block* blocks_ = nullptr;
  std::uint32_t records_ = 1;  // id 0 is none
  std::uint32_t spare_ = 0;    // list of dropped records
  std::uint32_t most_records_ = 0;
  std::uint32_t live_ = 0;
  Alignment alignment_;
  FreeBins used_;
  FreeBins virgin_;
  GranuleMap starts_;
};

}  // namespace terrace::liballoc
