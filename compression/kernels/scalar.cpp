// The inner loops in plain C++: what every other set of kernels is compared with, and what runs where there
// is no vector unit. Branchless: on the random masks of real data a branch an element costs five to ten times
// as much.
#define XXH_INLINE_ALL
#include <xxhash.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>

#include "compression/base/bytes.h"
#include "compression/kernels/pack.h"
#include "compression/kernels/vector.h"
#ifdef __SSE2__
#include "compression/kernels/store.h"
#endif

namespace terrace::compression {
namespace {

// Eight elements; shifts by constants are cheaper by half than by the element's number.
template <typename T>
[[gnu::always_inline]] inline std::uint64_t pack_8(const std::byte* src, std::byte*& packed) {
  std::uint64_t bits = 0;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i) {
    const T value = load<T>(src + i * sizeof(T));
    const std::uint64_t present = value != 0 ? 1 : 0;
    store(packed, value);
    packed += present * sizeof(T);
    bits |= present << i;
  }
  return bits;
}

template <typename T>
[[gnu::always_inline]] inline std::uint64_t pack_word(const std::byte* src, std::byte*& packed) {
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < 64; i += 8) mask |= pack_8<T>(src + i * sizeof(T), packed) << i;
  return mask;
}

template <typename T>
struct Words {
  static constexpr std::size_t width = sizeof(T);
  [[gnu::always_inline]] static inline std::uint64_t word(const std::byte* src, std::byte*& packed) {
    return pack_word<T>(src, packed);
  }
  static std::uint64_t tail(const std::byte* src, std::size_t n, std::byte*& packed) {
    std::byte last[64 * sizeof(T)] = {};
    std::memcpy(last, src, n * sizeof(T));
    return pack_word<T>(last, packed);
  }
};

template <typename T>
std::size_t pack(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed) {
  Nothing besides;
  return pack_rows<Words<T>>(src, n, mask, packed, besides);
}

// Eight elements, as in pack_8().
template <typename T>
[[gnu::always_inline]] inline void expand_8(std::uint64_t bits, const std::byte*& values, std::byte* dst) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 8; ++i) {
    const auto present = static_cast<T>(bits >> i & 1);
    store(dst + i * sizeof(T), static_cast<T>(load<T>(values) & static_cast<T>(0 - present)));
    values += present * sizeof(T);
  }
}

// Reads one value beyond the last one of the mask's.
template <typename T>
void expand_word(std::uint64_t mask, std::size_t n, const std::byte* values, std::byte* dst) {
  for (; n >= 8; n -= 8, mask >>= 8, dst += 8 * sizeof(T)) expand_8<T>(mask, values, dst);
  std::byte last[8 * sizeof(T)];
  if (n == 0) return;
  expand_8<T>(mask, values, last);
  std::memcpy(dst, last, n * sizeof(T));
}

template <typename T>
void expand(const std::uint64_t* mask, std::size_t n, const std::byte* values, std::byte* dst) {
  std::size_t left = 0;
  for (std::size_t word = 0; word * 64 < n; ++word)
    left += static_cast<std::size_t>(std::popcount(mask[word]));
  for (std::size_t first = 0; first < n; first += 64, ++mask) {
    const std::size_t here = std::min<std::size_t>(64, n - first);
    const auto count = static_cast<std::size_t>(std::popcount(*mask));
    if (left > count) {
      expand_word<T>(*mask, here, values, dst + first * sizeof(T));
    } else {  // nothing lies behind these values
      std::byte last[65 * sizeof(T)] = {};
      std::memcpy(last, values, count * sizeof(T));
      expand_word<T>(*mask, here, last, dst + first * sizeof(T));
    }
    values += count * sizeof(T);
    left -= count;
  }
}

// A value's parts, for a type of so many exponent and mantissa bits.
struct Parts {
  std::uint64_t low_mask;  // exponent and mantissa
  unsigned mantissa_bits, sign_shift;

  explicit Parts(const ElementShape& shape)
      : low_mask((std::uint64_t{1} << (8 * shape.bytes - 1)) - 1),
        mantissa_bits(shape.mantissa_bits),
        sign_shift(8U * shape.bytes - 1) {}
  std::uint64_t low(std::uint64_t value) const { return value & low_mask; }
  std::uint64_t sign(std::uint64_t value) const { return value >> sign_shift; }
};

