// One float at a time, for machines without vectors, and as what the others are held against. fused() is the
// C library's where the machine has no such instruction: right, and slow.
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "liballoc/gpu/optimizer/update/sets.h"

namespace terrace::liballoc::optimizer::scalar {
namespace {
#include "liballoc/gpu/optimizer/update/body.h"

std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float wide(Bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

// Half: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
std::uint16_t half_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // 65520 and more
  if (magnitude < 0x38800000) {  // below 2^-14: a whole number of 2^-24, which adding 0.5 rounds to
    const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3f000000));
  }
  const std::uint32_t rebased = magnitude - (112U << 23);
  return static_cast<std::uint16_t>(sign | ((rebased + 0xfff + (rebased >> 13 & 1)) >> 13));
}

float wide(Half value) {
  const std::uint32_t sign = std::uint32_t{value.bits & 0x8000U} << 16, magnitude = value.bits & 0x7fffU;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  const float normal = std::bit_cast<float>(magnitude << 13) * 0x1p112F;  // denormals come right by it
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(normal));
}

struct Scalar {
  static constexpr std::size_t lanes = 1;
  float value;

  static Scalar all(float value) { return {value}; }
  static Scalar load(const float* from) { return {*from}; }
  static Scalar load(const Bf16* from) { return {wide(*from)}; }
  static Scalar load(const Half* from) { return {wide(*from)}; }
  void store(float* to) const { *to = value; }
  void store(Bf16* to) const { to->bits = bf16_of(value); }
  void store(Half* to) const { to->bits = half_of(value); }
  template <class P>
  static bool rounds_to(Scalar wide_value, const P* narrow) {
    P rounded;
    wide_value.store(&rounded);
    return rounded.bits == narrow->bits;
  }
  static Scalar select(bool first, Scalar a, Scalar b) { return first ? a : b; }

  friend Scalar operator+(Scalar a, Scalar b) { return {a.value + b.value}; }
  friend Scalar operator-(Scalar a, Scalar b) { return {a.value - b.value}; }
  friend Scalar operator*(Scalar a, Scalar b) { return {a.value * b.value}; }
  friend Scalar operator/(Scalar a, Scalar b) { return {a.value / b.value}; }
  friend Scalar fused(Scalar a, Scalar b, Scalar c) { return {std::fmaf(a.value, b.value, c.value)}; }
  friend Scalar root(Scalar a) { return {std::sqrt(a.value)}; }
  friend Scalar negated(Scalar a) { return {-a.value}; }
  friend Scalar larger(Scalar a, Scalar b) {
    return a.value != a.value || a.value > b.value ? a : b;  // of two zeros b, as the instruction does
  }
};

}  // namespace

constinit const Kernels table = table_of<Scalar>("scalar");

}  // namespace terrace::liballoc::optimizer::scalar
