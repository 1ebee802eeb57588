// Values for the tests of Gist's encodings, and what they are worth.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "compression/base/element.h"

namespace terrace::compression::gist {

inline constexpr ElementType floating[] = {ElementType::f8e4m3, ElementType::f8e5m2, ElementType::f16,
                                           ElementType::bf16,   ElementType::f32,    ElementType::f64};
inline constexpr std::size_t odd_sizes[] = {0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000};

// Any bits, a third of them zero: NaNs, infinities and denormals of every type are among them.
inline std::vector<std::byte> random_bits(std::size_t elements, std::size_t width, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> all(elements * width);
  for (std::size_t i = 0; i < elements; ++i) {
    const std::uint64_t bits = random() % 3 == 0 ? 0 : random();
    std::memcpy(all.data() + i * width, &bits, width);
  }
  return all;
}

inline std::uint64_t bits_of(ElementType type, const std::byte* from, std::size_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from + i * width_of(type), width_of(type));
  return bits;
}

// What the type's bits are worth, by another way than the library's: as sign × mantissa × 2^exponent.
inline double value_of(ElementType type, std::uint64_t bits) {
  const ElementShape& shape = shape_of(type);
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << shape.mantissa_bits) - 1);
  const auto exponent = static_cast<int>(bits >> shape.mantissa_bits & ((1U << shape.exponent_bits) - 1));
  const int top = (1 << shape.exponent_bits) - 1, bias = top / 2;
  const double sign = (bits >> (8 * shape.bytes - 1) & 1) != 0 ? -1 : 1;
  if (type == ElementType::f8e4m3 && (bits & 0x7f) == 0x7f) return std::nan("");
  if (type != ElementType::f8e4m3 && exponent == top)
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  const double implicit = exponent > 0 ? std::ldexp(1.0, shape.mantissa_bits) : 0;
  return sign * std::ldexp(implicit + static_cast<double>(mantissa),
                           std::max(exponent, 1) - bias - shape.mantissa_bits);
}

}  // namespace terrace::compression::gist
