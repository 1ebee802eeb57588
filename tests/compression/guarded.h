// A buffer between two pages that cannot be touched: what reads or writes beyond it ends the test with
// SIGSEGV. Its bytes lie either right before the page behind, or right behind the page before; the rest of
// its own pages holds a pattern.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace terrace::compression {

enum class Edge { end, begin };

class Guarded {
 public:
  Guarded(std::size_t bytes, Edge edge) : bytes_(bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    room_ = (bytes + page - 1) / page * page;
    mapped_ = room_ + 2 * page;
    void* all = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map_ = all == MAP_FAILED ? nullptr : static_cast<std::byte*>(all);
    room_begin_ = map_ + page;
    if (room_ > 0) mprotect(room_begin_, room_, PROT_READ | PROT_WRITE);
    std::fill_n(room_begin_, room_, pattern);
    data_ = edge == Edge::end ? room_begin_ + room_ - bytes : room_begin_;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(map_, mapped_); }

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

  // Nothing was written next to the bytes.
  bool surroundings_untouched() const {
    const auto is_pattern = [](std::byte b) { return b == pattern; };
    return std::all_of(room_begin_, data_, is_pattern) &&
           std::all_of(data_ + bytes_, room_begin_ + room_, is_pattern);
  }

 private:
  static constexpr std::byte pattern{0xa5};
  std::size_t bytes_, room_ = 0, mapped_ = 0;
  std::byte* map_ = nullptr;
  std::byte* room_begin_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace terrace::compression
