// Memory that ends at an inaccessible page, so that one byte read or written too far ends the test. Before it
// lies a band of known bytes: holds() says whether nobody wrote there.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>

namespace terrace::compression::test {

class Walled {
 public:
  explicit Walled(std::size_t bytes, std::byte fill = std::byte{0xa5}) : bytes_(bytes) {
    length_ = (bytes + band + page - 1) / page * page;
    void* at = ::mmap(nullptr, length_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) std::abort();
    base_ = static_cast<std::byte*>(at);
    if (::mprotect(base_ + length_, page, PROT_NONE) != 0) std::abort();
    std::memset(data() - band, static_cast<int>(band_byte), band);
    std::memset(data(), std::to_integer<int>(fill), bytes);
  }
  explicit Walled(std::span<const std::byte> content) : Walled(content.size()) {
    if (!content.empty()) std::memcpy(data(), content.data(), content.size());
  }
  ~Walled() { ::munmap(base_, length_ + page); }
  Walled(const Walled&) = delete;
  Walled& operator=(const Walled&) = delete;

  std::byte* data() const { return base_ + length_ - bytes_; }
  std::size_t size() const { return bytes_; }
  std::span<std::byte> span() const { return {data(), bytes_}; }
  bool holds() const {
    return std::all_of(data() - band, data(),
                       [](std::byte b) { return b == static_cast<std::byte>(band_byte); });
  }
  bool equals(std::span<const std::byte> other) const {
    return other.size() == bytes_ && (bytes_ == 0 || std::memcmp(data(), other.data(), bytes_) == 0);
  }

 private:
  static constexpr std::size_t page = 4096, band = 256;
  static constexpr unsigned char band_byte = 0x5c;
  std::byte* base_;
  std::size_t length_, bytes_;
};

}  // namespace terrace::compression::test
