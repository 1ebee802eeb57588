// Max pooling against a plain one that scatters, as frameworks do: same outputs, same winners, same sums.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "compression/gist/elements.h"
#include "compression/gist/gist.h"
#include "compression/gist/number.h"
#include "tests/compression/walled.h"

namespace terrace::compression::gist {
namespace {

using test::Walled;

float float_of(ElementType type, const std::byte* from, std::size_t i) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, from + i * width_of(type), width_of(type));
  return std::bit_cast<float>(decode(format_of(type), bits));
}

void put(ElementType type, std::byte* to, std::size_t i, float value) {
  const std::uint32_t bits = encode(format_of(type), std::bit_cast<std::uint32_t>(value), Overflow::ieee);
  std::memcpy(to + i * width_of(type), &bits, width_of(type));
}

struct Expected {
  std::vector<std::size_t> winner;  // the input element of each output
  std::vector<unsigned> position;
};

Expected scan(ElementType type, const Pool& pool, const std::byte* input) {
  Expected expected;
  for (std::size_t p = 0; p < pool.planes; ++p)
    for (std::uint32_t y = 0; y < pool.output_height(); ++y)
      for (std::uint32_t x = 0; x < pool.output_width(); ++x) {
        bool any = false;
        float best = 0;
        std::size_t winner = 0;
        unsigned position = 0;
        for (unsigned at = 0; at < pool.window_height * pool.window_width; ++at) {
          const int iy = static_cast<int>(y * pool.stride_height + at / pool.window_width) -
                         static_cast<int>(pool.padding_height);
          const int ix = static_cast<int>(x * pool.stride_width + at % pool.window_width) -
                         static_cast<int>(pool.padding_width);
          if (iy < 0 || ix < 0 || iy >= static_cast<int>(pool.height) || ix >= static_cast<int>(pool.width))
            continue;
          const std::size_t element =
              (p * pool.height + static_cast<unsigned>(iy)) * pool.width + static_cast<unsigned>(ix);
          const float value = float_of(type, input, element);
          if (any && !(value > best) && !std::isnan(value)) continue;
          any = true;
          best = value;
          winner = element;
          position = at;
        }
        expected.winner.push_back(winner);
        expected.position.push_back(position);
      }
  return expected;
}

// Few different values, so that windows have ties; some zeros of both signs, infinities and NaNs.
void fill(ElementType type, const Walled& tensor, std::mt19937& random) {
  for (std::size_t i = 0; i < tensor.size() / width_of(type); ++i) {
    const auto kind = random() % 40;
    float value = static_cast<float>(static_cast<int>(random() % 9) - 4) * 0.5F;
    if (kind == 0) value = std::nanf("");
    if (kind == 1) value = -HUGE_VALF;
    if (kind == 2) value = -0.0F;
    put(type, tensor.data(), i, value);
  }
}

unsigned position_of(const Walled& argmax, std::size_t o) {
  return std::to_integer<unsigned>(argmax.data()[o / 2]) >> (o % 2 * 4) & 15;
}

void check_forward(ElementType type, const Pool& pool, const Walled& input, const Walled& argmax,
                   const Expected& expected) {
  const std::size_t width = width_of(type);
  const Walled output(pool.outputs() * width);
  REQUIRE(pool_forward(type, pool, input.span(), output.span(), argmax.span()) == Error::none);
  std::size_t wrong = 0;
  for (std::size_t o = 0; o < pool.outputs(); ++o) {
    wrong += position_of(argmax, o) != expected.position[o];
    wrong += std::memcmp(output.data() + o * width, input.data() + expected.winner[o] * width, width) != 0;
  }
  CHECK(wrong == 0);
  CHECK((output.holds() && argmax.holds()));
}

void check_backward(ElementType type, const Pool& pool, const Walled& argmax, const Expected& expected,
                    std::mt19937& random) {
  const Walled gradient(pool.outputs() * width_of(type)), result(pool.inputs() * width_of(type));
  std::uniform_real_distribution<float> spread(-3, 3);
  for (std::size_t o = 0; o < pool.outputs(); ++o) put(type, gradient.data(), o, spread(random));
  std::vector<float> sums(pool.inputs(), 0.0F);
  for (std::size_t o = 0; o < pool.outputs(); ++o)
    sums[expected.winner[o]] += float_of(type, gradient.data(), o);
  REQUIRE(pool_backward(type, pool, gradient.span(), argmax.span(), result.span()) == Error::none);
  const Walled wanted(result.size());
  for (std::size_t i = 0; i < sums.size(); ++i) put(type, wanted.data(), i, sums[i]);
  CHECK(wanted.equals(result.span()));
  CHECK(result.holds());
}

void check_pool(ElementType type, const Pool& pool, std::mt19937& random) {
  CAPTURE(name_of(type), pool.planes, pool.height, pool.width, pool.window_height, pool.window_width,
          pool.stride_height, pool.stride_width, pool.padding_height, pool.padding_width);
  const Walled input(pool.inputs() * width_of(type)), argmax(argmax_bytes(pool.outputs()));
  fill(type, input, random);
  const Expected expected = scan(type, pool, input.data());
  check_forward(type, pool, input, argmax, expected);
  check_backward(type, pool, argmax, expected, random);
}

