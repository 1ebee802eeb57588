// The live blocks that the hooks gave out: what tells a pointer of ours from one that cudaMallocManaged, a
// memory pool or another library made, and what remembers the size and the device that terrace_gpu_free()
// wants to know.
//
// A hash table with open addressing (linear probing; deletion by shifting back: Knuth, TAOCP 3, 6.4,
// algorithm R), at most half full, in memory from malloc. All functions may be called by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace terrace::liballoc::gpu {

struct Block {
  std::uintptr_t address = 0;  // 0: an empty slot
  std::size_t bytes = 0;
  int device = 0;
};

class BlockTable {
 public:
  constexpr BlockTable() = default;
  ~BlockTable();
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  // False: no memory for the table; nothing was entered. The address is not in the table, and not 0.
  bool insert(const Block& block);
  // Whether the address is the start of a live block.
  bool find(std::uintptr_t address, Block* out) const;
  // The same, and it is one no longer: of two threads that free one address, one gets it.
  bool take(std::uintptr_t address, Block* out);
  std::size_t size() const;

 private:
  std::size_t home(std::uintptr_t address) const;
  std::size_t slot_of(std::uintptr_t address) const;
  bool grow();
  void close_gap(std::size_t gap);

  mutable std::mutex lock_;
  Block* slots_ = nullptr;
  std::size_t capacity_ = 0;  // a power of two, or 0
  std::size_t size_ = 0;
};

}  // namespace terrace::liballoc::gpu