template <typename T>
GroupCode group_code_of(const ElementShape& shape, const std::byte* values, std::size_t n) {
  const Parts parts(shape);
  std::uint64_t all = 0, least = ~std::uint64_t{0}, most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t value = load<T>(values + i * sizeof(T));
    all |= value;
    least = std::min(least, parts.low(value));
    most = std::max(most, parts.low(value));
  }
  const std::uint64_t base = least >> parts.mantissa_bits, top = most >> parts.mantissa_bits;
  const int trail = std::min<int>(std::countr_zero(all), shape.mantissa_bits);
  return {.base = static_cast<std::uint16_t>(base),
          .width = static_cast<std::uint8_t>(std::bit_width(top - base)),
          .sign = static_cast<std::uint8_t>(parts.sign(all)),
          .trail = static_cast<std::uint8_t>(trail)};
}

template <typename T>
std::size_t squeeze_of(const ElementShape& shape, GroupCode code, const std::byte* values, std::size_t n,
                       std::byte* out) {
  const Parts parts(shape);
  const unsigned bits = code.bits(shape);
  const std::uint64_t base = std::uint64_t{code.base} << parts.mantissa_bits;
  std::uint64_t word = 0;
  unsigned fill = 0;
  for (std::size_t i = 0; i < n && bits > 0; ++i) {
    const std::uint64_t value = load<T>(values + i * sizeof(T));
    std::uint64_t coded = (parts.low(value) - base) >> code.trail;
    if (code.sign != 0) coded |= parts.sign(value) << (bits - 1);
    word |= coded << fill;
    fill += bits;
    if (fill < 64) continue;
    store(out, word);
    out += 8;
    fill -= 64;
    word = fill > 0 ? coded >> (bits - fill) : 0;
  }
  store(out, word);
  return (n * bits + 7) / 8;
}

// Bits from a given one on; reads up to 16 bytes from the byte that it lies in.
std::uint64_t bits_at(const std::byte* in, std::size_t position, unsigned bits) {
  const std::byte* at = in + position / 8;
  const unsigned shift = position % 8;
  std::uint64_t word = load<std::uint64_t>(at) >> shift;
  if (shift + bits > 64) word |= load<std::uint64_t>(at + 8) << (64 - shift);
  return bits < 64 ? word & ((std::uint64_t{1} << bits) - 1) : word;
}

template <typename T>
T restored(const Parts& parts, GroupCode code, std::uint64_t coded, unsigned bits) {
  const std::uint64_t sign = code.sign != 0 ? coded >> (bits - 1) & 1 : 0;
  const std::uint64_t rest = code.sign != 0 ? coded & ((std::uint64_t{1} << (bits - 1)) - 1) : coded;
  const std::uint64_t low =
      ((rest << code.trail) + (std::uint64_t{code.base} << parts.mantissa_bits)) & parts.low_mask;
  return static_cast<T>(low | sign << parts.sign_shift);
}

template <typename T>
void unsqueeze_of(const ElementShape& shape, GroupCode code, const std::byte* in, std::size_t n,
                  std::byte* values) {
  const Parts parts(shape);
  const unsigned bits = code.bits(shape);
  const std::size_t bytes = (n * bits + 7) / 8;
  std::byte tail[32] = {};  // the last bytes again, with zeros behind them that may be read
  const std::size_t tail_begin = bytes > 16 ? bytes - 16 : 0;
  std::memcpy(tail, in + tail_begin, bytes - tail_begin);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t position = i * bits;
    const bool near_end = position / 8 >= tail_begin;
    const std::uint64_t coded =
        near_end ? bits_at(tail, position - tail_begin * 8, bits) : bits_at(in, position, bits);
    store(values + i * sizeof(T), restored<T>(parts, code, coded, bits));
  }
}

// Calls f<T>(args…) for the type's width.
#define TERRACE_FOR_WIDTH(function, shape, ...)           \
  switch ((shape).bytes) {                                \
    case 1:                                               \
      return function<std::uint8_t>(shape, __VA_ARGS__);  \
    case 2:                                               \
      return function<std::uint16_t>(shape, __VA_ARGS__); \
    case 4:                                               \
      return function<std::uint32_t>(shape, __VA_ARGS__); \
    default:                                              \
      return function<std::uint64_t>(shape, __VA_ARGS__); \
  }

GroupCode group_code(ElementType type, const std::byte* values,
                     std::size_t n){TERRACE_FOR_WIDTH(group_code_of, shape_of(type), values, n)}

std::size_t
    squeeze(ElementType type, GroupCode code, const std::byte* values, std::size_t n, std::byte* out) {
  TERRACE_FOR_WIDTH(squeeze_of, shape_of(type), code, values, n, out)
}

void unsqueeze(ElementType type, GroupCode code, const std::byte* in, std::size_t n, std::byte* values) {
  TERRACE_FOR_WIDTH(unsqueeze_of, shape_of(type), code, in, n, values)
}

#undef TERRACE_FOR_WIDTH

