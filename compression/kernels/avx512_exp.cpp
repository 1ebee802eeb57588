// zvc_exp's bits with AVX-512. A register's values become codes of b bits in lanes of their own width;
// neighbours are joined, lane by lane twice as wide, until eight 64-bit lanes hold L bits each; these eight
// then become L whole bytes:
//
//   lanes of 32:  ····aaaa ····bbbb  →  lanes of 64:  ········bbbbaaaa  →  bytes:  …ddddcccc bbbbaaaa
//
// A group is at most 1024 values here; since 1024 values are a whole number of bytes whatever b is, longer
// ones are done in chunks. Decoding goes the same way back.
#include "compression/kernels/avx512_common.h"
#include "compression/kernels/vector.h"

namespace terrace::compression::avx512 {
namespace {

constexpr std::size_t chunk_values = 1024;
constexpr std::size_t lanes_of_register = 8;
// The 64-bit lanes of a chunk of the widest values, and room to fill up with zeros to two registers.
constexpr std::size_t chunk_lanes = chunk_values + 2 * lanes_of_register;

// Shifts by counts made with splat(). There is none for bytes: these go as pairs, and what comes in from the
// neighbour is cleared by the caller's masks.
template <std::size_t width>
inline __m512i right(__m512i v, __m512i counts) {
  if constexpr (width == 2) return _mm512_srlv_epi16(v, counts);
  if constexpr (width == 4) return _mm512_srlv_epi32(v, counts);
  if constexpr (width == 8) return _mm512_srlv_epi64(v, counts);
}

template <std::size_t width>
inline __m512i left(__m512i v, __m512i counts) {
  if constexpr (width == 2) return _mm512_sllv_epi16(v, counts);
  if constexpr (width == 4) return _mm512_sllv_epi32(v, counts);
  if constexpr (width == 8) return _mm512_sllv_epi64(v, counts);
}

template <std::size_t width>
inline __m512i sum(__m512i a, __m512i b) {
  if constexpr (width == 1) return _mm512_add_epi8(a, b);
  if constexpr (width == 2) return _mm512_add_epi16(a, b);
  if constexpr (width == 4) return _mm512_add_epi32(a, b);
  if constexpr (width == 8) return _mm512_add_epi64(a, b);
}

// bits where `choose` is set from a, else from b
inline __m512i either(__m512i choose, __m512i a, __m512i b) {
  return _mm512_ternarylogic_epi64(choose, a, b, 0xca);
}

// How a value becomes its code and back, the same for every lane:
//   code = (magnitude - base << mantissa_bits | sign >> sign_down) >> trail
template <std::size_t width>
struct Fields {
  // The lane of shifts, see right().
  static constexpr std::size_t shift_width = width == 1 ? 2 : width;
  __m512i magnitude, base, minus_base, sign, kept_sign, sign_down, trail, code, exponent_and_mantissa;

  Fields(const ElementShape& shape, GroupCode group) {
    const std::size_t bits = width * 8;
    const std::uint64_t sign_bit = std::uint64_t{1} << (bits - 1);
    const std::uint64_t lowest = std::uint64_t{group.base} << (shape.mantissa_bits % 64);
    const unsigned stored_sign_at = shape.mantissa_bits + group.width;
    magnitude = splat<width>(sign_bit - 1);
    base = splat<width>(shape.exponent_bits == 0 ? 0 : lowest);
    minus_base = splat<width>(shape.exponent_bits == 0 ? 0 : 0 - lowest);
    sign = splat<width>(sign_bit);
    kept_sign = splat<width>(group.sign != 0 ? sign_bit : 0);
    sign_down = splat<shift_width>(bits - 1 - stored_sign_at);
    trail = splat<shift_width>(group.trail);
    code = splat<width>(low_bits(stored_sign_at + group.sign - group.trail));
    exponent_and_mantissa = splat<width>(low_bits(stored_sign_at));
  }

