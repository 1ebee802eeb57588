// Elements as bits: loads and stores of any width from unaligned memory, and the choice of a width at run
// time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/base/bytes.h"
#include "compression/base/element.h"

namespace terrace::compression::gist {

template <typename Bits>
Bits load(const std::byte* from, std::size_t i) {
  return compression::load<Bits>(from + i * sizeof(Bits));
}

template <typename Bits>
void store(std::byte* to, std::size_t i, Bits bits) {
  compression::store(to + i * sizeof bits, bits);
}

constexpr bool is_floating(ElementType type) { return shape_of(type).exponent_bits != 0; }

// The magnitude of infinity; of the largest number where there is none (OCP E4M3). Above lie the NaNs.
constexpr std::uint64_t largest_magnitude(ElementType type) {
  if (type == ElementType::f8e4m3) return 0x7e;
  const ElementShape& shape = shape_of(type);
  return ((std::uint64_t{1} << shape.exponent_bits) - 1) << shape.mantissa_bits;
}

// Calls work.operator()<Bits>() for the unsigned integer as wide as the type's elements.
template <typename Work>
void with_bits_of(ElementType type, Work&& work) {
  switch (width_of(type)) {
    case 1:
      return work.template operator()<std::uint8_t>();
    case 2:
      return work.template operator()<std::uint16_t>();
    case 4:
      return work.template operator()<std::uint32_t>();
    default:
      return work.template operator()<std::uint64_t>();
  }
}

}  // namespace terrace::compression::gist
