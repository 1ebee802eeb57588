// The element types of a tensor as the codecs see them: how wide an element is, and, for zvc_exp, where its
// sign, exponent and mantissa lie. Zero means all bits zero, for every type: -0.0 is a value like any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace terrace::compression {

// The numbers are part of the frame format (docs/formats/frame.md).
enum class ElementType : std::uint8_t {
  u8 = 0,
  u16 = 1,
  u32 = 2,
  u64 = 3,
  f8e4m3 = 4,
  f8e5m2 = 5,
  f16 = 6,
  bf16 = 7,
  f32 = 8,
  f64 = 9,
};
inline constexpr int element_type_count = 10;

// An element is, from the highest bit down: one sign bit, exponent_bits, mantissa_bits. Integers have no
// exponent.
struct ElementShape {
  std::uint8_t bytes;
  std::uint8_t exponent_bits;
  std::uint8_t mantissa_bits;
  std::string_view name;
};

inline constexpr ElementShape element_shapes[element_type_count] = {
    {1, 0, 7, "u8"},     {2, 0, 15, "u16"}, {4, 0, 31, "u32"}, {8, 0, 63, "u64"}, {1, 4, 3, "f8e4m3"},
    {1, 5, 2, "f8e5m2"}, {2, 5, 10, "f16"}, {2, 8, 7, "bf16"}, {4, 8, 23, "f32"}, {8, 11, 52, "f64"},
};

constexpr const ElementShape& shape_of(ElementType type) { return element_shapes[static_cast<int>(type)]; }
constexpr std::size_t width_of(ElementType type) { return shape_of(type).bytes; }
constexpr std::string_view name_of(ElementType type) { return shape_of(type).name; }

}  // namespace terrace::compression