#ifdef __SSE2__
// Past the caches and summed up by XXH3 (store.h), with what every x86-64 has.
inline __m128i load_16(const std::byte* src) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
}

struct Sums {
  __m128i sums[4];

  Sums() { read(initial_sums); }
  void add(const std::byte* stripe, const std::byte* secret) {
    for (std::size_t i = 0; i < 4; ++i) {
      const __m128i data = load_16(stripe + i * 16);
      const __m128i keyed = _mm_xor_si128(data, load_16(secret + i * 16));
      const __m128i product = _mm_mul_epu32(keyed, _mm_srli_epi64(keyed, 32));
      sums[i] = _mm_add_epi64(product, _mm_add_epi64(sums[i], _mm_shuffle_epi32(data, 0x4e)));
    }
  }
  void scramble(const std::byte* secret) {
    const __m128i prime = _mm_set1_epi32(static_cast<int>(XXH_PRIME32_1));
    for (std::size_t i = 0; i < 4; ++i) {
      const __m128i mixed =
          _mm_xor_si128(_mm_xor_si128(sums[i], _mm_srli_epi64(sums[i], 47)), load_16(secret + i * 16));
      const __m128i upper = _mm_slli_epi64(_mm_mul_epu32(_mm_srli_epi64(mixed, 32), prime), 32);
      sums[i] = _mm_add_epi64(_mm_mul_epu32(mixed, prime), upper);
    }
  }
  void read(const std::uint64_t* eight) { __builtin_memcpy(sums, eight, sizeof sums); }
  void write(std::uint64_t* eight) const { __builtin_memcpy(eight, sums, sizeof sums); }
  static void line(std::byte* dst, const std::byte* src) {
    for (int i = 0; i < 64; i += 16) _mm_stream_si128(reinterpret_cast<__m128i*>(dst + i), load_16(src + i));
  }
};

template <typename T>
std::size_t pack_storing(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed,
                         Ahead& ahead, Storing& storing) {
  return pack_rows_storing<Words<T>, Sums>(src, n, mask, packed, ahead, storing);
}

std::uint64_t store_and_sum(std::byte* dst, const std::byte* src, std::size_t bytes, bool cold) {
  return store_at_once<Sums>(dst, src, bytes, cold);
}

std::uint64_t store_rest(Storing& storing) { return store_all_rest<Sums>(storing); }

void put_lines(std::byte* dst, const std::byte* src, std::size_t bytes) {
  const std::size_t head = std::min<std::size_t>(-reinterpret_cast<std::uintptr_t>(dst) % 16, bytes);
  std::memcpy(dst, src, head);
  std::size_t at = head;
  for (; at + 16 <= bytes; at += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(dst + at), load_16(src + at));
  std::memcpy(dst + at, src + at, bytes - at);
}

void fence() { _mm_sfence(); }
#else
// Only fetches: the block before is stored at once when its turn comes.
template <typename T>
std::size_t pack_storing(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed,
                         Ahead& ahead, Storing&) {
  Fetcher<SideBySide> fetcher(ahead);
  return pack_rows<Words<T>>(src, n, mask, packed, fetcher);
}

std::uint64_t store_and_sum(std::byte* dst, const std::byte* src, std::size_t bytes, bool) {
  std::memcpy(dst, src, bytes);
  return XXH3_64bits(src, bytes);
}

std::uint64_t store_rest(Storing& s) { return store_and_sum(s.dst, s.src, s.bytes, false); }

void put_lines(std::byte* dst, const std::byte* src, std::size_t bytes) { std::memcpy(dst, src, bytes); }
void fence() {}
#endif

void stream(std::byte* dst, const std::byte* src, std::size_t bytes) {
  put_lines(dst, src, bytes);
  fence();
}

std::uint64_t checksum(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

}  // namespace

namespace scalar {

constinit const Kernels table = {
    .name = "scalar",
    .pack = {pack<std::uint8_t>, pack<std::uint16_t>, pack<std::uint32_t>, pack<std::uint64_t>},
    .pack_storing = {pack_storing<std::uint8_t>, pack_storing<std::uint16_t>, pack_storing<std::uint32_t>,
                     pack_storing<std::uint64_t>},
    .expand = {expand<std::uint8_t>, expand<std::uint16_t>, expand<std::uint32_t>, expand<std::uint64_t>},
    .expand_past = {expand<std::uint8_t>, expand<std::uint16_t>, expand<std::uint32_t>,
                    expand<std::uint64_t>},
    .group_code = group_code,
    .squeeze = squeeze,
    .unsqueeze = unsqueeze,
    .stream = stream,
    .store = store_and_sum,
    .store_rest = store_rest,
    .fence = fence,
    .checksum = checksum,
};

}  // namespace scalar

}  // namespace terrace::compression