  // Values without a sign, as ReLU leaves them, are all magnitude. (What a byte's shift brings in from its
  // neighbour lies above the code, where join() takes nothing.)
  template <bool has_sign>
  __m512i encode(__m512i v) const {
    if constexpr (!has_sign) return right<shift_width>(sum<width>(v, minus_base), trail);
    const __m512i offset = sum<width>(_mm512_and_si512(v, magnitude), minus_base);
    const __m512i moved_sign = right<shift_width>(_mm512_and_si512(v, kept_sign), sign_down);
    return _mm512_and_si512(right<shift_width>(_mm512_or_si512(offset, moved_sign), trail), code);
  }

  // `v` holds a code in each lane and nothing else.
  __m512i decode(__m512i v) const {
    const __m512i placed = left<shift_width>(v, trail);
    const __m512i offset = _mm512_and_si512(placed, exponent_and_mantissa);
    const __m512i moved_sign =
        left<shift_width>(_mm512_andnot_si512(exponent_and_mantissa, placed), sign_down);
    return either(sign, _mm512_and_si512(moved_sign, kept_sign), sum<width>(offset, base));
  }
};

// Joins neighbours of `width` bytes that hold `bits` bits each, so that a lane twice as wide holds 2 * bits;
// and again up to 64-bit lanes.
template <std::size_t width>
inline __m512i join(__m512i v, unsigned bits) {
  if constexpr (width == 8) {
    return v;
  } else {
    const __m512i lower = splat<2 * width>(low_bits(bits));
    const __m512i moved = right<2 * width>(v, splat<2 * width>(8 * width - bits));
    return join<2 * width>(either(lower, v, moved), 2 * bits);
  }
}

// The inverse. Bits above those of a lane's code are left over.
template <std::size_t width>
inline __m512i part(__m512i v, unsigned bits) {
  if constexpr (width == 8) {
    return v;
  } else {
    const __m512i lower = splat<2 * width>(low_bits(8 * width));
    const __m512i wide = part<2 * width>(v, 2 * bits);
    return either(lower, wide, left<2 * width>(wide, splat<2 * width>(8 * width - bits)));
  }
}

// Gives take() the codes of n values as registers of eight 64-bit lanes each, the last one filled up with
// zero bits.
template <bool has_sign, std::size_t width, typename Take>
[[gnu::always_inline]] inline void encode_all(const Fields<width>& fields, const std::byte* values,
                                              std::size_t n, unsigned bits, Take take) {
  const std::size_t bytes = n * width;
  std::size_t at = 0;
  for (; at + 64 <= bytes; at += 64)
    take(join<width>(fields.template encode<has_sign>(_mm512_loadu_si512(values + at)), bits));
  if (at == bytes) return;
  const std::uint64_t present = low_bits(bytes - at);
  const __m512i last = fields.template encode<has_sign>(_mm512_maskz_loadu_epi8(present, values + at));
  take(join<width>(_mm512_maskz_mov_epi8(present, last), bits));
}

// Writes the codes of up to 1024 values as lanes, two registers of zeros behind them; returns how many.
template <bool has_sign, std::size_t width>
std::size_t encode_lanes(const Fields<width>& fields, const std::byte* values, std::size_t n, unsigned bits,
                         std::uint64_t* lanes) {
  std::uint64_t* to = lanes;
  encode_all<has_sign>(fields, values, n, bits, [&to](__m512i eight) {
    _mm512_store_si512(to, eight);
    to += lanes_of_register;
  });
  for (std::size_t i = 0; i < 2; ++i) _mm512_store_si512(to + i * lanes_of_register, _mm512_setzero_si512());
  return (n * width + 7) / 8;
}

// Joins neighbouring lanes of at most 32 bits each; returns their number. Reads up to two registers from the
// last lane.
std::size_t join_lanes(std::uint64_t* lanes, std::size_t count, unsigned bits) {
  const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
  const __m512i odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
  const __m512i up = splat<8>(bits);
  for (std::size_t i = 0; i < count; i += 16) {
    const __m512i a = _mm512_load_si512(lanes + i);
    const __m512i b = _mm512_load_si512(lanes + i + 8);
    const __m512i upper = _mm512_sllv_epi64(_mm512_permutex2var_epi64(a, odd, b), up);
    _mm512_store_si512(lanes + i / 2, _mm512_or_si512(_mm512_permutex2var_epi64(a, even, b), upper));
  }
  const std::size_t joined = (count + 1) / 2;
  const std::size_t filled = (count + 15) / 16 * 8;
  _mm512_store_si512(lanes + filled, _mm512_setzero_si512());
  return joined;
}

// How lanes of some number of bits lie in the 64-bit words of a bit string, as bytes: there is a row for
// every number, for making one costs as much as coding a group does.
struct Row {
  std::uint8_t entries[lanes_of_register];

