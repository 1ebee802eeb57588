// Floating point of 8 to 32 bits as integers: f32 to a smaller format and back. Integer arithmetic
// throughout, so that the rounding mode, FTZ and DAZ of the calling thread do not matter and every machine
// gives the same bits.
#pragma once

#include <bit>
#include <cstdint>

#include "compression/base/element.h"

namespace terrace::compression::gist {

// From the highest bit down: sign, exponent, mantissa; bias 2^(exponent_bits - 1) - 1.
struct NumberFormat {
  unsigned exponent_bits;
  unsigned mantissa_bits;
  bool infinity;  // false: OCP E4M3, where only the code of all ones is no number

  constexpr unsigned bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr std::uint32_t sign() const { return std::uint32_t{1} << (bits() - 1); }
  // The code of infinity or, without one, of NaN. Numbers lie below.
  constexpr std::uint32_t beyond() const {
    return infinity ? ((std::uint32_t{1} << exponent_bits) - 1) << mantissa_bits : sign() - 1;
  }
};

constexpr NumberFormat format_of(ElementType type) {
  const ElementShape& shape = shape_of(type);
  return {shape.exponent_bits, shape.mantissa_bits, type != ElementType::f8e4m3};
}

enum class Overflow : std::uint8_t {
  saturate,  // to the largest finite number
  ieee,      // to infinity; to NaN where there is none
};

// NaN keeps the high bits of its payload, and one bit where these are zero.
constexpr std::uint32_t encode_nan(const NumberFormat& format, std::uint32_t mantissa) {
  if (!format.infinity) return format.beyond();
  const std::uint32_t kept = mantissa >> (23 - format.mantissa_bits);
  return format.beyond() | (kept != 0 ? kept : 1U << (format.mantissa_bits - 1));
}

// A finite magnitude (the bits of an f32 without its sign), rounded to nearest even. May give beyond() or
// more.
constexpr std::uint32_t encode_finite(const NumberFormat& format, std::uint32_t magnitude) {
  const int f32_exponent = static_cast<int>(magnitude >> 23);
  const std::uint32_t significand = (magnitude & 0x7fffff) | (f32_exponent > 0 ? 0x800000 : 0);
  const int exponent = (f32_exponent > 0 ? f32_exponent : 1) - 127 + format.bias();
  const int shift = 23 - static_cast<int>(format.mantissa_bits) + (exponent < 1 ? 1 - exponent : 0);
  if (shift > 24) return 0;  // below half of the smallest denormal
  std::uint32_t code = significand >> shift;
  const std::uint32_t rest = significand & ((std::uint32_t{1} << shift) - 1);
  const std::uint32_t half = (std::uint32_t{1} << shift) / 2;
  if (rest > half || (rest == half && half != 0 && (code & 1) != 0)) ++code;
  return exponent < 1 ? code : code + (static_cast<std::uint32_t>(exponent - 1) << format.mantissa_bits);
}

constexpr std::uint32_t encode(const NumberFormat& format, std::uint32_t f32, Overflow overflow) {
  const std::uint32_t sign = f32 >> 31 != 0 ? format.sign() : 0;
  const std::uint32_t magnitude = f32 & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | encode_nan(format, magnitude & 0x7fffff);
  const std::uint32_t largest = format.beyond() - 1;
  if (magnitude == 0x7f800000)
    return sign | (format.infinity || overflow == Overflow::ieee ? format.beyond() : largest);
  const std::uint32_t code = encode_finite(format, magnitude);
  if (code <= largest) return sign | code;
  return sign | (overflow == Overflow::ieee ? format.beyond() : largest);
}

// Every code is an f32.
constexpr std::uint32_t decode(const NumberFormat& format, std::uint32_t code) {
  const std::uint32_t sign = (code & format.sign()) != 0 ? 0x80000000 : 0;
  const unsigned shift = 23 - format.mantissa_bits;
  const std::uint32_t magnitude = code & (format.sign() - 1);
  const std::uint32_t mantissa = magnitude & ((1U << format.mantissa_bits) - 1);
  if (magnitude >= format.beyond()) return sign | 0x7f800000 | mantissa << shift;
  if (magnitude == 0) return sign;
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  if (exponent > 0 || format.exponent_bits == 8)  // f32 has bf16's denormals for its own
    return sign | (static_cast<std::uint32_t>(exponent - format.bias() + 127) << 23) | mantissa << shift;
  // A denormal: its highest set bit becomes the implicit one.
  const int lead = std::countl_zero(mantissa << (32 - format.mantissa_bits)) + 1;
  const std::uint32_t fraction = (mantissa << (shift + static_cast<unsigned>(lead))) & 0x7fffff;
  return sign | (static_cast<std::uint32_t>(1 - lead - format.bias() + 127) << 23) | fraction;
}

}  // namespace terrace::compression::gist
