// What the values of a group have in common, with AVX-512. Magnitudes of floats are in the order of their
// bits as integers, so that the smallest and the largest value have the smallest and the largest exponent.
#include "compression/kernels/avx512_common.h"
#include "compression/kernels/vector.h"

namespace terrace::compression::avx512 {
namespace {

// The least and the greatest magnitude, and all values by or.
struct Span {
  std::uint64_t least, greatest, any;
};

template <std::size_t width>
inline __m512i lesser(__m512i a, __mmask64 lanes, __m512i b) {
  if constexpr (width == 1) return _mm512_mask_min_epu8(a, lanes, a, b);
  if constexpr (width == 2) return _mm512_mask_min_epu16(a, static_cast<__mmask32>(lanes), a, b);
  if constexpr (width == 4) return _mm512_mask_min_epu32(a, static_cast<__mmask16>(lanes), a, b);
  if constexpr (width == 8) return _mm512_mask_min_epu64(a, static_cast<__mmask8>(lanes), a, b);
}

template <std::size_t width>
inline __m512i greater(__m512i a, __m512i b) {
  if constexpr (width == 1) return _mm512_max_epu8(a, b);
  if constexpr (width == 2) return _mm512_max_epu16(a, b);
  if constexpr (width == 4) return _mm512_max_epu32(a, b);
  if constexpr (width == 8) return _mm512_max_epu64(a, b);
}

// All lanes of two registers' halves, quarters … taken together, down to lane 0.
template <std::size_t width, typename Combine>
inline std::uint64_t fold(__m512i v, Combine combine) {
  v = combine(v, _mm512_shuffle_i64x2(v, v, 0x4e));
  v = combine(v, _mm512_shuffle_i64x2(v, v, 0xb1));
  v = combine(v, _mm512_bsrli_epi128(v, 8));
  if constexpr (width <= 4) v = combine(v, _mm512_bsrli_epi128(v, 4));
  if constexpr (width <= 2) v = combine(v, _mm512_bsrli_epi128(v, 2));
  if constexpr (width == 1) v = combine(v, _mm512_bsrli_epi128(v, 1));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm512_castsi512_si128(v))) & low_bits(8 * width);
}

template <std::size_t width>
Span span_of(const std::byte* values, std::size_t n) {
  const __m512i magnitude = splat<width>(low_bits(8 * width - 1));
  __m512i least = magnitude;
  __m512i greatest = _mm512_setzero_si512();
  __m512i any = _mm512_setzero_si512();
  const std::size_t whole = n * width / 64 * 64;
  for (std::size_t at = 0; at < whole; at += 64) {
    const __m512i v = _mm512_loadu_si512(values + at);
    const __m512i unsigned_v = _mm512_and_si512(v, magnitude);
    least = lesser<width>(least, ~std::uint64_t{0}, unsigned_v);
    greatest = greater<width>(greatest, unsigned_v);
    any = _mm512_or_si512(any, v);
  }
  if (const std::size_t left = n * width - whole; left != 0) {
    const __m512i v = load_at_most(values + whole, left);
    const __m512i unsigned_v = _mm512_and_si512(v, magnitude);
    least = lesser<width>(least, low_bits(left / width), unsigned_v);
    greatest = greater<width>(greatest, unsigned_v);
    any = _mm512_or_si512(any, v);
  }
  // Nothing is lost when shifted-in zeros of a fold meet a maximum or an or; the minimum becomes the
  // complement's maximum.
  const __m512i from_above = _mm512_andnot_si512(least, magnitude);
  const auto most = [](__m512i a, __m512i b) { return greater<width>(a, b); };
  const auto both = [](__m512i a, __m512i b) { return _mm512_or_si512(a, b); };
  return {low_bits(8 * width - 1) - fold<width>(from_above, most), fold<width>(greatest, most),
          fold<width>(any, both)};
}

Span span_of_width(std::size_t width, const std::byte* values, std::size_t n) {
  switch (width) {
    case 1:
      return span_of<1>(values, n);
    case 2:
      return span_of<2>(values, n);
    case 4:
      return span_of<4>(values, n);
    default:
      return span_of<8>(values, n);
  }
}

inline unsigned bit_width(std::uint64_t value) {
  return value == 0 ? 0 : 64 - static_cast<unsigned>(__builtin_clzll(value));
}

}  // namespace

GroupCode group_code(ElementType type, const std::byte* values, std::size_t n) {
  const ElementShape& shape = element_shapes[static_cast<int>(type)];
  const Span span = span_of_width(shape.bytes, values, n);
  GroupCode code;
  if (shape.exponent_bits != 0) {
    code.base = static_cast<std::uint16_t>(span.least >> shape.mantissa_bits);
    code.width = static_cast<std::uint8_t>(bit_width((span.greatest >> shape.mantissa_bits) - code.base));
  }
  code.sign = static_cast<std::uint8_t>((span.any >> (8 * shape.bytes - 1)) & 1);
  // A one above the mantissa ends the count where all of it is zero.
  const std::uint64_t mantissas = span.any | std::uint64_t{1} << shape.mantissa_bits;
  code.trail = static_cast<std::uint8_t>(__builtin_ctzll(mantissas));
  return code;
}

}  // namespace terrace::compression::avx512
