// Blocks that the program offers: until it takes one back (Heap::restore(), free()) no work of its uses them,
// so that the heap may move their bytes to host memory whenever frames are short. Nothing else of a running
// program can be moved: a kernel may use any block at any time, and nobody tells the heap.
//
// Whoever was offered first goes first. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace terrace::liballoc::gpu {

class Offers {
 public:
  void add(std::uint64_t offset, std::uint64_t bytes) {
    by_offset_[offset] = {++last_, bytes};
    by_age_[last_] = offset;
    bytes_ += bytes;
  }
  // False: the block is not offered.
  bool withdraw(std::uint64_t offset) {
    const auto found = by_offset_.find(offset);
    if (found == by_offset_.end()) return false;
    by_age_.erase(found->second.age);
    bytes_ -= found->second.bytes;
    by_offset_.erase(found);
    return true;
  }
  // The one that was offered first, which is not offered any more.
  std::optional<std::uint64_t> take() {
    if (by_age_.empty()) return std::nullopt;
    const std::uint64_t offset = by_age_.begin()->second;
    withdraw(offset);
    return offset;
  }
  [[nodiscard]] bool has(std::uint64_t offset) const { return by_offset_.contains(offset); }
  [[nodiscard]] bool empty() const { return by_offset_.empty(); }
  // Of the blocks, as they were asked for.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  struct Offer {
    std::uint64_t age = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::uint64_t, Offer> by_offset_;
  std::map<std::uint64_t, std::uint64_t> by_age_;
  std::uint64_t last_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace terrace::liballoc::gpu
