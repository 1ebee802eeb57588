// Which granules begin a block: a set of numbers that finds the last member at or before a number in a few
// steps.
//
//   level 2   one bit for each word of level 1 that is not zero
//   level 1   one bit for each word of level 0 that is not zero
//   level 0   one bit for each granule
//
// A 1 TiB heap has 2^26 granules: level 0 takes 8 MiB of address space, of which only what is used is
// touched. Pure; the heap's lock covers it.
#pragma once

#include <bit>
#include <cerrno>
#include <cstdint>

#include "liballoc/base/os.h"

namespace terrace::liballoc {

class GranuleMap {
 public:
  static constexpr std::uint32_t absent = ~0U;

  // For numbers below `size`. 0 or ENOMEM.
  int initialise(std::uint32_t size) {
    std::uint64_t words = 0;
    for (std::uint64_t n = size, level = 0; level < levels; ++level) words += (n = n / 64 + 1);
    auto* area =
        static_cast<std::uint64_t*>(os::map_anonymous(words * sizeof(std::uint64_t), PROT_READ | PROT_WRITE));
    if (area == nullptr) return ENOMEM;
    for (std::uint64_t n = size, level = 0; level < levels; ++level) {
      words_[level] = area;
      area += (n = n / 64 + 1);
    }
    return 0;
  }

  void insert(std::uint32_t n) {
    for (unsigned level = 0; level < levels; ++level, n /= 64) words_[level][n / 64] |= bit(n);
  }
  void erase(std::uint32_t n) {
    for (unsigned level = 0; level < levels; ++level, n /= 64)
      if ((words_[level][n / 64] &= ~bit(n)) != 0) return;
  }
  // The largest member that is not above n.
  std::uint32_t last_up_to(std::uint32_t n) const {
    for (unsigned level = 0; level < levels; ++level) {
      const std::uint64_t below = words_[level][n / 64] & (~0ULL >> (63 - n % 64));
      if (below != 0) return descend(level, n / 64 * 64 + highest(below));
      if (level + 1 == levels) break;
      if (n / 64 == 0) return absent;
      n = n / 64 - 1;
    }
    for (std::uint32_t word = n / 64; word-- > 0;)
      if (words_[levels - 1][word] != 0)
        return descend(levels - 1, word * 64 + highest(words_[levels - 1][word]));
    return absent;
  }

 private:
  static constexpr unsigned levels = 3;
  static std::uint64_t bit(std::uint32_t n) { return 1ULL << (n % 64); }
  static std::uint32_t highest(std::uint64_t word) {
    return 63U - static_cast<unsigned>(std::countl_zero(word));
  }
  std::uint32_t descend(unsigned level, std::uint32_t n) const {
    for (; level > 0; --level) n = n * 64 + highest(words_[level - 1][n]);
    return n;
  }

  std::uint64_t* words_[levels] = {};
};

}  // namespace terrace::liballoc
