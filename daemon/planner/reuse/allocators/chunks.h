// What TensorFlow's and PyTorch's allocators have in common: regions got from the device, cut into chunks
// that know their neighbours, free chunks in pools ordered by size and then address.
//
//   address line   |-- region 0 (pool 1) ----------|-- region 1 (pool 0) --|
//   chunks         | used | free |   used   | free |         free          |
//
// Neighbours inside a region that are both free are one chunk, always; chunks of two regions never merge,
// even where the regions touch. Regions stand one after another on one line, so that an address is an offset
// for check_placement(); one that is given back leaves a hole, which the next region that fits takes (first
// fit, as a driver maps physical pages at any address that is free).
//
// Not thread-safe. All operations are O(log n) in the number of chunks, add_region() is linear in the holes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace terrace::planner {

// No device has a larger address space; above it sizes are refused, so that no sum wraps around.
inline constexpr std::uint64_t most_request_bytes = std::uint64_t{1} << 47;

class Chunks {
 public:
  using Handle = std::uint32_t;
  static constexpr Handle none = 0xffffffffU;

  explicit Chunks(std::uint32_t pools) : free_(pools) {}

  // A region of `bytes` > 0 as one free chunk.
  void add_region(std::uint64_t bytes, std::uint32_t pool);

  // The smallest free chunk of at least `bytes`, of those the one at the lowest address.
  [[nodiscard]] Handle best_fit(std::uint32_t pool, std::uint64_t bytes) const;

  // The free chunk that begins at `address`; none if there is none. Linear in the free chunks: for checks.
  [[nodiscard]] Handle free_chunk_at(std::uint32_t pool, std::uint64_t address) const;

  // Takes a free chunk; what lies beyond `bytes` becomes a free chunk of its own if `split` and not empty.
  // Returns the address.
  std::uint64_t take(Handle chunk, std::uint64_t bytes, bool split);

  // Frees what take() returned, merging it with free neighbours. False if nothing in use begins there.
  bool release(std::uint64_t address);

  // Gives back every region without a chunk in use; returns the bytes.
  std::uint64_t release_free_regions();

  // The bytes that release_free_regions() would return.
  [[nodiscard]] std::uint64_t free_region_bytes() const;

  [[nodiscard]] std::uint64_t chunk_address(Handle chunk) const { return chunks_[chunk].address; }
  [[nodiscard]] std::uint64_t chunk_bytes(Handle chunk) const { return chunks_[chunk].bytes; }
  [[nodiscard]] std::uint64_t reserved_bytes() const { return reserved_; }
  [[nodiscard]] std::uint64_t allocated_bytes() const { return allocated_; }
  [[nodiscard]] std::uint64_t peak_reserved_bytes() const { return peak_reserved_; }
  [[nodiscard]] std::uint64_t peak_allocated_bytes() const { return peak_allocated_; }
  [[nodiscard]] std::uint64_t line_end() const { return line_end_; }  // no region ever ended above it

  // What is wrong, empty if nothing: gaps in a region, free neighbours, pools or sums that do not agree.
  [[nodiscard]] std::string check_invariants() const;

 private:
  struct Chunk {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    Handle before = none;
    Handle after = none;
    std::uint32_t pool = 0;
    bool used = false;
  };
  struct FreeKey {
    std::uint64_t bytes;
    std::uint64_t address;
    Handle chunk;
    bool operator<(const FreeKey& other) const {
      return bytes != other.bytes ? bytes < other.bytes : address < other.address;
    }
  };
  using FreeSet = std::set<FreeKey>;

  Handle new_chunk(const Chunk& chunk);
  void list(Handle chunk);
  void unlist(Handle chunk);
  void split_off(Handle chunk, std::uint64_t bytes);
  void merge_with_next(Handle chunk);  // both are free and listed nowhere
  std::uint64_t place_region(std::uint64_t bytes);
  void add_hole(std::uint64_t address, std::uint64_t bytes);
  [[nodiscard]] bool whole_region(Handle chunk) const;
  [[nodiscard]] std::string check_chunk(Handle chunk) const;

  std::vector<Chunk> chunks_;
  std::vector<Handle> spare_;
  std::vector<FreeSet> free_;                         // one per pool
  std::unordered_map<std::uint64_t, Handle> in_use_;  // by address
  std::map<std::uint64_t, std::uint64_t> regions_;    // address -> bytes
  std::map<std::uint64_t, std::uint64_t> holes_;      // address -> bytes, below line_end_
  std::uint64_t line_end_ = 0;
  std::uint64_t reserved_ = 0;
  std::uint64_t allocated_ = 0;
  std::uint64_t peak_reserved_ = 0;
  std::uint64_t peak_allocated_ = 0;
};

}  // namespace terrace::planner
