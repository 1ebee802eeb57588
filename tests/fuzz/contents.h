// From a fuzzer's input to a tensor's content: a small program of runs, so that few bytes reach many blocks,
// masks of any shape, and values with something in common.
#pragma once

#include <algorithm>
#include <cstring>

#include "tests/compression/support.h"

namespace terrace::compression::test {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  template <typename T>
  T value() {
    T value = {};
    const std::size_t bytes = std::min(sizeof value, left_);
    if (bytes > 0) std::memcpy(&value, data_, bytes);
    data_ += bytes;
    left_ -= bytes;
    return value;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

// One step: a run of zeros or of one value, values of a sequence, or what lies 64 elements before once more.
inline void append(Bytes& content, std::size_t count, std::size_t width, std::uint8_t step,
                   std::uint64_t& value) {
  std::size_t at = content.size();
  content.resize(at + count * width);
  const std::uint8_t kind = step / 16 % 4;
  for (std::byte* to = content.data() + at; kind != 0 && at < content.size(); at += width, to += width) {
    if (kind != 2) std::memcpy(to, &value, width);
    if (kind == 2 && at >= 64 * width) std::memcpy(to, to - 64 * width, width);
    if (kind == 3) value = value * 6364136223846793005U + (step / 64);
  }
}

// Mostly some thousand bytes, for speed; one of eight goes beyond two blocks.
inline Bytes content_from(Input& input, ElementType type) {
  const std::size_t width = width_of(type);
  const std::size_t most = input.byte() % 8 == 0 ? 2 * block_bytes + 4096 : 6000;
  Bytes content;
  std::uint64_t value = 1;
  while (!input.empty() && content.size() < most) {
    const std::uint8_t step = input.byte();
    const std::size_t count = step % 4 == 3 ? input.value<std::uint16_t>() : input.byte() + std::size_t{1};
    if (step / 4 % 4 == 1) value = input.value<std::uint64_t>();
    append(content, std::min(count, (most - content.size()) / width + 1), width, step, value);
  }
  return content;
}

}  // namespace terrace::compression::test
