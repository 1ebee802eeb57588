#include "liballoc/gpu/offload/memory/free_extents.h"

#include <iterator>

namespace terrace::liballoc::offload {

void FreeExtents::add(std::uint64_t offset, std::uint64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
  free_bytes_ += bytes;
}

void FreeExtents::remove(Hole hole) {
  free_bytes_ -= hole->second;
  by_size_.erase({hole->second, hole->first});
  by_offset_.erase(hole);
}

bool FreeExtents::take(std::uint64_t bytes, std::uint64_t* offset) {
  const auto fit = by_size_.lower_bound({bytes, 0});
  if (fit == by_size_.end()) return false;
  const auto [hole_bytes, hole_offset] = *fit;
  remove(by_offset_.find(hole_offset));
  if (hole_bytes > bytes) add(hole_offset + bytes, hole_bytes - bytes);
  *offset = hole_offset;
  return true;
}

void FreeExtents::give(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  const auto after = by_offset_.lower_bound(offset);
  if (after != by_offset_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      remove(before);
    }
  }
  if (after != by_offset_.end() && after->first == offset + bytes) {
    bytes += after->second;
    remove(after);
  }
  add(offset, bytes);
}

void FreeExtents::move_from(std::uint64_t offset, FreeExtents* to) {
  while (!by_offset_.empty()) {
    const Hole last = std::prev(by_offset_.end());
    const auto [start, bytes] = *last;
    if (start + bytes <= offset) return;
    remove(last);
    const std::uint64_t kept = offset > start ? offset - start : 0;
    if (kept != 0) add(start, kept);
    to->give(start + kept, bytes - kept);
    if (kept != 0) return;
  }
}

std::uint64_t FreeExtents::ending_at(std::uint64_t end) const {
  if (by_offset_.empty()) return 0;
  const auto& [offset, bytes] = *by_offset_.rbegin();
  return offset + bytes == end ? bytes : 0;
}

bool FreeExtents::cut(std::uint64_t offset, std::uint64_t end) {
  const std::uint64_t tail = ending_at(end);
  if (tail < end - offset) return false;
  const std::uint64_t start = end - tail;
  remove(by_offset_.find(start));
  if (start < offset) add(start, offset - start);
  return true;
}

}  // namespace terrace::liballoc::offload
