// Ranks, distributions and element types; see activation_values.h.
#include "tools/bench/activations/activation_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace terrace::bench {
namespace {

using compression::ElementShape;
using compression::ElementType;

double normal_inverse(double p) {
  double low = -9;
  double high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

double half_normal_inverse(double p) { return p <= 0 ? 0 : normal_inverse((1 + p) / 2); }
double half_laplace_inverse(double p) { return -std::log1p(-p); }

bool is_integer(ElementType type) { return compression::shape_of(type).exponent_bits == 0; }

// Integers of w bits stand for values in units of 2^-(w-3), so that all below 8 fit.
std::uint64_t integer_of(ElementType type, float value, Random& random) {
  const auto bits = static_cast<int>(8 * compression::width_of(type));
  const double units = std::ldexp(std::fabs(static_cast<double>(value)), bits - 3);
  const double largest = std::ldexp(1.0, std::min(bits, 53)) - 1;
  if (bits < 64) return static_cast<std::uint64_t>(std::min(std::nearbyint(units), largest));
  // A float has 24 bits; the ones below are made up, or every u64 would end in zeros.
  return static_cast<std::uint64_t>(std::min(units, 0x1p63)) ^ (random.bits() & 0xFFFFFFFF);
}

std::uint64_t f64_of(float value, Random& random) {
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(value));
  return bits | (random.bits() & ((std::uint64_t{1} << 29) - 1));  // as above
}

}  // namespace

InverseTable::InverseTable(double (*inverse)(double)) {
  constexpr double edge = 0.5 / static_cast<double>(steps);
  for (std::size_t i = 0; i <= steps; ++i) {
    const double p = static_cast<double>(i) / static_cast<double>(steps);
    // Where the distribution begins at a finite value (0), the table does too.
    const double from = std::isfinite(inverse(0)) && inverse(0) > -8 ? p : std::max(p, edge);
    points_[i] = static_cast<float>(inverse(std::min(from, 1 - edge)));
  }
}

const InverseTable& inverse_of(ValueLaw law) {
  static const InverseTable normal(normal_inverse);
  static const InverseTable half_normal(half_normal_inverse);
  static const InverseTable half_laplace(half_laplace_inverse);
  if (law == ValueLaw::normal) return normal;
  return law == ValueLaw::half_laplace ? half_laplace : half_normal;
}

Random::Random(std::uint64_t seed, std::uint64_t stream) : state_(mix(mix(seed) + stream)) {
  static const auto table = [] {
    std::array<float, InverseTable::steps> middles{};
    for (std::size_t i = 0; i < middles.size(); ++i) middles[i] = inverse_of(ValueLaw::normal).middle_of(i);
    return middles;
  }();
  quantile_ = table.data();
}

void RankMap::learn(std::span<const float> x, std::size_t zeros) {
  all_zero_ = zeros >= x.size();
  if (all_zero_) return;
  count_.fill(0);
  for (const float v : x) ++count_[static_cast<std::size_t>(place_of(v))];
  find_threshold(x, zeros);
  find_slopes(zeros, x.size() - zeros);
}

std::size_t RankMap::bin_of_rank(std::size_t rank, std::size_t* before) const {
  std::size_t bin = 0;
  *before = 0;
  while (*before + count_[bin] <= rank) *before += count_[bin++];
  return bin;
}

void RankMap::find_threshold(std::span<const float> x, std::size_t zeros) {
  std::size_t before = 0;
  threshold_bin_ = bin_of_rank(zeros, &before);
  std::vector<float> inside;
  for (const float v : x)
    if (static_cast<std::size_t>(place_of(v)) == threshold_bin_) inside.push_back(v);
  const auto at = inside.begin() + static_cast<std::ptrdiff_t>(zeros - before);
  std::nth_element(inside.begin(), at, inside.end());
  threshold_ = *at;
}

void RankMap::find_slopes(std::size_t zeros, std::size_t values) {
  const double all = static_cast<double>(values);
  double passed = 0;
  for (std::size_t bin = 0; bin <= threshold_bin_; ++bin) passed += count_[bin];
  const double right = left_of(threshold_bin_ + 1);
  double inside = passed - static_cast<double>(zeros);
  double slope = inside / all / std::max(right - static_cast<double>(threshold_), 1e-6);
  slope_[threshold_bin_] = static_cast<float>(slope);
  base_[threshold_bin_] = static_cast<float>(
      -(static_cast<double>(threshold_) - static_cast<double>(left_of(threshold_bin_))) * slope);
  for (std::size_t bin = threshold_bin_ + 1; bin < bins; ++bin) {
    base_[bin] = static_cast<float>(inside / all);
    slope_[bin] = static_cast<float>(count_[bin] / all * static_cast<double>(per_unit));
    inside += count_[bin];
  }
}