  __m512i wide() const {
    return _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(entries)));
  }
};

// Eight lanes of 33 to 64 bits each as whole bytes. Word j of the result has bits of up to three lanes, from
// the one that bit 64 j falls into; a shift by 64 or more makes zero.
struct WeaveRows {
  Row from[3], down, up[2];
};

constexpr WeaveRows weave_rows(unsigned bits) {
  WeaveRows rows{};
  for (unsigned j = 0; j < lanes_of_register; ++j) {
    const unsigned first = 64 * j / bits;
    const unsigned used = 64 * j % bits;
    for (unsigned k = 0; k < 3; ++k)
      rows.from[k].entries[j] = static_cast<std::uint8_t>((first + k) % lanes_of_register);
    rows.down.entries[j] = static_cast<std::uint8_t>(first < lanes_of_register ? used : 64);
    for (unsigned k = 1; k < 3; ++k)
      rows.up[k - 1].entries[j] =
          static_cast<std::uint8_t>(first + k < lanes_of_register ? k * bits - used : 64);
  }
  return rows;
}

// The way back, for lanes of 0 to 64 bits: bit i * bits is in word i * bits / 64.
struct UnweaveRows {
  Row low, high, down;
};

constexpr UnweaveRows unweave_rows(unsigned bits) {
  UnweaveRows rows{};
  for (unsigned i = 0; i < lanes_of_register; ++i) {
    rows.low.entries[i] = static_cast<std::uint8_t>(i * bits / 64);
    rows.high.entries[i] = static_cast<std::uint8_t>((i * bits / 64 + 1) % lanes_of_register);
    rows.down.entries[i] = static_cast<std::uint8_t>(i * bits % 64);
  }
  return rows;
}

struct Tables {
  WeaveRows weave[65];
  UnweaveRows unweave[65];
};

constexpr Tables make_tables() {
  Tables all{};
  for (unsigned bits = 33; bits <= 64; ++bits) all.weave[bits] = weave_rows(bits);
  for (unsigned bits = 0; bits <= 64; ++bits) all.unweave[bits] = unweave_rows(bits);
  return all;
}

constexpr Tables tables = make_tables();

struct Weave {
  __m512i from[3], down, up[2];

  explicit Weave(unsigned bits) {
    const WeaveRows& rows = tables.weave[bits];
    for (int k = 0; k < 3; ++k) from[k] = rows.from[k].wide();
    down = rows.down.wide();
    for (int k = 0; k < 2; ++k) up[k] = rows.up[k].wide();
  }

  __m512i operator()(__m512i lanes) const {
    const __m512i a = _mm512_srlv_epi64(_mm512_permutexvar_epi64(from[0], lanes), down);
    const __m512i b = _mm512_sllv_epi64(_mm512_permutexvar_epi64(from[1], lanes), up[0]);
    const __m512i c = _mm512_sllv_epi64(_mm512_permutexvar_epi64(from[2], lanes), up[1]);
    return _mm512_ternarylogic_epi64(a, b, c, 0xfe);
  }
};

void write_lanes(std::uint64_t* lanes, std::size_t count, unsigned bits, std::byte* out) {
  for (; bits <= 32; bits *= 2) count = join_lanes(lanes, count, bits);
  const Weave weave(bits);
  for (std::size_t i = 0; i < count; i += lanes_of_register, out += bits)
    _mm512_storeu_si512(out, weave(_mm512_load_si512(lanes + i)));
}

// Codes whose lanes are more than half full, as those of most floats are: each register at one go.
template <bool has_sign, std::size_t width>
void squeeze_wide(const Fields<width>& fields, const std::byte* values, std::size_t n, unsigned bits,
                  std::byte* out) {
  const unsigned lane_bits = bits * (8 / width);
  const Weave weave(lane_bits);
  encode_all<has_sign>(fields, values, n, bits, [&](__m512i eight) {
    _mm512_storeu_si512(out, weave(eight));
    out += lane_bits;
  });
}

