// The update: every vector set gives the plain one's bits for every type, rule and length, and the plain one
// does what the papers say.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "liballoc/gpu/optimizer/update/kernels.h"
#include "tests/liballoc/gpu/optimizer/optimizer_fixture.h"

using namespace terrace::liballoc::optimizer;
using namespace terrace::liballoc::optimizer::test;

namespace {

constexpr std::size_t type_bytes[] = {4, 2, 2};

// One parameter's arrays, as bytes; `misaligned` elements behind a vector's alignment.
struct Arrays {
  Arrays(std::size_t elements, unsigned parameter_type, unsigned gradient_type, std::uint32_t seed)
      : n(elements) {
    std::mt19937 random(seed);
    parameter = hard_bytes(random, n, parameter_type);
    gradient = hard_bytes(random, n, gradient_type);
    for (unsigned k = 0; k < max_planes; ++k) {
      planes[k].resize(n + 1);
      for (float& value : planes[k]) value = hard_value(random);
    }
    for (float& value : planes[1]) value = std::fabs(value);  // a second moment
  }

  static float hard_value(std::mt19937& random) {
    const std::uint32_t kind = random() % 32;
    if (kind == 0) return 0.0F;
    if (kind == 1) return -0.0F;
    if (kind == 2) return std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x807fffff);
    if (kind == 3) return 3e38F;
    const float magnitude = std::ldexp(1.0F, static_cast<int>(random() % 48) - 36);
    return magnitude * (static_cast<float>(random()) / 2147483648.0F - 1);
  }

  static std::vector<std::byte> hard_bytes(std::mt19937& random, std::size_t n, unsigned type) {
    std::vector<std::byte> out((n + 1) * type_bytes[type]);
    for (std::size_t i = 0; i <= n; ++i) {
      const float value = hard_value(random);
      // Narrow ones: some pattern of a finite number.
      const auto narrow = static_cast<std::uint16_t>(random() & (type == 1 ? 0xbf7f : 0xbbff));
      if (type == 0)
        std::memcpy(&out[4 * i], &value, 4);
      else
        std::memcpy(&out[2 * i], &narrow, 2);
    }
    return out;
  }

  void update(const Kernels& kernels, const Rule& rule, unsigned parameter_type, unsigned gradient_type) {
    // From the second element on, so that nothing is aligned.
    Piece piece{.elements = n,
                .parameter = parameter.data() + type_bytes[parameter_type],
                .gradient = gradient.data() + type_bytes[gradient_type]};
    for (unsigned k = 0; k < max_planes; ++k) piece.planes[k] = planes[k].data() + 1;
    kernels.update(rule, parameter_type, gradient_type)(rule, piece);
  }

  std::size_t n;
  std::vector<std::byte> parameter, gradient;
  std::vector<float> planes[max_planes];
};

bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) &&
        !(std::isnan(a[i]) && std::isnan(b[i])))
      return false;
  return true;
}

bool same_parameters(const Arrays& a, const Arrays& b, unsigned type) {
  if (type != 0) return a.parameter == b.parameter;
  std::vector<float> one(a.n + 1), other(a.n + 1);
  std::memcpy(one.data(), a.parameter.data(), a.parameter.size());
  std::memcpy(other.data(), b.parameter.data(), b.parameter.size());
  return same_floats(one, other);
}

bool agree(const Kernels& kernels, const Rule& rule, unsigned p, unsigned g, std::size_t n) {
  Arrays one(n, p, g, static_cast<std::uint32_t>(n) + 1), other = one;
  one.update(kernels, rule, p, g);
  other.update(scalar_kernels(), rule, p, g);
  bool same = same_parameters(one, other, p);
  for (unsigned k = 0; k < max_planes; ++k) same = same && same_floats(one.planes[k], other.planes[k]);
  return same;
}

std::vector<Rule> rules() {
  std::vector<Rule> out;
  for (unsigned flags = 0; flags < 64; ++flags)
    for (const int kind : {TERRACE_OPTIMIZER_ADAM, TERRACE_OPTIMIZER_SGD})
      for (const std::uint64_t step : {1, 5}) out.push_back(rule_of(adam_or_sgd(kind, flags), step));
  return out;
}