ElementWriter::ElementWriter(const ActivationSpec& spec) : spec_(spec), inverse_(inverse_of(spec.values)) {}

float ElementWriter::value(float rank) const {
  const float plain = inverse_.at(rank);
  return spec_.values == ValueLaw::relu6 ? std::min(3 * plain, 6.0F) : plain;
}

std::uint64_t ElementWriter::element(float value, Random& random) const {
  if (value == 0) value = 0x1p-24F;  // the lowest rank's; a denormal would be unlike any activation
  if (spec_.through_bf16)
    value = std::bit_cast<float>(static_cast<std::uint32_t>(rounded_bits(ElementType::bf16, value)) << 16);
  std::uint64_t bits = 0;
  if (spec_.element == ElementType::f32)
    bits = std::bit_cast<std::uint32_t>(value);
  else if (spec_.element == ElementType::f64)
    bits =
        spec_.through_bf16 ? std::bit_cast<std::uint64_t>(static_cast<double>(value)) : f64_of(value, random);
  else
    bits = is_integer(spec_.element) ? integer_of(spec_.element, value, random)
                                     : rounded_bits(spec_.element, value);
  return std::max(bits, std::uint64_t{1});
}

template <typename Word>
void ElementWriter::write_words(std::span<const float> x, const RankMap& ranks, std::uint64_t image,
                                std::byte* out) const {
  Random random(~spec_.seed, image);
  for (std::size_t i = 0; i < x.size(); ++i) {
    Word word = 0;
    if (!ranks.all_zero() && x[i] >= ranks.threshold())
      word = static_cast<Word>(element(value(ranks.rank(x[i])), random));
    std::memcpy(out + i * sizeof word, &word, sizeof word);
  }
}

void ElementWriter::write(std::span<const float> x, const RankMap& ranks, std::uint64_t image,
                          std::byte* out) const {
  switch (compression::width_of(spec_.element)) {
    case 1:
      return write_words<std::uint8_t>(x, ranks, image, out);
    case 2:
      return write_words<std::uint16_t>(x, ranks, image, out);
    case 4:
      return write_words<std::uint32_t>(x, ranks, image, out);
    default:
      return write_words<std::uint64_t>(x, ranks, image, out);
  }
}

std::uint64_t rounded_bits(ElementType type, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (type == ElementType::f32) return bits;
  if (type == ElementType::f64) return std::bit_cast<std::uint64_t>(static_cast<double>(value));
  const ElementShape& shape = compression::shape_of(type);
  const int mantissa = shape.mantissa_bits;
  const int bias = (1 << (shape.exponent_bits - 1)) - 1;
  const std::uint64_t sign = std::uint64_t{bits >> 31} << (shape.exponent_bits + mantissa);
  const bool finite_only = type == ElementType::f8e4m3;
  const std::uint64_t infinity = ((std::uint64_t{1} << shape.exponent_bits) - 1) << mantissa;
  if (std::isnan(value)) return sign | (finite_only ? 0x7F : infinity | std::uint64_t{1} << (mantissa - 1));
  // A denormal f32 counts as the exponent below the smallest; every type's smallest one is at least that of
  // f32.
  const int exponent = std::max(static_cast<int>(bits >> 23 & 255) - 127, 1 - bias);
  const double size = std::fabs(static_cast<double>(value));
  // In units of the last place at this exponent: exact, so that rounding this number is rounding once. Adding
  // 2^52 leaves no fraction.
  const auto unit = std::bit_cast<double>(std::uint64_t(1023 + mantissa - exponent) << 52);
  const double units = (size * unit + 0x1p52) - 0x1p52;
  const std::uint64_t largest = finite_only ? 0x7E : infinity;
  if (exponent > bias + 1 || std::isinf(value)) return sign | largest;
  // A carry out of the mantissa goes into the exponent by itself; a denormal has no leading one to take away.
  const auto code =
      (static_cast<std::uint64_t>(exponent + bias - 1) << mantissa) + static_cast<std::uint64_t>(units);
  return sign | std::min(code, largest);
}

}  // namespace terrace::bench