TEST_CASE("MaxPoolingOfRandomShapesGoesForwardAndBack") {
  std::mt19937 random(11);
  const auto up_to = [&random](unsigned most) { return static_cast<std::uint32_t>(1 + random() % most); };
  int tried = 0;
  while (tried < 400) {
    Pool pool{up_to(3), up_to(13), up_to(13), up_to(4), up_to(4), up_to(5), up_to(5), 0, 0};
    pool.padding_height = static_cast<std::uint32_t>(random() % pool.window_height);
    pool.padding_width = static_cast<std::uint32_t>(random() % pool.window_width);
    if (!pool.valid()) continue;
    constexpr ElementType types[] = {ElementType::f8e4m3, ElementType::f8e5m2, ElementType::f16,
                                     ElementType::bf16, ElementType::f32};
    check_pool(types[tried++ % 5], pool, random);
  }
}

TEST_CASE("OverlappingWindowsAddUpInDoubles") {
  const Pool pool{1, 3, 3, 2, 2, 1, 1, 0, 0};
  std::vector<double> input = {0, 0, 0, 0, 9, 0, 0, 0, 0}, gradient = {0.1, 0.2, 0.3, 0.4};
  const Walled output(32), argmax(2), result(72);
  REQUIRE(pool_forward(ElementType::f64, pool, std::as_bytes(std::span(input)), output.span(),
                       argmax.span()) == Error::none);
  REQUIRE(pool_backward(ElementType::f64, pool, std::as_bytes(std::span(gradient)), argmax.span(),
                        result.span()) == Error::none);
  const std::vector<double> wanted = {0, 0, 0, 0, 0.1 + 0.2 + 0.3 + 0.4, 0, 0, 0, 0};
  CHECK(result.equals(std::as_bytes(std::span(wanted))));
  CHECK(argmax.data()[0] ==
        std::byte{0x23});  // the centre is the fourth of the first window, the third of the next
  CHECK(argmax.data()[1] == std::byte{0x01});
}

TEST_CASE("APoolingOutOfRangeIsRefused") {
  const Pool good{2, 4, 4};
  REQUIRE(good.valid());
  const auto with = [&good](auto change) {
    Pool pool = good;
    change(pool);
    return pool.valid();
  };
  CHECK_FALSE(with([](Pool& p) { p.window_height = 5; }));
  CHECK_FALSE(with([](Pool& p) { p.window_width = 0; }));
  CHECK_FALSE(with([](Pool& p) { p.stride_height = 0; }));
  CHECK_FALSE(with([](Pool& p) { p.stride_width = 0xffffffff; }));
  CHECK_FALSE(with([](Pool& p) { p.padding_height = 2; }));
  CHECK_FALSE(with([](Pool& p) { p.padding_width = 0xffffffff; }));
  CHECK_FALSE(with([](Pool& p) { p.height = 1; }));
  CHECK_FALSE(with([](Pool& p) { p.width = 0xffffffff; }));
  CHECK_FALSE(with([](Pool& p) { p.planes = ~std::size_t{0}; }));
  const Walled none(0);
  Pool wide = good;
  wide.window_width = 7;
  CHECK(pool_forward(ElementType::f32, wide, none.span(), none.span(), none.span()) == Error::bad_shape);
  CHECK(pool_forward(ElementType::f32, good, none.span(), none.span(), none.span()) == Error::wrong_size);
  CHECK(pool_forward(ElementType::u32, good, none.span(), none.span(), none.span()) == Error::wrong_type);
  Pool empty = good;
  empty.planes = 0;
  CHECK(pool_forward(ElementType::f32, empty, none.span(), none.span(), none.span()) == Error::none);
}

TEST_CASE("AnArgmaxOutsideItsWindowIsRefused") {
  const Pool pool{1, 5, 5, 3, 3, 2, 2, 1, 1};  // 9 outputs
  const Walled gradient(36, std::byte{0}), result(100);
  const auto verdict = [&](std::size_t output, unsigned position) {
    const Walled argmax(5, std::byte{0x44});  // the middle of every window
    argmax.data()[4] = std::byte{0x04};
    const unsigned shift = output % 2 * 4;
    const unsigned other = std::to_integer<unsigned>(argmax.data()[output / 2]) & (0xf0U >> shift);
    argmax.data()[output / 2] = static_cast<std::byte>(other | position << shift);
    return pool_backward(ElementType::f32, pool, gradient.span(), argmax.span(), result.span());
  };
  for (const unsigned padding : {0U, 1U, 2U, 3U, 6U, 9U, 15U})
    CHECK(verdict(0, padding) == Error::bad_position);
  CHECK(verdict(8, 8) == Error::bad_position);  // the padding below on the right
  CHECK(verdict(9, 1) == Error::bad_position);  // no such output
  CHECK(result.equals(Walled(100).span()));
  CHECK(verdict(4, 0) == Error::none);
}

}  // namespace
}  // namespace terrace::compression::gist
