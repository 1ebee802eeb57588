// Where each live block was born: what its allocation looked like, and its place in the period.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/lifetimes/repeats/clock_event.h"

namespace terrace::liballoc {

struct BornBlock {
  std::uint32_t token = 0;  // 0: nothing is known of the block
  std::uint32_t thread = 0;
  std::uint32_t kib = 0;
  std::uint32_t position = 0;          // number of the event, modulo 2^32
  std::uint32_t claim = 0;             // number of the claim it was part of; 0: of none
  std::uint32_t period = 0;            // of that claim
  std::uint32_t ordinal = no_ordinal;  // in that period
};

class Births {
 public:
  int initialise(std::uint32_t most_blocks) {
    blocks_ = static_cast<BornBlock*>(
        os::map_anonymous(std::size_t{most_blocks} * sizeof(BornBlock), PROT_READ | PROT_WRITE));
    most_ = blocks_ != nullptr ? most_blocks : 0;
    return blocks_ == nullptr ? ENOMEM : 0;
  }
  void finish() {
    if (blocks_ != nullptr) os::unmap(blocks_, std::size_t{most_} * sizeof(BornBlock));
    blocks_ = nullptr;
    most_ = 0;
  }
  void put(std::uint32_t block, const BornBlock& born) {
    if (block < most_) blocks_[block] = born;
  }
  BornBlock take(std::uint32_t block) {
    if (block >= most_) return {};
    const BornBlock born = blocks_[block];
    blocks_[block] = BornBlock{};
    return born;
  }
  BornBlock* find(std::uint32_t block) {
    return block < most_ && blocks_[block].token != 0 ? &blocks_[block] : nullptr;
  }

 private:
  BornBlock* blocks_ = nullptr;
  std::uint32_t most_ = 0;
};

}  // namespace terrace::liballoc