// Others, whose lanes must be joined first: chunk by chunk.
template <bool has_sign, std::size_t width>
void squeeze_narrow(const Fields<width>& fields, const std::byte* values, std::size_t n, unsigned bits,
                    std::byte* out) {
  alignas(64) std::uint64_t lanes[chunk_lanes];
  for (std::size_t done = 0; done < n; done += chunk_values) {
    const std::size_t here = n - done < chunk_values ? n - done : chunk_values;
    const std::size_t count = encode_lanes<has_sign>(fields, values + done * width, here, bits, lanes);
    write_lanes(lanes, count, bits * (8 / width), out + done * bits / 8);
  }
}

template <std::size_t width>
std::size_t squeeze_all(const ElementShape& shape, GroupCode code, const std::byte* values, std::size_t n,
                        std::byte* out) {
  const unsigned bits = unsigned{code.sign} + code.width + shape.mantissa_bits - code.trail;
  if (bits == 0) return 0;
  const Fields<width> fields(shape, code);
  const bool wide = bits * (8 / width) > 32;
  if (code.sign != 0)
    (wide ? squeeze_wide<true, width> : squeeze_narrow<true, width>)(fields, values, n, bits, out);
  else
    (wide ? squeeze_wide<false, width> : squeeze_narrow<false, width>)(fields, values, n, bits, out);
  return (n * bits + 7) / 8;
}

struct Unweave {
  __m512i low, high, down, up;

  explicit Unweave(unsigned bits)
      : low(tables.unweave[bits].low.wide()),
        high(tables.unweave[bits].high.wide()),
        down(tables.unweave[bits].down.wide()),
        up(_mm512_sub_epi64(splat<8>(64), down)) {}

  // (A shift up by 64 makes zero.)
  __m512i operator()(__m512i bytes) const {
    return _mm512_or_si512(_mm512_srlv_epi64(_mm512_permutexvar_epi64(low, bytes), down),
                           _mm512_sllv_epi64(_mm512_permutexvar_epi64(high, bytes), up));
  }
};

template <std::size_t width>
void unsqueeze_all(const ElementShape& shape, GroupCode code, const std::byte* in, std::size_t n,
                   std::byte* values) {
  const unsigned bits = unsigned{code.sign} + code.width + shape.mantissa_bits - code.trail;
  const unsigned lane_bits = bits * (8 / width);
  const std::size_t total = (n * bits + 7) / 8;
  const Fields<width> fields(shape, code);
  const Unweave unweave(lane_bits);
  std::size_t read = 0;
  for (std::size_t at = 0; at < n * width; at += 64, read += lane_bits) {
    const __m512i lanes = unweave(load_at_most(in + read, total - read));
    _mm512_storeu_si512(values + at, fields.decode(_mm512_and_si512(part<width>(lanes, bits), fields.code)));
  }
}

}  // namespace

std::size_t squeeze(ElementType type, GroupCode code, const std::byte* values, std::size_t n,
                    std::byte* out) {
  const ElementShape& shape = element_shapes[static_cast<int>(type)];
  switch (shape.bytes) {
    case 1:
      return squeeze_all<1>(shape, code, values, n, out);
    case 2:
      return squeeze_all<2>(shape, code, values, n, out);
    case 4:
      return squeeze_all<4>(shape, code, values, n, out);
    default:
      return squeeze_all<8>(shape, code, values, n, out);
  }
}

void unsqueeze(ElementType type, GroupCode code, const std::byte* in, std::size_t n, std::byte* values) {
  const ElementShape& shape = element_shapes[static_cast<int>(type)];
  switch (shape.bytes) {
    case 1:
      return unsqueeze_all<1>(shape, code, in, n, values);
    case 2:
      return unsqueeze_all<2>(shape, code, in, n, values);
    case 4:
      return unsqueeze_all<4>(shape, code, in, n, values);
    default:
      return unsqueeze_all<8>(shape, code, in, n, values);
  }
}

}  // namespace terrace::compression::avx512
