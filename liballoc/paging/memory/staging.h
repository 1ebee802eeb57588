// Staging frames: where pages lie between the heap and the tier.
//
// A frame is one run of address space that holds somebody's pages, or free memory, or nothing. Moving pages
// into a frame costs a page-table update, so frames are how memory is recycled between addresses: what one
// tensor gives up is moved under the next one, and nothing is faulted in twice. Belongs to who holds the
// gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/heap/space/address_space.h"
#include "liballoc/paging/mover/mover.h"

namespace terrace::liballoc {

class Staging {
 public:
  // Reserves address space for `frames` frames. 0 or errno.
  int initialise(std::uint32_t frames, Mover* mover);
  // In a forked child: no frame came along but those that were shown to it (expose()).
  void reset_after_fork();

  std::byte* address(std::uint32_t frame) const { return base_ + std::size_t{frame} * run_bytes; }

  // A frame without memory, `none` when all are in use.
  std::uint32_t take_absent();
  void give_absent(std::uint32_t frame);
  // A frame with memory whose content is nobody's.
  std::uint32_t take_free();
  std::uint32_t free_frames() const { return free_count_; }
  // How many pages of memory a frame has. `small`: they may not be one huge page.
  void note_memory(std::uint32_t frame, std::uint32_t pages, bool small);
  std::uint32_t memory_of(std::uint32_t frame) const { return memory_[frame] & ~small_bit; }
  bool is_small(std::uint32_t frame) const { return (memory_[frame] & small_bit) != 0; }
  // Gives back a frame whose content is nobody's any more. It becomes a free one if it is one huge page, else
  // its memory goes to the kernel: pages that did.
  std::uint32_t release(std::uint32_t frame);
  // Returns one free frame's memory to the kernel: pages.
  std::uint32_t drop_free();
  // Returns a frame's memory to the kernel: pages.
  std::uint32_t discard(std::uint32_t frame);

  // Takes the frames out of what the kernel locked.
  void unlock();

  // Frames are kept from forked children; a frame whose bytes lie nowhere else is shown to them.
  void expose(std::uint32_t frame);
  void hide(std::uint32_t frame);

 private:
  static constexpr std::uint16_t small_bit = 1U << 15;

  std::byte* base_ = nullptr;
  std::uint32_t frames_ = 0;
  std::uint32_t* absent_ = nullptr;  // stacks of frame numbers
  std::uint32_t* free_ = nullptr;
  std::uint16_t* memory_ = nullptr;  // pages, by frame
  std::uint32_t absent_count_ = 0;
  std::uint32_t free_count_ = 0;
};

}  // namespace terrace::liballoc