// What a float becomes in a narrow type: a first step of SGD with a rate of -1 from zero takes the gradient
// over.
std::vector<std::uint16_t> narrowed(const Kernels& kernels, unsigned type, const std::vector<float>& values) {
  terrace_optimizer_rule sgd = adam_or_sgd(TERRACE_OPTIMIZER_SGD, 0);
  sgd.lr = -1;
  sgd.weight_decay = 0;
  const Rule rule = rule_of(sgd, 1);
  std::vector<std::uint16_t> out(values.size());
  std::vector<float> momentum(values.size()), master(values.size());
  const Piece piece{.elements = values.size(),
                    .parameter = out.data(),
                    .gradient = values.data(),
                    .planes = {momentum.data(), master.data()}};
  kernels.update(rule, type, TERRACE_OPTIMIZER_F32)(rule, piece);
  return out;
}

double widened(std::uint16_t bits, unsigned type) {
  if (type == TERRACE_OPTIMIZER_BF16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                           : exponent == 31 ? std::ldexp(1.0, 16)  // where the next number would be
                                            : std::ldexp(1024 + mantissa, exponent - 25);
  return bits >> 15 != 0 ? -magnitude : magnitude;
}

// No neighbour is nearer, and of two as near the even one was taken.
bool is_nearest(float value, std::uint16_t bits, unsigned type) {
  const double mine = std::fabs(widened(bits, type) - value);
  for (const int step : {-1, 1}) {
    const int other = (bits & 0x7fff) + step;
    if (other < 0 || other > (type == TERRACE_OPTIMIZER_BF16 ? 0x7f80 : 0x7c00)) continue;
    if (type == TERRACE_OPTIMIZER_BF16 && other == 0x7f80) continue;
    const double theirs =
        std::fabs(widened(static_cast<std::uint16_t>((bits & 0x8000) | other), type) - value);
    if (theirs < mine || (theirs == mine && bits % 2 != 0)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("Every set gives the plain one's bits", "[optimizer]") {
  for (const Kernels* kernels : all_kernels())
    for (const Rule& rule : rules())
      for (unsigned p = 0; p < number_types; ++p)
        for (unsigned g = 0; g < number_types; ++g)
          for (const std::size_t n : {1, 7, 16, 41, 200}) {
            INFO(kernels->name << ' ' << p << ' ' << g << ' ' << n);
            if (!agree(*kernels, rule, p, g, n)) FAIL("differs");
          }
}

TEST_CASE("A length of nothing touches nothing", "[optimizer]") {
  for (const Kernels* kernels : all_kernels()) {
    Arrays arrays(0, 0, 0, 1);
    const auto before = arrays.parameter;
    arrays.update(*kernels, rules().front(), 0, 0);
    CHECK(arrays.parameter == before);
  }
}

TEST_CASE("Nothing is written beside a piece", "[optimizer]") {
  for (const Kernels* kernels : all_kernels()) {
    std::vector<float> parameter(40, 1), gradient(40, 1), first(40), second(40);
    const Rule rule = rule_of(adam_or_sgd(TERRACE_OPTIMIZER_ADAM, 0), 1);
    const Piece piece{.elements = 21,
                      .parameter = parameter.data() + 3,
                      .gradient = gradient.data() + 3,
                      .planes = {first.data() + 3, second.data() + 3}};
    kernels->update(rule, 0, 0)(rule, piece);
    for (const std::size_t i : {2, 24}) {
      CHECK(parameter[i] == 1);
      CHECK(first[i] == 0);
      CHECK(second[i] == 0);
    }
    CHECK(parameter[23] != 1);
  }
}

TEST_CASE("The first step of Adam goes by the rate against the gradient's sign", "[optimizer]") {
  terrace_optimizer_rule adam = adam_or_sgd(TERRACE_OPTIMIZER_ADAM, 0);
  adam.weight_decay = 0;
  adam.lr = 0.25;
  for (const Kernels* kernels : all_kernels()) {
    std::vector<float> parameter(20, 1), gradient(20, 1e-3F), first(20), second(20);
    gradient[3] = -50;
    const Rule rule = rule_of(adam, 1);
    const Piece piece{.elements = 20,
                      .parameter = parameter.data(),
                      .gradient = gradient.data(),
                      .planes = {first.data(), second.data()}};
    kernels->update(rule, 0, 0)(rule, piece);
    CHECK(parameter[0] == Approx(0.75).margin(1e-5));
    CHECK(parameter[3] == Approx(1.25).margin(1e-5));
    CHECK(first[3] == Approx(-5));
    CHECK(second[3] == Approx(2.5));
  }
}

TEST_CASE("Narrow numbers are rounded to the nearest and ties to even", "[optimizer]") {
  std::mt19937 random(4);
  std::vector<float> values;
  for (unsigned i = 0; i < 20000; ++i) values.push_back(Arrays::hard_value(random) / 1024);
  for (unsigned half = 0; half < 0x7c00; half += 3) {  // ties of fp16, and beside them
    const auto middle =
        static_cast<float>((widened(static_cast<std::uint16_t>(half), TERRACE_OPTIMIZER_F16) +
                            widened(static_cast<std::uint16_t>(half + 1), TERRACE_OPTIMIZER_F16)) /
                           2);
    for (const float value : {middle, std::nextafterf(middle, 0), -std::nextafterf(middle, 1e9F)})
      values.push_back(value);
  }
  for (unsigned i = 1; i < 0x7f00; i += 5)
    values.push_back(std::bit_cast<float>(i << 16 | 0x8000));  // of bf16
  for (const Kernels* kernels : all_kernels())
    for (const unsigned type : {TERRACE_OPTIMIZER_BF16, TERRACE_OPTIMIZER_F16}) {
      const auto narrow = narrowed(*kernels, type, values);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        if (std::fabs(values[i]) < 65536 || type == TERRACE_OPTIMIZER_BF16)
          wrong += !is_nearest(values[i], narrow[i], type);
      CHECK(wrong == 0);
    }
}

TEST_CASE("Every narrow number comes back as it was", "[optimizer]") {
  terrace_optimizer_rule sgd = adam_or_sgd(TERRACE_OPTIMIZER_SGD, 0);
  sgd.weight_decay = 0;
  const Rule rule = rule_of(sgd, 1);
  for (const Kernels* kernels : all_kernels())
    for (const unsigned type : {TERRACE_OPTIMIZER_BF16, TERRACE_OPTIMIZER_F16}) {
      const unsigned infinity = type == TERRACE_OPTIMIZER_BF16 ? 0x7f80 : 0x7c00;
      std::vector<std::uint16_t> expected;
      for (unsigned bits = 0; bits < 0x10000; ++bits)
        if ((bits & 0x7fff) <= infinity) expected.push_back(static_cast<std::uint16_t>(bits));
      auto parameter = expected;
      std::vector<float> gradient(expected.size(), 0), momentum(expected.size()), master(expected.size());
      for (std::size_t i = 0; i < gradient.size(); ++i)  // -0 stays -0 when -0 is added
        gradient[i] = expected[i] >> 15 != 0 ? 0.0F : -0.0F;
      const Piece piece{.elements = parameter.size(),
                        .parameter = parameter.data(),
                        .gradient = gradient.data(),
                        .planes = {momentum.data(), master.data()}};
      kernels->update(rule, type, TERRACE_OPTIMIZER_F32)(rule, piece);
      CHECK(parameter == expected);
    }
}

TEST_CASE("Master weights go on until the program changes the parameter", "[optimizer]") {
  terrace_optimizer_rule sgd = adam_or_sgd(TERRACE_OPTIMIZER_SGD, 0);
  sgd.weight_decay = 0;
  sgd.momentum = 0.5;
  sgd.lr = 0x1p-12;  // a 16th of what bf16 tells apart at 1
  const Rule rule = rule_of(sgd, 1);
  for (const Kernels* kernels : all_kernels()) {
    std::vector<std::uint16_t> parameter(33, 0x3f80);  // 1
    std::vector<float> gradient(33, -1), momentum(33), master(33);
    const Piece piece{.elements = 33,
                      .parameter = parameter.data(),
                      .gradient = gradient.data(),
                      .planes = {momentum.data(), master.data()}};
    const auto step = [&] { kernels->update(rule, TERRACE_OPTIMIZER_BF16, 0)(rule, piece); };
    for (int i = 0; i < 15; ++i) step();
    CHECK(master[32] == 1 + 15 * 0x1p-12F);
    step();
    step();
    CHECK(parameter[32] == 0x3f81);  // many steps too small for it have come together
    parameter[32] = 0x4000;          // 2
    step();
    CHECK(master[32] == 2 + 0x1p-12F);
    CHECK(master[31] == 1 + 18 * 0x1p-12F);
  }
}
