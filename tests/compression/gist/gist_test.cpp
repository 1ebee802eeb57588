// ReLU, its mask of one bit an element, and its gradient.
#include "compression/gist/gist.h"

#include <catch2/catch.hpp>

#include "tests/compression/flush_denormals.h"
#include "tests/compression/gist/gist_values.h"
#include "tests/compression/walled.h"

namespace terrace::compression::gist {
namespace {

using test::FlushDenormals;
using test::Walled;

bool bit_of(const Walled& mask, std::size_t i) {
  return (std::to_integer<unsigned>(mask.data()[i / 8]) >> i % 8 & 1) !=
         0;  // little-endian words, bit 0 first
}

TEST_CASE("BinarizeHasABitForEveryElementAboveZeroOrNaN") {
  for (const ElementType type : floating) {
    for (const std::size_t n : odd_sizes) {
      CAPTURE(name_of(type), n);
      const Walled values(random_bits(n, width_of(type), static_cast<unsigned>(n)));
      const Walled mask(mask_bytes(n));
      REQUIRE(binarize(type, values.span(), mask.span()) == Error::none);
      bool all_right = true;
      for (std::size_t i = 0; i < mask.size() * 8; ++i) {
        const double value = i < n ? value_of(type, bits_of(type, values.data(), i)) : 0;
        all_right = all_right && bit_of(mask, i) == !(value <= 0);
      }
      CHECK(all_right);
      CHECK(mask.holds());
    }
  }
}

TEST_CASE("EveryHalfIsBinarizedRight") {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const Walled mask(mask_bytes(all.size()));
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    REQUIRE(binarize(type, std::as_bytes(std::span(all)), mask.span()) == Error::none);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) wrong += bit_of(mask, i) != !(value_of(type, i) <= 0);
    CHECK(wrong == 0);
  }
}

TEST_CASE("ReluKeepsWhatPassesAndWritesZeroForTheRest") {
  for (const ElementType type : floating) {
    for (const std::size_t n : odd_sizes) {
      CAPTURE(name_of(type), n);
      const Walled input(random_bits(n, width_of(type), 3));
      const Walled output(input.size()), mask(mask_bytes(n)), again(mask_bytes(n));
      REQUIRE(relu_binarize(type, input.span(), output.span(), mask.span()) == Error::none);
      bool all_right = true;
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t before = bits_of(type, input.data(), i);
        all_right =
            all_right && bits_of(type, output.data(), i) == (value_of(type, before) <= 0 ? 0 : before);
      }
      CHECK(all_right);
      REQUIRE(binarize(type, output.span(), again.span()) == Error::none);
      CHECK(again.equals(mask.span()));
      REQUIRE(relu_binarize(type, input.span(), input.span(), again.span()) == Error::none);
      CHECK(input.equals(output.span()));
      CHECK((output.holds() && mask.holds()));
    }
  }
}

TEST_CASE("ReluBackwardIsTheGradientUnderTheMask") {
  const FlushDenormals flushed;
  for (const ElementType type : floating) {
    for (const std::size_t n : odd_sizes) {
      CAPTURE(name_of(type), n);
      const Walled gradient(random_bits(n, width_of(type), 4)), mask(random_bits(mask_bytes(n), 1, 5));
      const Walled result(gradient.size());
      REQUIRE(relu_backward(type, gradient.span(), mask.span(), result.span()) == Error::none);
      bool all_right = true;
      for (std::size_t i = 0; i < n; ++i)
        all_right = all_right && bits_of(type, result.data(), i) ==
                                     (bit_of(mask, i) ? bits_of(type, gradient.data(), i) : 0);
      CHECK(all_right);
      CHECK(result.holds());
      REQUIRE(relu_backward(type, gradient.span(), mask.span(), gradient.span()) == Error::none);
      CHECK(gradient.equals(result.span()));
    }
  }
}

TEST_CASE("AMaskOfTheWrongSizeOrTypeTouchesNothing") {
  const Walled values(256), mask(16), out(256);
  CHECK(binarize(ElementType::f32, values.span(), mask.span()) == Error::wrong_size);
  CHECK(binarize(ElementType::u32, values.span(), mask.span().first(8)) == Error::wrong_type);
  CHECK(binarize(ElementType::f32, values.span().first(6), mask.span().first(8)) == Error::wrong_size);
  CHECK(relu_binarize(ElementType::f32, values.span(), out.span().first(8), mask.span().first(8)) ==
        Error::wrong_size);
  CHECK(relu_backward(ElementType::f32, values.span(), mask.span().first(8), out.span().first(4)) ==
        Error::wrong_size);
  CHECK(relu_backward(ElementType::u8, values.span(), mask.span().first(8), out.span()) == Error::wrong_type);
  CHECK(mask.equals(Walled(16).span()));
  CHECK(out.equals(Walled(256).span()));
  for (int error = 0; error <= static_cast<int>(Error::bad_code); ++error)
    CHECK(std::strlen(describe(static_cast<Error>(error))) > 5);
}

}  // namespace
}  // namespace terrace::compression::gist
