// The kernels for AVX2 and BMI2, which have no compress and no expand: eight lanes at a time are permuted by
// a table that has a row for each of their 256 masks.
//
//   lanes  7 0 0 3 0 0 0 9     mask 10001001 (lane 0 first)     row  0 3 7 · · · · ·     permuted  7 3 9 · ·
//   · · ·
//
// A row is eight bytes with the numbers of lanes: as it is for byte lanes, stretched to 32 bits for the
// permute of 32-bit lanes, and a table of its own, of byte pairs, for 16-bit lanes. What zvc_exp needs is in
// avx2_exp.cpp.
#include <immintrin.h>

// The header for inclusion as a whole has static functions only, compiled here for this unit's instructions.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compression/kernels/store.h"
#include "compression/kernels/vector.h"

namespace terrace::compression::avx2 {
namespace {

inline unsigned ones(std::uint64_t bits) { return static_cast<unsigned>(__builtin_popcountll(bits)); }

// A lane that an expanding row leaves empty: shuffles make zero of an index with the highest bit set.
constexpr std::uint8_t nothing = 0x80;

struct Rows {
  alignas(64) std::uint8_t pack_bytes[256][8];
  alignas(64) std::uint8_t pack_pairs[256][16];
  alignas(64) std::uint8_t expand_bytes[256][8];
  alignas(64) std::uint8_t expand_pairs[256][16];
};

constexpr void set_pair(std::uint8_t* row, std::size_t lane, unsigned source) {
  row[2 * lane] = static_cast<std::uint8_t>(2 * source);
  row[2 * lane + 1] = static_cast<std::uint8_t>(2 * source + 1);
}

constexpr void fill_row(Rows& rows, unsigned mask) {
  for (unsigned i = 0; i < 8; ++i) rows.expand_bytes[mask][i] = nothing;
  for (unsigned i = 0; i < 16; ++i) rows.expand_pairs[mask][i] = nothing;
  unsigned packed = 0;
  for (unsigned lane = 0; lane < 8; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    rows.pack_bytes[mask][packed] = static_cast<std::uint8_t>(lane);
    rows.expand_bytes[mask][lane] = static_cast<std::uint8_t>(packed);
    set_pair(rows.pack_pairs[mask], packed, lane);
    set_pair(rows.expand_pairs[mask], lane, packed);
    ++packed;
  }
}

constexpr Rows make_rows() {
  Rows rows{};
  for (unsigned mask = 0; mask < 256; ++mask) fill_row(rows, mask);
  return rows;
}

constexpr Rows rows = make_rows();

inline __m128i load_8(const void* src) { return _mm_loadl_epi64(static_cast<const __m128i*>(src)); }
inline __m128i load_16(const void* src) { return _mm_loadu_si128(static_cast<const __m128i*>(src)); }
inline __m256i load_32(const void* src) { return _mm256_loadu_si256(static_cast<const __m256i*>(src)); }
inline void store_8(void* dst, __m128i v) { _mm_storel_epi64(static_cast<__m128i*>(dst), v); }
inline void store_16(void* dst, __m128i v) { _mm_storeu_si128(static_cast<__m128i*>(dst), v); }
inline void store_32(void* dst, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(dst), v); }

// Four 64-bit lanes are eight of 32 bits, each mask bit twice. (A table, for pdep is microcode on Zen 1
// and 2.)
constexpr std::uint8_t twice_each[16] = {0x00, 0x03, 0x0c, 0x0f, 0x30, 0x33, 0x3c, 0x3f,
                                         0xc0, 0xc3, 0xcc, 0xcf, 0xf0, 0xf3, 0xfc, 0xff};

// Which 32 elements of a byte each, or of two bytes each, are zero.
inline unsigned zeros_of_32(__m256i v) {
  return static_cast<unsigned>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_setzero_si256())));
}

inline unsigned zeros_of_32(__m256i a, __m256i b) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i halves = _mm256_packs_epi16(_mm256_cmpeq_epi16(a, zero), _mm256_cmpeq_epi16(b, zero));
  return static_cast<unsigned>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(halves, 0xd8)));
}

// Which elements of a register are zero.
template <std::size_t width>
inline unsigned zeros_of(__m256i v) {
  const __m256i zero = _mm256_setzero_si256();
  if constexpr (width == 4)
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(v, zero))));
  else
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(v, zero))));
}

// Of the 64 elements at `src`: a bit for each that is not zero.
template <std::size_t width>
inline std::uint64_t nonzero_word(const std::byte* src) {
  std::uint64_t zeros = 0;
  if constexpr (width == 1) {
    zeros = zeros_of_32(load_32(src)) | std::uint64_t{zeros_of_32(load_32(src + 32))} << 32;
  } else if constexpr (width == 2) {
    zeros = zeros_of_32(load_32(src), load_32(src + 32)) |
            std::uint64_t{zeros_of_32(load_32(src + 64), load_32(src + 96))} << 32;
  } else {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < 2 * width; ++i)
      zeros |= std::uint64_t{zeros_of<width>(load_32(src + 32 * i))} << (i * 32 / width);
  }
  return ~zeros;
}

