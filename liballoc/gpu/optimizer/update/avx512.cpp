// AVX-512 F, BW, DQ and VL, as Skylake-X and Zen 4 have them. AVX512_BF16's conversion is not used: it takes
// denormals for zero.

// g++ 12 takes the "undefined" operands of its own AVX-512 intrinsics for variables that nobody initialised.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "liballoc/gpu/optimizer/update/sets.h"

namespace terrace::liballoc::optimizer::avx512 {
namespace {
#include "liballoc/gpu/optimizer/update/body.h"

struct Vector {
  static constexpr std::size_t lanes = 16;
  __m512 value;

  static Vector all(float value) { return {_mm512_set1_ps(value)}; }
  static __m256i words(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static Vector load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Vector load(const Bf16* from) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words(from)), 16))};
  }
  static Vector load(const Half* from) { return {_mm512_cvtph_ps(words(from))}; }

  void store(float* to) const { _mm512_storeu_ps(to, value); }
  void store(Bf16* to) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded(to)); }
  void store(Half* to) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded(to)); }

  __mmask16 is_nan() const { return _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q); }
  __m256i rounded(const Bf16*) const {
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i wide =
        _mm512_mask_mov_epi32(_mm512_srli_epi32(up, 16), is_nan(), _mm512_set1_epi32(0x7fc0));
    return _mm512_cvtepi32_epi16(wide);
  }
  __m256i rounded(const Half*) const { return _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT); }
  // Bits that are less than half of the last place away, or half and the narrow number is even.
  static __mmask16 rounds_to(Vector wide, const Bf16* narrow) {
    const __m512i bits = _mm512_cvtepu16_epi32(words(narrow));
    const __m512i odd = _mm512_and_si512(bits, _mm512_set1_epi32(1));
    const __m512i apart = _mm512_sub_epi32(_mm512_castps_si512(wide.value), _mm512_slli_epi32(bits, 16));
    const __m512i distance = _mm512_add_epi32(_mm512_abs_epi32(apart), odd);
    return _mm512_cmple_epu32_mask(distance, _mm512_set1_epi32(0x8000));
  }
  static __mmask16 rounds_to(Vector wide, const Half* narrow) {
    return _mm256_cmpeq_epi16_mask(wide.rounded(narrow), words(narrow));
  }
  static Vector select(__mmask16 first, Vector a, Vector b) {
    return {_mm512_mask_mov_ps(b.value, first, a.value)};
  }

  friend Vector operator+(Vector a, Vector b) { return {_mm512_add_ps(a.value, b.value)}; }
  friend Vector operator-(Vector a, Vector b) { return {_mm512_sub_ps(a.value, b.value)}; }
  friend Vector operator*(Vector a, Vector b) { return {_mm512_mul_ps(a.value, b.value)}; }
  friend Vector operator/(Vector a, Vector b) { return {_mm512_div_ps(a.value, b.value)}; }
  friend Vector fused(Vector a, Vector b, Vector c) { return {_mm512_fmadd_ps(a.value, b.value, c.value)}; }
  friend Vector root(Vector a) { return {_mm512_sqrt_ps(a.value)}; }
  friend Vector negated(Vector a) { return {_mm512_xor_ps(a.value, _mm512_set1_ps(-0.0F))}; }
  friend Vector larger(Vector a, Vector b) {
    // max gives its second operand where either is NaN: of b that is right, a's has to be put back.
    return {_mm512_mask_mov_ps(_mm512_max_ps(a.value, b.value), a.is_nan(), a.value)};
  }
};

}  // namespace

constinit const Kernels table = table_of<Vector>("avx512");

}  // namespace terrace::liballoc::optimizer::avx512
