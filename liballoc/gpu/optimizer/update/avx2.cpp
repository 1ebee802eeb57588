// AVX2 with FMA and F16C, as Haswell and Zen have them.
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "liballoc/gpu/optimizer/update/sets.h"

namespace terrace::liballoc::optimizer::avx2 {
namespace {
#include "liballoc/gpu/optimizer/update/body.h"

struct Vector {
  static constexpr std::size_t lanes = 8;
  __m256 value;

  static Vector all(float value) { return {_mm256_set1_ps(value)}; }
  static __m128i words(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
  static Vector load(const float* from) { return {_mm256_loadu_ps(from)}; }
  static Vector load(const Bf16* from) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words(from)), 16))};
  }
  static Vector load(const Half* from) { return {_mm256_cvtph_ps(words(from))}; }

  void store(float* to) const { _mm256_storeu_ps(to, value); }
  void store(Bf16* to) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), rounded(to)); }
  void store(Half* to) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), rounded(to)); }

  __m128i rounded(const Bf16*) const {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i wide = _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), _mm256_set1_epi32(0x7fc0), is_nan);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0x08);
    return _mm256_castsi256_si128(packed);
  }
  __m128i rounded(const Half*) const { return _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT); }
  // Bits that are less than half of the last place away, or half and the narrow number is even.
  static __m256 rounds_to(Vector wide, const Bf16* narrow) {
    const __m256i bits = _mm256_cvtepu16_epi32(words(narrow));
    const __m256i odd = _mm256_and_si256(bits, _mm256_set1_epi32(1));
    const __m256i apart = _mm256_sub_epi32(_mm256_castps_si256(wide.value), _mm256_slli_epi32(bits, 16));
    const __m256i distance = _mm256_add_epi32(_mm256_abs_epi32(apart), odd);
    const __m256i near = _mm256_min_epu32(distance, _mm256_set1_epi32(0x8000));
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(near, distance));
  }
  static __m256 rounds_to(Vector wide, const Half* narrow) {
    const __m128i equal = _mm_cmpeq_epi16(wide.rounded(narrow), words(narrow));
    return _mm256_castsi256_ps(_mm256_cvtepi16_epi32(equal));
  }
  static Vector select(__m256 first, Vector a, Vector b) {
    return {_mm256_blendv_ps(b.value, a.value, first)};
  }

  friend Vector operator+(Vector a, Vector b) { return {_mm256_add_ps(a.value, b.value)}; }
  friend Vector operator-(Vector a, Vector b) { return {_mm256_sub_ps(a.value, b.value)}; }
  friend Vector operator*(Vector a, Vector b) { return {_mm256_mul_ps(a.value, b.value)}; }
  friend Vector operator/(Vector a, Vector b) { return {_mm256_div_ps(a.value, b.value)}; }
  friend Vector fused(Vector a, Vector b, Vector c) { return {_mm256_fmadd_ps(a.value, b.value, c.value)}; }
  friend Vector root(Vector a) { return {_mm256_sqrt_ps(a.value)}; }
  friend Vector negated(Vector a) { return {_mm256_xor_ps(a.value, _mm256_set1_ps(-0.0F))}; }
  friend Vector larger(Vector a, Vector b) {
    // max gives its second operand where either is NaN: of b that is right, a's has to be put back.
    const __m256 most = _mm256_max_ps(a.value, b.value);
    return {_mm256_blendv_ps(most, a.value, _mm256_cmp_ps(a.value, a.value, _CMP_UNORD_Q))};
  }
};

}  // namespace

constinit const Kernels table = table_of<Vector>("avx2");

}  // namespace terrace::liballoc::optimizer::avx2
