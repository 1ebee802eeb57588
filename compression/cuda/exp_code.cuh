// zvc_exp's groups: what the values of 1024 elements have in common, and values with and without it.
#pragma once

#include "compression/cuda/masks.cuh"

namespace terrace::compression::cuda {

inline constexpr u32 group_elements = 1024;
inline constexpr u32 group_header_bytes = 4;
inline constexpr u32 most_exponent_bits = 11;

// Arithmetic on elements of up to four bytes is done in 32 bits.
template <typename T>
struct WideOf {
  using Type = u32;
};
template <>
struct WideOf<u64> {
  using Type = u64;
};
template <typename T>
using Wide = typename WideOf<T>::Type;

TERRACE_DEVICE u32 exponent_bits_of(u32 element) {
  // Four bits each: u8, u16, u32, u64: 0; f8e4m3 4, f8e5m2 5, f16 5, bf16 8, f32 8, f64 11.
  return static_cast<u32>(u64{0xb885540000} >> (4 * element)) & 15;
}

struct ValueShape {
  u32 exponent_bits, mantissa_bits;
};
template <typename T>
TERRACE_DEVICE ValueShape value_shape(u32 element) {
  const u32 exponent_bits = exponent_bits_of(element);
  return {exponent_bits, 8 * static_cast<u32>(sizeof(T)) - 1 - exponent_bits};
}

struct ExpCode {
  u32 base, width, sign, trail;
  TERRACE_DEVICE u32 bits(u32 mantissa_bits) const { return sign + width + mantissa_bits - trail; }
  TERRACE_DEVICE u32 header() const { return base | width << 11 | sign << 15 | trail << 16; }
};

TERRACE_DEVICE ExpCode code_of_header(u32 header) {
  return {header & 0x7ff, header >> 11 & 15, header >> 15 & 1, header >> 16 & 0x3f};
}

TERRACE_DEVICE bool is_valid_header(u32 header, ValueShape shape, u32 count) {
  const ExpCode code = code_of_header(header);
  return header >> 22 == 0 && code.base < 1U << shape.exponent_bits && code.width <= shape.exponent_bits &&
         code.trail <= shape.mantissa_bits && (count > 0 || header == 0);
}

template <typename W>
TERRACE_DEVICE W low_bits(u32 bits) {
  return bits < 8 * sizeof(W) ? (W{1} << bits) - 1 : ~W{0};
}

// A value's stored bits.
template <typename T>
TERRACE_DEVICE Wide<T> squeezed(T value, ExpCode code, ValueShape shape) {
  using W = Wide<T>;
  constexpr u32 sign_shift = 8 * sizeof(T) - 1;
  const W low = value & low_bits<W>(sign_shift);
  W stored = (low - (W{code.base} << shape.mantissa_bits)) >> code.trail;
  if (code.sign != 0) stored |= (W{value} >> sign_shift) << (code.bits(shape.mantissa_bits) - 1);
  return stored;
}

// The inverse, for any bits.
template <typename T>
TERRACE_DEVICE T unsqueezed(u64 stored, ExpCode code, ValueShape shape) {
  using W = Wide<T>;
  constexpr u32 sign_shift = 8 * sizeof(T) - 1;
  const u32 below_sign = code.width + shape.mantissa_bits - code.trail;
  const W rest = static_cast<W>(stored) & low_bits<W>(below_sign);
  const W sign = code.sign != 0 ? static_cast<W>(stored >> below_sign) & 1 : 0;
  const W low = ((rest << code.trail) + (W{code.base} << shape.mantissa_bits)) & low_bits<W>(sign_shift);
  return static_cast<T>(low | sign << sign_shift);
}

}  // namespace terrace::compression::cuda
