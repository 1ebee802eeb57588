// ReLU with binarize against its definition, and its backward pass.
#include <catch2/catch.hpp>
#include <cmath>

#include "cases.h"
#include "compression/gist/gist.h"

using namespace terrace::compression;
using namespace terrace::compression::cuda::test;

namespace {

template <typename T>
T element(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof value);
  return value;
}

bool bit(const std::vector<std::uint64_t>& mask, std::size_t i) { return (mask[i / 64] >> i % 64 & 1) != 0; }

// Random bits: every kind of number, NaNs of both signs among them.
template <typename T, typename Passes>
void require_relu(ElementType type, std::size_t elements, const Passes& passes) {
  const Bytes x = noise(elements * sizeof(T), elements), dy = noise(elements * sizeof(T), 7);
  const Binarized made = relu_binarize_on(type, x);
  const Bytes dx = relu_backward_on(type, made.mask, dy);
  std::size_t set = 0;
  for (std::size_t i = 0; i < elements; ++i) {
    const bool expected = passes(element<T>(x, i));
    INFO("element " << i << " of " << elements << " " << name_of(type));
    REQUIRE(bit(made.mask, i) == expected);
    REQUIRE(element<T>(made.y, i) == (expected ? element<T>(x, i) : 0));
    REQUIRE(element<T>(dx, i) == (expected ? element<T>(dy, i) : 0));
    set += expected ? 1 : 0;
  }
  for (const std::uint64_t word : made.mask) set -= static_cast<std::size_t>(std::popcount(word));
  REQUIRE(set == 0);  // and no bit behind the last element
  Bytes y(x.size()), mask(gist::mask_bytes(elements));
  REQUIRE(gist::relu_binarize(type, x, y, mask) == gist::Error::none);
  REQUIRE((y == made.y));
  REQUIRE(std::memcmp(mask.data(), made.mask.data(), mask.size()) == 0);
}

bool float_passes(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value > 0 || std::isnan(value);
}

constexpr std::size_t sizes[] = {1, 3, 63, 64, 65, 127, 1000, 5000, 20001};

}  // namespace

TEST_CASE("ReluOfF32KeepsWhatIsAboveZeroAndNan") {
  for (const std::size_t n : sizes) require_relu<std::uint32_t>(ElementType::f32, n, float_passes);
}

TEST_CASE("ReluOfBf16KeepsWhatIsAboveZeroAndNan") {
  for (const std::size_t n : sizes)
    require_relu<std::uint16_t>(ElementType::bf16, n,
                                [](std::uint16_t bits) { return float_passes(std::uint32_t{bits} << 16); });
}

TEST_CASE("ReluOfF16KeepsWhatIsAboveZeroAndNan") {
  for (const std::size_t n : sizes)
    require_relu<std::uint16_t>(ElementType::f16, n, [](std::uint16_t bits) {
      return (bits & 0x7fff) > 0x7c00 || (bits < 0x8000 && bits != 0);
    });
}

TEST_CASE("ReluOfF64KeepsWhatIsAboveZeroAndNan") {
  for (const std::size_t n : sizes)
    require_relu<std::uint64_t>(ElementType::f64, n, [](std::uint64_t bits) {
      double value;
      std::memcpy(&value, &bits, sizeof value);
      return value > 0 || std::isnan(value);
    });
}

TEST_CASE("ReluOfEightBitsKeepsWhatIsAboveZeroAndNan") {
  for (const std::size_t n : sizes) {
    require_relu<std::uint8_t>(ElementType::f8e4m3, n,
                               [](std::uint8_t bits) { return bits == 0xff || (bits < 0x80 && bits != 0); });
    require_relu<std::uint8_t>(ElementType::f8e5m2, n, [](std::uint8_t bits) {
      return (bits & 0x7f) > 0x7c || (bits < 0x80 && bits != 0);
    });
  }
}
