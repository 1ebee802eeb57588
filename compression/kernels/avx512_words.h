// The kernels for AVX-512, for the files that are compiled for one of its parts: a word of the mask is 64
// elements, 1 to 8 registers. A register is tested for zero lanes as integers (so that -0.0, NaN and
// denormals are values whatever MXCSR says), its other lanes are compressed and stored whole; the next store
// begins behind the last of them.
//
//   element  7 0 0 3 0 0 0 9 …       test  1 0 0 1 0 0 0 1 …       compress  7 3 9 0 0 0 0 0 …       store,
//   advance by 3
//
// Two traps shaped this (docs/decisions/007-compression-kernels.md). Compressing straight to memory is
// microcode on Zen 4. And the zeroing forms of compress and expand wait for the old content of their
// destination on Zen 4 and 5 (LLVM issue 206849): here they merge into a register that was just cleared, and
// an empty asm keeps the compiler from turning that back into the zeroing form. What zvc_exp needs is in
// avx512_exp.cpp.
//
// Elements of 4 and 8 bytes take F, BW, DQ and VL, which is x86-64-v4; those of 1 and 2 bytes VBMI2 besides.
// Internal linkage, for the reason given in vector.h.
#pragma once

#include "compression/kernels/avx512_common.h"

// The header for inclusion as a whole has static functions only, compiled here for this unit's instructions.
#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <xxhash.h>
#pragma GCC diagnostic pop

#include "compression/kernels/store.h"
#include "compression/kernels/vector.h"

namespace terrace::compression::avx512 {
namespace {

constexpr std::size_t register_bytes = 64;

inline __m512i fresh_zero() {
  __m512i zero = _mm512_setzero_si512();
  asm volatile("" : "+v"(zero));
  return zero;
}

inline unsigned ones(std::uint64_t bits) { return static_cast<unsigned>(__builtin_popcountll(bits)); }

template <std::size_t width>
inline std::uint64_t nonzero_lanes(__m512i v) {
  if constexpr (width == 1) return _mm512_test_epi8_mask(v, v);
  if constexpr (width == 2) return _mm512_test_epi16_mask(v, v);
  if constexpr (width == 4) return _mm512_test_epi32_mask(v, v);
  if constexpr (width == 8) return _mm512_test_epi64_mask(v, v);
}

template <std::size_t width>
inline __m512i compressed(std::uint64_t lanes, __m512i v) {
  if constexpr (width == 1) return _mm512_mask_compress_epi8(fresh_zero(), lanes, v);
  if constexpr (width == 2) return _mm512_mask_compress_epi16(fresh_zero(), static_cast<__mmask32>(lanes), v);
  if constexpr (width == 4) return _mm512_mask_compress_epi32(fresh_zero(), static_cast<__mmask16>(lanes), v);
  if constexpr (width == 8) return _mm512_mask_compress_epi64(fresh_zero(), static_cast<__mmask8>(lanes), v);
}

// Reads only as many values as there are lanes: the form with a memory operand touches no other.
template <std::size_t width>
inline __m512i expanded(std::uint64_t lanes, const std::byte* values) {
  if constexpr (width == 1) return _mm512_mask_expandloadu_epi8(fresh_zero(), lanes, values);
  if constexpr (width == 2)
    return _mm512_mask_expandloadu_epi16(fresh_zero(), static_cast<__mmask32>(lanes), values);
  if constexpr (width == 4)
    return _mm512_mask_expandloadu_epi32(fresh_zero(), static_cast<__mmask16>(lanes), values);
  if constexpr (width == 8)
    return _mm512_mask_expandloadu_epi64(fresh_zero(), static_cast<__mmask8>(lanes), values);
}

// Packs the register's values at `out`; returns which lanes they were in.
template <std::size_t width>
inline std::uint64_t pack_register(__m512i v, std::byte*& out) {
  const std::uint64_t lanes = nonzero_lanes<width>(v);
  _mm512_storeu_si512(out, compressed<width>(lanes, v));
  out += ones(lanes) * width;
  return lanes;
}

template <std::size_t width>
inline std::uint64_t pack_word(const std::byte* src, std::byte*& out) {
  std::uint64_t word = 0;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < width; ++i)
    word |= pack_register<width>(_mm512_loadu_si512(src + i * register_bytes), out)
            << (i * register_bytes / width);
  return word;
}

// The last word, of fewer than 64 elements.
template <std::size_t width>
std::uint64_t pack_tail(const std::byte* src, std::size_t n, std::byte*& out) {
  std::uint64_t word = 0;
  for (std::size_t at = 0; at < n * width; at += register_bytes) {
    const __m512i v = _mm512_maskz_loadu_epi8(low_bits(n * width - at), src + at);
    word |= pack_register<width>(v, out) << (at / width);
  }
  return word;
}

template <std::size_t element_bytes>
struct Words {
  static constexpr std::size_t width = element_bytes;
  [[gnu::always_inline]] static inline std::uint64_t word(const std::byte* src, std::byte*& out) {
    return pack_word<width>(src, out);
  }
  static std::uint64_t tail(const std::byte* src, std::size_t n, std::byte*& out) {
    return pack_tail<width>(src, n, out);
  }
};

// Where nothing is known of the source, it is asked for a page ahead, into the second-level cache. Beyond its
// end, too: it may be a slice of more.
struct FetchNear {
  const std::byte* at;
  [[gnu::always_inline]] inline void row(const std::byte*) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < row_bytes; i += 64) _mm_prefetch(at + 4096 + i, _MM_HINT_T1);
    at += row_bytes;
  }
};