// Packs eight elements (four of 64 bits), those that `lanes` has bits for.
template <std::size_t width>
inline void pack_lanes(unsigned lanes, const std::byte* src, std::byte* out) {
  if constexpr (width == 1) store_8(out, _mm_shuffle_epi8(load_8(src), load_8(rows.pack_bytes[lanes])));
  if constexpr (width == 2) store_16(out, _mm_shuffle_epi8(load_16(src), load_16(rows.pack_pairs[lanes])));
  if constexpr (width >= 4) {
    const unsigned row = width == 8 ? twice_each[lanes] : lanes;
    const __m256i order = _mm256_cvtepu8_epi32(load_8(rows.pack_bytes[row]));
    store_32(out, _mm256_permutevar8x32_epi32(load_32(src), order));
  }
}

template <std::size_t width>
constexpr unsigned lanes_at_once = width == 8 ? 4 : 8;

template <std::size_t width>
inline std::uint64_t pack_word(const std::byte* src, std::byte*& out) {
  constexpr unsigned step = lanes_at_once<width>;
  const std::uint64_t word = nonzero_word<width>(src);
#pragma GCC unroll 16
  for (unsigned i = 0; i < 64; i += step) {
    const unsigned lanes = static_cast<unsigned>(word >> i) & ((1U << step) - 1);
    pack_lanes<width>(lanes, src + i * width, out);
    out += ones(lanes) * width;
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
    alignas(32) std::byte last[64 * width] = {};
    __builtin_memcpy(last, src, n * width);
    return pack_word<width>(last, out);
  }
};

template <std::size_t width>
std::size_t pack(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed) {
  Nothing besides;
  return pack_rows<Words<width>>(src, n, mask, packed, besides);
}

// Through the caches, or past them where dst is aligned to 32 bytes.
template <bool past_caches>
inline void put_16(std::byte* dst, __m128i v) {
  if constexpr (past_caches)
    _mm_stream_si128(reinterpret_cast<__m128i*>(dst), v);
  else
    store_16(dst, v);
}

template <bool past_caches>
inline void put_32(std::byte* dst, __m256i v) {
  if constexpr (past_caches)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst), v);
  else
    store_32(dst, v);
}

template <std::size_t width, bool past_caches>
inline void expand_lanes(unsigned lanes, const std::byte* values, std::byte* dst) {
  if constexpr (width == 1) store_8(dst, _mm_shuffle_epi8(load_8(values), load_8(rows.expand_bytes[lanes])));
  if constexpr (width == 2)
    put_16<past_caches>(dst, _mm_shuffle_epi8(load_16(values), load_16(rows.expand_pairs[lanes])));
  if constexpr (width >= 4) {
    const unsigned row = width == 8 ? twice_each[lanes] : lanes;
    const __m256i order = _mm256_cvtepi8_epi32(load_8(rows.expand_bytes[row]));
    const __m256i empty = _mm256_srai_epi32(order, 31);
    put_32<past_caches>(dst, _mm256_andnot_si256(empty, _mm256_permutevar8x32_epi32(load_32(values), order)));
  }
}

// Reads up to 32 bytes beyond the word's last value.
template <std::size_t width, bool past_caches>
inline void expand_word(std::uint64_t word, const std::byte* values, std::byte* dst) {
  constexpr unsigned step = lanes_at_once<width>;
#pragma GCC unroll 16
  for (unsigned i = 0; i < 64; i += step) {
    const unsigned lanes = static_cast<unsigned>(word >> i) & ((1U << step) - 1);
    expand_lanes<width, past_caches>(lanes, values, dst + i * width);
    values += ones(lanes) * width;
  }
}

template <std::size_t width>
void expand_tail(std::uint64_t word, std::size_t n, const std::byte* values, std::byte* dst) {
  std::byte all[64 * width];
  expand_word<width, false>(word, values, all);
  __builtin_memcpy(dst, all, n * width);
}

// Expands words [first, words) and the tail, from values that may be read beyond their end.
template <std::size_t width, bool past_caches>
void expand_rest(const std::uint64_t* mask, std::size_t first, std::size_t n, const std::byte* values,
                 std::byte* dst) {
  const std::size_t words = n / 64;
  for (std::size_t w = first; w < words; ++w) {
    expand_word<width, past_caches>(mask[w], values, dst + w * 64 * width);
    values += ones(mask[w]) * width;
  }
  if (n % 64 != 0) expand_tail<width>(mask[words], n % 64, values, dst + words * 64 * width);
}

