// Which live block was born at which event of the claimed phase: what a schedule calls an object
// (birth ordinal), as a block's number. Independent of any schedule, so that one that comes late knows the
// objects that are there. Belongs to who holds the gate.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/wire/period/period.h"

namespace terrace::liballoc {

class StepBirths {
 public:
  static constexpr std::uint32_t most_ordinals = wire::most_period_events;
  static constexpr std::uint32_t unknown = ~0U;

  constexpr StepBirths() = default;
  // Numbers of blocks are smaller than `most_blocks`. 0 or ENOMEM; memory is the kernel's until it is used.
  int initialise(std::uint32_t most_blocks) {
    const auto map = [](std::size_t count) {
      return static_cast<std::uint32_t*>(
          os::map_anonymous(count * sizeof(std::uint32_t), PROT_READ | PROT_WRITE));
    };
    blocks_ = map(most_ordinals);
    births_ = map(most_blocks);
    return blocks_ == nullptr || births_ == nullptr ? ENOMEM : 0;
  }

  void born(std::uint32_t block, std::uint32_t ordinal) {
    if (ordinal >= most_ordinals) return;
    if (const std::uint32_t before = blocks_[ordinal]; before != 0) births_[before] = 0;
    forget(block);
    blocks_[ordinal] = block;
    births_[block] = ordinal + 1;
    top_ = std::max(top_, ordinal + 1);
  }
  void forget(std::uint32_t block) {
    const std::uint32_t birth = births_[block];
    if (birth != 0) blocks_[birth - 1] = 0;
    births_[block] = 0;
  }
  void forget_all() {
    for (std::uint32_t i = 0; i < top_; ++i)
      if (blocks_[i] != 0) forget(blocks_[i]);
    top_ = 0;
  }

  std::uint32_t birth_of(std::uint32_t block) const {
    return births_[block] == 0 ? unknown : births_[block] - 1;
  }
  // 0: none that lives.
  std::uint32_t block_of(std::uint32_t ordinal) const {
    return ordinal < most_ordinals ? blocks_[ordinal] : 0;
  }

 private:
  std::uint32_t* blocks_ = nullptr;  // by ordinal
  std::uint32_t* births_ = nullptr;  // by block: 1 + ordinal
  std::uint32_t top_ = 0;            // ordinals below it may have a block
};

}  // namespace terrace::liballoc
