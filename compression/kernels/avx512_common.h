// What the AVX-512 files have in common. Everything here has internal linkage, for the reason given in
// vector.h.
#pragma once

// g++ 12 takes the "undefined" operands of its own AVX-512 intrinsics for variables that nobody initialised.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace terrace::compression::avx512 {
namespace {

// The lowest `count` bits, 0 to 64 of them.
[[maybe_unused]] inline std::uint64_t low_bits(std::size_t count) {
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

// `pattern`, which fits in a lane, in each lane.
template <std::size_t width>
inline __m512i splat(std::uint64_t pattern) {
  if constexpr (width == 1) return _mm512_set1_epi8(static_cast<char>(pattern));
  if constexpr (width == 2) return _mm512_set1_epi16(static_cast<short>(pattern));
  if constexpr (width == 4) return _mm512_set1_epi32(static_cast<int>(pattern));
  if constexpr (width == 8) return _mm512_set1_epi64(static_cast<long long>(pattern));
}

[[maybe_unused]] inline __m512i load_at_most(const std::byte* src, std::size_t bytes) {
  return bytes >= 64 ? _mm512_loadu_si512(src) : _mm512_maskz_loadu_epi8(low_bits(bytes), src);
}

}  // namespace
}  // namespace terrace::compression::avx512
