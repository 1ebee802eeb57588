// The heap's address space: which granules belong to which block, and where the next block goes.
//
// Addresses are plentiful and frames are what counts, so this is a classic extent allocator over one
// reserved range, kept apart from what backs the range (pager.h). Free extents hang in two-level
// segregated bins (TLSF, Masmano et al., ECRTS 2004): O(1) insert and remove, best fit to within 1/16.
// Neighbours coalesce at once.
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

#include "liballoc/heap/granule_map.h"

namespace terrace::liballoc {

inline constexpr std::size_t granule_bytes = std::size_t{16} * 1024;
inline constexpr std::size_t run_bytes = std::size_t{2} * 1024 * 1024;
inline constexpr std::uint32_t granules_per_run = run_bytes / granule_bytes;

enum class BlockState : std::uint8_t { unused, free, live };

struct Block {
  std::uint32_t first = 0;     // granule
  std::uint32_t granules = 0;  // length
  std::uint32_t previous = 0;  // free list links, by block id; 0 is none
  std::uint32_t next = 0;
  std::uint64_t call_site = 0;
  BlockState state = BlockState::unused;
  std::uint8_t hints = 0;
  bool virgin = false;  // nothing of it was handed out since the kernel gave it: its zeroes
};

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
  std::uint32_t recycled_granules() const { return recycled_; }

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
  static constexpr unsigned sub_bits = 4;
  static constexpr unsigned first_levels = 27;
  static constexpr unsigned sub_levels = 1U << sub_bits;
  struct Bin {
    unsigned first_level;
    unsigned sub_level;
  };
  // Free extents hang apart by whether they were used before, and only their like coalesce: what was used has
  // memory behind it that need not be faulted in again.
  struct Bins {
    std::uint32_t first_level_map = 0;
    std::uint32_t sub_level_map[first_levels] = {};
    std::uint32_t heads[first_levels][sub_levels] = {};
  };

  static Bin bin_of(std::uint32_t granules);
  std::uint32_t aligned(std::uint32_t granule, std::uint32_t align) const;
  bool has_records(std::uint32_t wanted) const;
  std::uint32_t new_record();
  void drop_record(std::uint32_t id);
  void map_ends(std::uint32_t id);
  void unmap_ends(std::uint32_t id);
  void link(std::uint32_t id);
  void unlink(std::uint32_t id);
  std::uint32_t add_free(std::uint32_t first, std::uint32_t granules, bool virgin);
  std::uint32_t find(const Bins& bins, std::uint32_t granules, std::uint32_t align, bool whole_bin) const;
  std::uint32_t fit_in_bin(std::uint32_t head, std::uint32_t granules, std::uint32_t align,
                           unsigned most_tries) const;
  Bins& bins_of(std::uint32_t id) { return bins_[blocks_[id].virgin ? 1 : 0]; }
  std::uint32_t merge_with_neighbours(std::uint32_t id);
  bool unite();
  bool unite_largest(std::uint32_t granules);
  void join(std::uint32_t first, std::uint32_t second);
  std::uint32_t largest_used() const;
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
  std::uint32_t recycled_ = 0;
  Bins bins_[2];  // used before; virgin
  GranuleMap starts_;
};

}  // namespace terrace::liballoc
