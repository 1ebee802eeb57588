// Which ranges are watched: the heap's and the frames', and runs that a move has left unwatched.
//
// A mapping that is moved joins a neighbour that is like it, and then loses its registration with all that it
// joined (Linux 6.18 at least: mremap_userfaultfd_prep() clears the mapping that copy_vma() gave it, whatever
// that is now). So what is moved back is not registered while it moves, and what was moved out is registered
// with all frames.
#pragma once

#include <cstddef>

#include "liballoc/paging/mover/userfault.h"

namespace terrace::liballoc {

class Watching {
 public:
  explicit constexpr Watching(Userfault& userfault) : userfault_(userfault) {}
  void forget() {
    frames_ = nullptr;
    frames_bytes_ = 0;
    some_are_not_ = false;
  }

  // The first range of frames is the one that watch_frames() means.
  void know_frames(std::byte* address, std::size_t bytes) {
    if (frames_ != nullptr) return;
    frames_ = address;
    frames_bytes_ = bytes;
  }
  int watch_frames() { return userfault_.watch(frames_, frames_bytes_); }
  // A run or a frame may have been left unwatched.
  void note_unwatched() { some_are_not_ = true; }
  bool some_are_not() const { return some_are_not_; }
  int watch_again(std::byte* address, std::size_t bytes) {
    return some_are_not_ ? userfault_.watch(address, bytes) : 0;
  }

 private:
  Userfault& userfault_;
  std::byte* frames_ = nullptr;
  std::size_t frames_bytes_ = 0;
  bool some_are_not_ = false;
};

}  // namespace terrace::liballoc
