// Rows of bits, all of one width: sets of buffers as words, so that union and intersection of sets of some
// hundred buffers take a handful of instructions. A matrix of width 0 stores nothing and its operations do
// nothing: the search without learning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace terrace::planner::search {

class BitRows {
 public:
  using Word = std::uint64_t;

  BitRows() = default;
  BitRows(std::size_t rows, std::size_t bits) : words_((bits + 63) / 64), data_(rows * words_) {}

  std::size_t words() const { return words_; }
  Word* row(std::size_t r) { return data_.data() + r * words_; }
  const Word* row(std::size_t r) const { return data_.data() + r * words_; }

  static void set(Word* row, std::size_t bit) { row[bit / 64] |= Word{1} << (bit % 64); }
  static void reset(Word* row, std::size_t bit) { row[bit / 64] &= ~(Word{1} << (bit % 64)); }
  static bool test(const Word* row, std::size_t bit) { return ((row[bit / 64] >> (bit % 64)) & 1) != 0; }

 private:
  std::size_t words_ = 0;
  std::vector<Word> data_;
};

}  // namespace terrace::planner::search
