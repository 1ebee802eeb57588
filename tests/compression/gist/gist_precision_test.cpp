// The precision reduction. The formats are small enough to try every value of them.
#include <bit>
#include <catch2/catch.hpp>

#include "compression/gist/elements.h"
#include "compression/gist/gist.h"
#include "compression/gist/number.h"
#include "tests/compression/flush_denormals.h"
#include "tests/compression/gist/gist_values.h"
#include "tests/compression/walled.h"

namespace terrace::compression::gist {
namespace {

using test::FlushDenormals;
using test::Walled;

constexpr Precision precisions[] = {Precision::dpr16, Precision::dpr10, Precision::dpr8};

NumberFormat format_of(Precision precision) {
  if (precision == Precision::dpr10) return {5, 4, true};
  return gist::format_of(precision == Precision::dpr16 ? ElementType::f16 : ElementType::f8e4m3);
}

std::vector<std::byte> reduced(Precision precision, std::vector<std::uint32_t> f32) {
  const Walled in(std::as_bytes(std::span(f32)));
  const Walled out(reduced_bytes(precision, f32.size()));
  REQUIRE(reduce(precision, in.span(), out.span()) == Error::none);
  CHECK(out.holds());
  return {out.data(), out.data() + out.size()};
}

std::vector<std::uint32_t> restored(Precision precision, const std::vector<std::byte>& from, std::size_t n) {
  const Walled in{std::span(from)}, out(n * 4);
  REQUIRE(restore(precision, in.span(), out.span()) == Error::none);
  CHECK(out.holds());
  std::vector<std::uint32_t> f32(n);
  if (n > 0) std::memcpy(f32.data(), out.data(), out.size());
  return f32;
}

// All codes of a format, packed as reduce() packs.
std::vector<std::byte> all_codes(Precision precision) {
  const std::size_t n = std::size_t{1} << format_of(precision).bits();
  std::vector<std::byte> packed(reduced_bytes(precision, n));
  for (std::size_t i = 0; i < n; ++i) {
    if (precision == Precision::dpr16) std::memcpy(packed.data() + 2 * i, &i, 2);
    if (precision == Precision::dpr8) packed[i] = static_cast<std::byte>(i);
    if (precision != Precision::dpr10) continue;
    auto word = load<std::uint32_t>(packed.data(), i / 3);
    word |= static_cast<std::uint32_t>(i << (10 * (i % 3)));
    store(packed.data(), i / 3, word);
  }
  return packed;
}

TEST_CASE("EveryCodeOfAReducedFormatComesBackAsItself") {
  for (const Precision precision : precisions) {
    const std::size_t n = std::size_t{1} << format_of(precision).bits();
    const std::vector<std::byte> codes = all_codes(precision);
    CHECK(reduced(precision, restored(precision, codes, n)) == codes);
  }
}

TEST_CASE("CodesAreWorthWhatTheirFormatSays") {
  const auto halves = restored(Precision::dpr16, all_codes(Precision::dpr16), 1 << 16);
  const auto bytes = restored(Precision::dpr8, all_codes(Precision::dpr8), 1 << 8);
  std::size_t wrong = 0;
  const auto compare = [&](std::uint32_t f32, double expected) {
    const double got = std::bit_cast<float>(f32);
    wrong += std::isnan(expected) ? !std::isnan(got)
                                  : got != expected || std::signbit(got) != std::signbit(expected);
  };
  for (std::size_t i = 0; i < halves.size(); ++i) compare(halves[i], value_of(ElementType::f16, i));
  for (std::size_t i = 0; i < bytes.size(); ++i) compare(bytes[i], value_of(ElementType::f8e4m3, i));
  // 1-5-4 is binary16 without the lowest six bits.
  const auto tens = restored(Precision::dpr10, all_codes(Precision::dpr10), 1 << 10);
  for (std::size_t i = 0; i < tens.size(); ++i) wrong += tens[i] != halves[i << 6];
  CHECK(wrong == 0);
}

// Between any two neighbours a < b of a format: just below the middle goes to a, the middle to the even one,
// just above it to b. With the order of codes that of their values, this is all there is to rounding.
TEST_CASE("EveryMiddleBetweenNeighboursRoundsToEven") {
  for (const Precision precision : precisions) {
    const NumberFormat format = format_of(precision);
    std::size_t wrong = 0;
    for (std::uint32_t a = 0; a + 1 < format.beyond(); ++a) {
      const double low = std::bit_cast<float>(decode(format, a)),
                   high = std::bit_cast<float>(decode(format, a + 1));
      const auto middle = static_cast<float>((low + high) / 2);  // exact: one more bit than the format has
      REQUIRE(middle == (low + high) / 2);
      const auto bits = std::bit_cast<std::uint32_t>(middle);
      const std::uint32_t sign = a % 3 == 0 ? 0x80000000 : 0;
      const std::uint32_t mark = sign != 0 ? format.sign() : 0;
      wrong += encode(format, sign | (bits - 1), Overflow::saturate) != (mark | a);
      wrong += encode(format, sign | bits, Overflow::saturate) != (mark | (a + a % 2));
      wrong += encode(format, sign | (bits + 1), Overflow::saturate) != (mark | (a + 1));
    }
    CAPTURE(static_cast<int>(precision));
    CHECK(wrong == 0);
  }
}

float round_trip(Precision precision, float value) {
  return std::bit_cast<float>(
      restored(precision, reduced(precision, {std::bit_cast<std::uint32_t>(value)}), 1)[0]);
}

TEST_CASE("WhatIsTooLargeBecomesTheLargestNumberAndInfinityStaysWhereThereIsOne") {
  const std::pair<Precision, float> largest[] = {
      {Precision::dpr16, 65504.0F}, {Precision::dpr10, 63488.0F}, {Precision::dpr8, 448.0F}};
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto& [precision, most] : largest) {
    CHECK(round_trip(precision, most) == most);
    CHECK(round_trip(precision, std::nextafter(most, infinity)) == most);
    CHECK(round_trip(precision, most * 1.5F) == most);
    CHECK(round_trip(precision, -std::numeric_limits<float>::max()) == -most);
    CHECK(round_trip(precision, infinity) == (precision == Precision::dpr8 ? most : infinity));
    CHECK(round_trip(precision, -infinity) == (precision == Precision::dpr8 ? -most : -infinity));
  }
}

TEST_CASE("WhatIsTooSmallBecomesZeroOfItsSignAlsoWithDenormalsFlushed") {
  const FlushDenormals flushed;
  const std::pair<Precision, int> smallest[] = {
      {Precision::dpr16, 103}, {Precision::dpr10, 109}, {Precision::dpr8, 118}};
  for (const auto& [precision, exponent] : smallest) {
    const std::uint32_t least = static_cast<std::uint32_t>(exponent) << 23;  // 2^-24, 2^-18, 2^-9
    const std::uint32_t half = least - (1U << 23);
    const auto back = restored(
        precision, reduced(precision, {least, half + 1, half, 1, 0x80000000, 0x807fffff, 0x80000000 | half}),
        7);
    CHECK(back == std::vector<std::uint32_t>{least, least, 0, 0, 0x80000000, 0x80000000, 0x80000000});
  }
}

TEST_CASE("EveryNaNStaysNaNWithItsSign") {
  std::mt19937 random(8);
  for (const Precision precision : precisions) {
    std::vector<std::uint32_t> nans = {0x7f800001, 0x7fc00000, 0xff800001,
                                       0xffffffff, 0x7fbfffff, 0x7f801fff};
    for (int i = 0; i < 1000; ++i) nans.push_back(0x7f800000 | (random() & 0x807fffff) | 1);
    const auto back = restored(precision, reduced(precision, nans), nans.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < nans.size(); ++i)
      wrong += (back[i] & 0x7fffffff) <= 0x7f800000 || back[i] >> 31 != nans[i] >> 31;
    CHECK(wrong == 0);
  }
}

TEST_CASE("TensorsOfAnyLengthAreReducedAndRestored") {
  for (const Precision precision : precisions) {
    for (const std::size_t n : odd_sizes) {
      const auto bytes = random_bits(n, 4, 9);
      std::vector<std::uint32_t> f32(n);
      if (n > 0) std::memcpy(f32.data(), bytes.data(), bytes.size());
      const auto once = restored(precision, reduced(precision, f32), n);
      CHECK(restored(precision, reduced(precision, once), n) == once);  // what fits is exact
    }
  }
}

TEST_CASE("ThreeCodesOfTenBitsShareAWord") {
  const auto word = reduced(Precision::dpr10, {0x3f800000, 0xbf800000, 0x40000000});  // 1, -1, 2
  CHECK(load<std::uint32_t>(word.data(), 0) == (0x0f0U | 0x2f0U << 10 | 0x100U << 20));
}

TEST_CASE("ReducedBytesThatAreTooFewTooManyOrDamagedAreRefused") {
  const Walled f32(16), out(8);
  CHECK(reduce(Precision::dpr16, f32.span(), out.span().first(7)) == Error::wrong_size);
  CHECK(reduce(Precision::dpr8, f32.span().first(15), out.span().first(3)) == Error::wrong_size);
  CHECK(restore(Precision::dpr8, out.span(), f32.span()) == Error::wrong_size);
  const Walled words(8, std::byte{0});
  CHECK(restore(Precision::dpr10, words.span(), f32.span()) == Error::none);
  for (const std::size_t bit : {30, 31, 42, 52, 63}) {
    const Walled damaged(8, std::byte{0});
    damaged.data()[bit / 8] |= static_cast<std::byte>(1U << bit % 8);
    const Walled untouched(16);
    CHECK(restore(Precision::dpr10, damaged.span(), untouched.span()) == Error::bad_code);
    CHECK(untouched.equals(Walled(16).span()));
  }
}

}  // namespace
}  // namespace terrace::compression::gist