template <std::size_t width>
std::size_t pack(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed) {
  FetchNear near{src};
  return pack_rows<Words<width>>(src, n, mask, packed, near);
}

template <std::size_t width, bool past_caches>
inline const std::byte* expand_word(std::uint64_t word, const std::byte* values, std::byte* dst) {
  constexpr std::size_t lanes_each = register_bytes / width;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < width; ++i) {
    const std::uint64_t lanes = (word >> (i * lanes_each)) & low_bits(lanes_each);
    const __m512i v = expanded<width>(lanes, values);
    if constexpr (past_caches)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(dst + i * register_bytes), v);
    else
      _mm512_storeu_si512(dst + i * register_bytes, v);
    values += ones(lanes) * width;
  }
  return values;
}

template <std::size_t width>
void expand_tail(std::uint64_t word, std::size_t n, const std::byte* values, std::byte* dst) {
  constexpr std::size_t lanes_each = register_bytes / width;
  for (std::size_t at = 0; at < n * width; at += register_bytes) {
    const std::uint64_t lanes = (word >> (at / width)) & low_bits(lanes_each);
    _mm512_mask_storeu_epi8(dst + at, low_bits(n * width - at), expanded<width>(lanes, values));
    values += ones(lanes) * width;
  }
}

template <std::size_t width, bool past_caches>
void expand_all(const std::uint64_t* mask, std::size_t n, const std::byte* values, std::byte* dst) {
  const std::size_t words = n / 64;
  for (std::size_t w = 0; w < words; ++w)
    values = expand_word<width, past_caches>(mask[w], values, dst + w * 64 * width);
  if (n % 64 != 0) expand_tail<width>(mask[words], n % 64, values, dst + words * 64 * width);
}

template <std::size_t width>
void expand(const std::uint64_t* mask, std::size_t n, const std::byte* values, std::byte* dst) {
  expand_all<width, false>(mask, n, values, dst);
}

template <std::size_t width>
void expand_past(const std::uint64_t* mask, std::size_t n, const std::byte* values, std::byte* dst) {
  if (reinterpret_cast<std::uintptr_t>(dst) % register_bytes == 0)
    expand_all<width, true>(mask, n, values, dst);
  else
    expand_all<width, false>(mask, n, values, dst);
}

void copy_short(std::byte* dst, const std::byte* src, std::size_t bytes) {
  _mm512_mask_storeu_epi8(dst, low_bits(bytes), _mm512_maskz_loadu_epi8(low_bits(bytes), src));
}

// Whole lines past the caches, what is left at both ends through them. The fence orders the copy before
// whatever the thread stores next, as an ordinary copy would be.
void stream(std::byte* dst, const std::byte* src, std::size_t bytes) {
  std::size_t head = -reinterpret_cast<std::uintptr_t>(dst) % register_bytes;
  if (head > bytes) head = bytes;
  copy_short(dst, src, head);
  std::size_t at = head;
  for (; at + register_bytes <= bytes; at += register_bytes)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst + at), _mm512_loadu_si512(src + at));
  copy_short(dst + at, src + at, bytes - at);
  _mm_sfence();
}

void fence() { _mm_sfence(); }

// XXH3's eight sums; see store.h.
struct Sums {
  __m512i sums = _mm512_loadu_si512(initial_sums);

  void add(const std::byte* stripe, const std::byte* secret) {
    const __m512i data = _mm512_loadu_si512(stripe);
    const __m512i keyed = _mm512_xor_si512(data, _mm512_loadu_si512(secret));
    const __m512i product = _mm512_mul_epu32(keyed, _mm512_srli_epi64(keyed, 32));
    const __m512i neighbours = _mm512_shuffle_epi32(data, _MM_PERM_BADC);
    sums = _mm512_add_epi64(product, _mm512_add_epi64(sums, neighbours));
  }
  void scramble(const std::byte* secret) {
    const __m512i mixed = _mm512_xor_si512(sums, _mm512_srli_epi64(sums, 47));
    sums = _mm512_mullo_epi64(_mm512_xor_si512(mixed, _mm512_loadu_si512(secret)),
                              _mm512_set1_epi64(XXH_PRIME32_1));
  }
  void read(const std::uint64_t* eight) { sums = _mm512_loadu_si512(eight); }
  void write(std::uint64_t* eight) const { _mm512_storeu_si512(eight, sums); }
  static void line(std::byte* dst, const std::byte* src) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), _mm512_loadu_si512(src));
  }
};

template <std::size_t width>
std::size_t pack_storing(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed,
                         Ahead& ahead, Storing& storing) {
  return pack_rows_storing<Words<width>, Sums>(src, n, mask, packed, ahead, storing);
}

std::uint64_t checksum(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

}  // namespace
}  // namespace terrace::compression::avx512
