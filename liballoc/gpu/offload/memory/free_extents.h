// Which parts of a growing space are free: the bookkeeping of the slab, without its bytes.
//
// Best fit, the lowest address among equals, neighbours joined. Best fit, because saved tensors come in few
// sizes that return every step: a hole of exactly the size is usually there, and taking it splits nothing.
// Low addresses, because the space is given back from its end.
//
// Two ordered sets of the same holes, so that everything is logarithmic in their number. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace terrace::liballoc::offload {

class FreeExtents {
 public:
  // True and the place of `bytes` in *offset (untouched on failure).
  bool take(std::uint64_t bytes, std::uint64_t* offset);
  // What take() gave, a part of it, or space that is new. Must not overlap what is free.
  void give(std::uint64_t offset, std::uint64_t bytes);
  // Takes [offset, end of the space) out, which is free as a whole; false, and nothing changes, if it is not.
  bool cut(std::uint64_t offset, std::uint64_t end);

  // Gives everything from `offset` on to `to`.
  void move_from(std::uint64_t offset, FreeExtents* to);

  std::uint64_t free_bytes() const { return free_bytes_; }
  std::uint64_t largest() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  // The hole that ends at `end`; 0 bytes if there is none.
  std::uint64_t ending_at(std::uint64_t end) const;

 private:
  using Hole = std::map<std::uint64_t, std::uint64_t>::iterator;
  void add(std::uint64_t offset, std::uint64_t bytes);
  void remove(Hole hole);

  std::map<std::uint64_t, std::uint64_t> by_offset_;           // offset, bytes
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // bytes, offset
  std::uint64_t free_bytes_ = 0;
};

}  // namespace terrace::liballoc::offload