// Words are expanded in place while at least 32 bytes of values follow theirs; what is left of the values by
// then, at most those of one word and 32 bytes, is copied to where more may be read.
template <std::size_t width, bool past_caches>
void expand_all(const std::uint64_t* mask, std::size_t n, const std::byte* values, std::byte* dst) {
  const std::size_t words = n / 64;
  std::size_t left = 0;
  for (std::size_t w = 0; w < (n + 63) / 64; ++w) left += ones(mask[w]);
  std::size_t w = 0;
  for (; w < words && left * width >= ones(mask[w]) * width + 32; ++w) {
    expand_word<width, past_caches>(mask[w], values, dst + w * 64 * width);
    values += ones(mask[w]) * width;
    left -= ones(mask[w]);
  }
  std::byte last[64 * width + 64];
  __builtin_memcpy(last, values, left * width);
  expand_rest<width, past_caches>(mask, w, n, last, dst);
}

template <std::size_t width>
void expand(const std::uint64_t* mask, std::size_t n, const std::byte* values, std::byte* dst) {
  expand_all<width, false>(mask, n, values, dst);
}

template <std::size_t width>
void expand_past(const std::uint64_t* mask, std::size_t n, const std::byte* values, std::byte* dst) {
  if (reinterpret_cast<std::uintptr_t>(dst) % 32 == 0)
    expand_all<width, true>(mask, n, values, dst);
  else
    expand_all<width, false>(mask, n, values, dst);
}

// Whole lines past the caches, what is left at both ends through them. The fence orders the copy before
// whatever the thread stores next, as an ordinary copy would be.
void stream(std::byte* dst, const std::byte* src, std::size_t bytes) {
  std::size_t head = -reinterpret_cast<std::uintptr_t>(dst) % 64;
  if (head > bytes) head = bytes;
  __builtin_memcpy(dst, src, head);
  std::size_t at = head;
  for (; at + 64 <= bytes; at += 64) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst + at), load_32(src + at));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst + at + 32), load_32(src + at + 32));
  }
  __builtin_memcpy(dst + at, src + at, bytes - at);
  _mm_sfence();
}

void fence() { _mm_sfence(); }

// Four of XXH3's eight sums; see store.h.
inline __m256i summed(__m256i sums, __m256i data, __m256i secret) {
  const __m256i keyed = _mm256_xor_si256(data, secret);
  const __m256i product = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
  return _mm256_add_epi64(product, _mm256_add_epi64(sums, _mm256_shuffle_epi32(data, 0x4e)));
}

inline __m256i scrambled(__m256i sums, __m256i secret) {
  const __m256i prime = _mm256_set1_epi32(static_cast<int>(XXH_PRIME32_1));
  const __m256i mixed = _mm256_xor_si256(_mm256_xor_si256(sums, _mm256_srli_epi64(sums, 47)), secret);
  const __m256i upper = _mm256_slli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime), 32);
  return _mm256_add_epi64(_mm256_mul_epu32(mixed, prime), upper);
}

struct Sums {
  __m256i low = load_32(initial_sums), high = load_32(initial_sums + 4);

  void add(const std::byte* stripe, const std::byte* secret) {
    low = summed(low, load_32(stripe), load_32(secret));
    high = summed(high, load_32(stripe + 32), load_32(secret + 32));
  }
  void scramble(const std::byte* secret) {
    low = scrambled(low, load_32(secret));
    high = scrambled(high, load_32(secret + 32));
  }
  void read(const std::uint64_t* eight) {
    low = load_32(eight);
    high = load_32(eight + 4);
  }
  void write(std::uint64_t* eight) const {
    store_32(eight, low);
    store_32(eight + 4, high);
  }
  static void line(std::byte* dst, const std::byte* src) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst), load_32(src));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst + 32), load_32(src + 32));
  }
};

template <std::size_t width>
std::size_t pack_storing(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed,
                         Ahead& ahead, Storing& storing) {
  return pack_rows_storing<Words<width>, Sums>(src, n, mask, packed, ahead, storing);
}

std::uint64_t checksum(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

}  // namespace

constinit const Kernels table = {
    .name = "avx2",
    .pack = {pack<1>, pack<2>, pack<4>, pack<8>},
    .pack_storing = {pack_storing<1>, pack_storing<2>, pack_storing<4>, pack_storing<8>},
    .expand = {expand<1>, expand<2>, expand<4>, expand<8>},
    .expand_past = {expand_past<1>, expand_past<2>, expand_past<4>, expand_past<8>},
    .group_code = group_code,
    .squeeze = squeeze,
    .unsqueeze = unsqueeze,
    .stream = stream,
    .store = store_at_once<Sums>,
    .store_rest = store_all_rest<Sums>,
    .fence = fence,
    .checksum = checksum,
};

}  // namespace terrace::compression::avx2
