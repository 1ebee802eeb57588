// zvc_exp's bits for AVX2. The steps are those of avx512_exp.cpp: values to codes of b bits,
// neighbours joined to 64-bit lanes of L bits, lanes to bytes. Here each step is a plain loop over 1024
// values at a time, written so that the compiler makes vectors of it (narrow lanes lie side by side in 64-bit
// words, with masks between them); only the step between lanes and bytes is scalar, for AVX2 cannot permute
// and shift words freely.
#include <immintrin.h>

#include "compression/kernels/vector.h"

namespace terrace::compression::avx2 {
namespace {

using Word = std::uint64_t;

constexpr std::size_t chunk_values = 1024;

inline Word low_bits(unsigned count) { return count >= 64 ? ~Word{0} : (Word{1} << count) - 1; }

inline Word load_word(const std::byte* src) {
  Word word;
  __builtin_memcpy(&word, src, 8);
  return word;
}

// `pattern` in each lane of `bits` bits.
inline Word splat(Word pattern, unsigned bits) {
  for (; bits < 64; bits *= 2) pattern |= pattern << (bits % 64);
  return pattern;
}

// How a value becomes its code and back:
//   code = (magnitude - base << mantissa_bits | sign >> sign_down) >> trail
template <typename T>
struct Fields {
  T magnitude, base, kept_sign, code, exponent_and_mantissa;
  unsigned sign_down, trail;

  Fields(const ElementShape& shape, GroupCode group) {
    constexpr unsigned bits = 8 * sizeof(T);
    const unsigned stored_sign_at = unsigned{shape.mantissa_bits} + group.width;
    magnitude = static_cast<T>(low_bits(bits - 1));
    base = static_cast<T>(shape.exponent_bits == 0 ? 0 : Word{group.base} << shape.mantissa_bits);
    kept_sign = static_cast<T>(group.sign != 0 ? Word{1} << (bits - 1) : 0);
    code = static_cast<T>(low_bits(stored_sign_at + group.sign - group.trail));
    exponent_and_mantissa = static_cast<T>(low_bits(stored_sign_at));
    sign_down = bits - 1 - stored_sign_at;
    trail = group.trail;
  }

  T encode(T v) const {
    const T offset = static_cast<T>((v & magnitude) - base);
    const T moved_sign = static_cast<T>((v & kept_sign) >> sign_down);
    return static_cast<T>((offset | moved_sign) >> trail) & code;
  }

  T decode(T v) const {
    const T placed = static_cast<T>(static_cast<T>(v & code) << trail);
    const T low = static_cast<T>((placed & exponent_and_mantissa) + base);
    const T moved_sign =
        static_cast<T>(static_cast<T>(placed & static_cast<T>(~exponent_and_mantissa)) << sign_down);
    return static_cast<T>((low & magnitude) | (moved_sign & kept_sign));
  }
};

// Joins neighbours of `lane` bits that hold `bits` bits each, in every word; and again up to whole words.
// lane 8: bytes of 7 bits become 16-bit lanes of 14 bits, and so on.
void join(Word* words, std::size_t count, unsigned lane, unsigned bits) {
  for (; lane < 64; lane *= 2, bits *= 2) {
    const Word lower = splat(low_bits(bits), 2 * lane);
    const Word upper = lower << bits % 64;
    const unsigned down = lane - bits;
    for (std::size_t i = 0; i < count; ++i) words[i] = (words[i] & lower) | (words[i] >> down & upper);
  }
}

// The inverse, for words that hold 64 / lane codes of `bits` bits one behind the other.
void part(Word* words, std::size_t count, unsigned lane, unsigned bits) {
  for (unsigned half = 32; half >= lane; half /= 2) {
    const unsigned kept = bits * (half / lane);
    const Word lower = splat(low_bits(kept), 2 * half);
    const Word upper = lower << half;
    for (std::size_t i = 0; i < count; ++i)
      words[i] = (words[i] & lower) | (words[i] << (half - kept) & upper);
  }
}

// Words of `bits` bits each, one behind the other. Writes up to 8 bytes beyond.
void write_words(const Word* words, std::size_t count, unsigned bits, std::byte* out) {
  Word pending = 0;
  unsigned fill = 0;
  for (std::size_t i = 0; i < count; ++i) {
    pending |= words[i] << fill;
    __builtin_memcpy(out, &pending, 8);
    const unsigned next = fill + bits;
    // What did not fit; two shifts, for the sum may be 64.
    const Word rest = words[i] >> 1 >> (63 - fill);
    pending = next >= 64 ? rest : pending;
    out += next >= 64 ? 8 : 0;
    fill = next % 64;
  }
  __builtin_memcpy(out, &pending, 8);
}

template <typename T>
std::size_t squeeze_all(const ElementShape& shape, GroupCode code, const std::byte* values, std::size_t n,
                        std::byte* out) {
  const unsigned bits = unsigned{code.sign} + code.width + shape.mantissa_bits - code.trail;
  if (bits == 0) return 0;
  constexpr unsigned values_each = 8 / sizeof(T);
  const Fields<T> fields(shape, code);
  alignas(32) T codes[chunk_values];
  alignas(32) Word words[chunk_values / values_each];
  for (std::size_t done = 0; done < n; done += chunk_values) {
    const std::size_t here = n - done < chunk_values ? n - done : chunk_values;
    const std::size_t count = (here + values_each - 1) / values_each;
    __builtin_memcpy(codes, values + done * sizeof(T), here * sizeof(T));
    for (std::size_t i = 0; i < here; ++i) codes[i] = fields.encode(codes[i]);
    for (std::size_t i = here; i < count * values_each; ++i) codes[i] = 0;
    __builtin_memcpy(words, codes, count * 8);
    join(words, count, 8 * sizeof(T), bits);
    write_words(words, count, bits * values_each, out + done * bits / 8);
  }
  return (n * bits + 7) / 8;
}

// The bits from a position on, at least `bits` of them if there are so many. Reads up to 9 bytes.
inline Word read_word(const std::byte* in, std::size_t position) {
  const unsigned shift = position % 8;
  const Word above = static_cast<Word>(in[position / 8 + 8]);
  return load_word(in + position / 8) >> shift | above << 1 << (63 - shift);
}

// The words, from the first bits of `in`, of which `bytes` may be read.
void read_words(const std::byte* in, std::size_t bytes, unsigned bits, Word* words, std::size_t count) {
  constexpr std::size_t reach = 9;
  std::size_t i = 0;
  for (; i < count && i * bits / 8 + reach <= bytes; ++i) words[i] = read_word(in, i * bits);
  if (i == count) return;  // `bytes` goes on with what follows these words, which has no place in `last`
  const std::size_t from = i * bits / 8 < bytes ? i * bits / 8 : bytes;
  std::byte last[2 * reach] = {};
  __builtin_memcpy(last, in + from, bytes - from);
  for (; i < count; ++i) words[i] = read_word(last, i * bits - from * 8);
}

template <typename T>
void decode_all(const Fields<T>& fields, const std::byte* codes, std::size_t n, std::byte* values) {
  for (std::size_t i = 0; i < n; ++i) {
    T value;
    __builtin_memcpy(&value, codes + i * sizeof(T), sizeof(T));
    value = fields.decode(value);
    __builtin_memcpy(values + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename T>
void unsqueeze_all(const ElementShape& shape, GroupCode code, const std::byte* in, std::size_t n,
                   std::byte* values) {
  const unsigned bits = unsigned{code.sign} + code.width + shape.mantissa_bits - code.trail;
  constexpr unsigned values_each = 8 / sizeof(T);
  const std::size_t total = (n * bits + 7) / 8;
  const Fields<T> fields(shape, code);
  alignas(32) Word words[chunk_values / values_each];
  for (std::size_t done = 0; done < n; done += chunk_values) {
    const std::size_t here = n - done < chunk_values ? n - done : chunk_values;
    const std::size_t count = (here + values_each - 1) / values_each;
    const std::size_t begin = done * bits / 8;
    read_words(in + begin, total - begin, bits * values_each, words, count);
    part(words, count, 8 * sizeof(T), bits);
    decode_all(fields, reinterpret_cast<const std::byte*>(words), here, values + done * sizeof(T));
  }
}

template <typename T>
GroupCode code_of(const ElementShape& shape, const std::byte* values, std::size_t n) {
  const T magnitude = static_cast<T>(low_bits(8 * sizeof(T) - 1));
  T least = magnitude, greatest = 0, any = 0;
  for (std::size_t i = 0; i < n; ++i) {
    T value;
    __builtin_memcpy(&value, values + i * sizeof(T), sizeof(T));
    const T low = value & magnitude;
    least = low < least ? low : least;
    greatest = low > greatest ? low : greatest;
    any |= value;
  }
  GroupCode code;
  if (shape.exponent_bits != 0) {
    code.base = static_cast<std::uint16_t>(least >> shape.mantissa_bits);
    const Word spread = static_cast<Word>(greatest >> shape.mantissa_bits) - code.base;
    code.width = static_cast<std::uint8_t>(spread == 0 ? 0 : 64 - __builtin_clzll(spread));
  }
  code.sign = static_cast<std::uint8_t>(any >> (8 * sizeof(T) - 1));
  // A one above the mantissa ends the count where all of it is zero.
  code.trail = static_cast<std::uint8_t>(__builtin_ctzll(any | Word{1} << shape.mantissa_bits));
  return code;
}

}  // namespace

GroupCode group_code(ElementType type, const std::byte* values, std::size_t n) {
  const ElementShape& shape = element_shapes[static_cast<int>(type)];
  switch (shape.bytes) {
    case 1:
      return code_of<std::uint8_t>(shape, values, n);
    case 2:
      return code_of<std::uint16_t>(shape, values, n);
    case 4:
      return code_of<std::uint32_t>(shape, values, n);
    default:
      return code_of<std::uint64_t>(shape, values, n);
  }
}

std::size_t squeeze(ElementType type, GroupCode code, const std::byte* values, std::size_t n,
                    std::byte* out) {
  const ElementShape& shape = element_shapes[static_cast<int>(type)];
  switch (shape.bytes) {
    case 1:
      return squeeze_all<std::uint8_t>(shape, code, values, n, out);
    case 2:
      return squeeze_all<std::uint16_t>(shape, code, values, n, out);
    case 4:
      return squeeze_all<std::uint32_t>(shape, code, values, n, out);
    default:
      return squeeze_all<std::uint64_t>(shape, code, values, n, out);
  }
}

void unsqueeze(ElementType type, GroupCode code, const std::byte* in, std::size_t n, std::byte* values) {
  const ElementShape& shape = element_shapes[static_cast<int>(type)];
  switch (shape.bytes) {
    case 1:
      return unsqueeze_all<std::uint8_t>(shape, code, in, n, values);
    case 2:
      return unsqueeze_all<std::uint16_t>(shape, code, in, n, values);
    case 4:
      return unsqueeze_all<std::uint32_t>(shape, code, in, n, values);
    default:
      return unsqueeze_all<std::uint64_t>(shape, code, in, n, values);
  }
}

}  // namespace terrace::compression::avx2
