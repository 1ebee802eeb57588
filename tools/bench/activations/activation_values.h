// The parts that the generator of activations is made of: random numbers, the map from a value's rank to a
// value of the wanted distribution, and the conversion to element types. Only activations.cpp and its test
// need them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tools/bench/activations/activations.h"

namespace terrace::bench {

// 2^12 points of the inverse of a distribution function, for linear interpolation. The ends are cut at half a
// step.
class InverseTable {
 public:
  static constexpr std::size_t steps = 4096;
  explicit InverseTable(double (*inverse)(double));
  // `u` from 0 to 1.
  float at(float u) const {
    const float place = u * static_cast<float>(steps);
    const auto step = static_cast<std::size_t>(place);
    if (step >= steps) return points_[steps];
    return points_[step] + (place - static_cast<float>(step)) * (points_[step + 1] - points_[step]);
  }
  float middle_of(std::size_t step) const { return (points_[step] + points_[step + 1]) / 2; }

 private:
  std::array<float, steps + 1> points_;
};
const InverseTable& inverse_of(ValueLaw law);

// splitmix64 (Steele, Lea, Flood, OOPSLA 2014): a counter, so that any stream begins anywhere without a
// state.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream);
  std::uint64_t bits() { return mix(state_ += 0x9E3779B97F4A7C15); }
  // Standard normal, from two of 4096 quantiles (0.8² + 0.6² = 1), so that some 2^24 values are possible.
  float normal() {
    if (left_ == 0) {
      pool_ = bits();
      left_ = 2;
    }
    --left_;
    const float value = 0.8F * quantile_[pool_ & 4095] + 0.6F * quantile_[pool_ >> 12 & 4095];
    pool_ >>= 32;
    return value;
  }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }

  std::uint64_t state_;
  std::uint64_t pool_ = 0;
  int left_ = 0;
  const float* quantile_;
};

// Learns where the quantile of an image lies and which rank a value above it has.
class RankMap {
 public:
  // The `zeros` smallest values of `x` lie below threshold(), but for ties.
  void learn(std::span<const float> x, std::size_t zeros);
  float threshold() const { return threshold_; }
  bool all_zero() const { return all_zero_; }
  // Of a value not below the threshold, among all of these: 0 to 1.
  float rank(float x) const {
    const float place = place_of(x);
    const auto bin = static_cast<std::size_t>(place);
    const float u = base_[bin] + (x - left_of(bin)) * slope_[bin];
    return u < 0 ? 0 : u > 1 ? 1 : u;
  }

 private:
  static constexpr std::size_t bins = 16384;
  static constexpr float range = 12;  // far beyond what normal() and the biases reach
  static constexpr float per_unit = static_cast<float>(bins) / (2 * range);

  static float place_of(float x) {
    const float place = (x + range) * per_unit;
    return place < 0 ? 0 : place > static_cast<float>(bins - 1) ? static_cast<float>(bins - 1) : place;
  }
  static float left_of(std::size_t bin) { return static_cast<float>(bin) / per_unit - range; }
  std::size_t bin_of_rank(std::size_t rank, std::size_t* before) const;
  void find_threshold(std::span<const float> x, std::size_t zeros);
  void find_slopes(std::size_t zeros, std::size_t values);

  std::array<std::uint32_t, bins> count_;
  std::array<float, bins> base_;
  std::array<float, bins> slope_;
  std::size_t threshold_bin_ = 0;
  float threshold_ = 0;
  bool all_zero_ = false;
};

// Turns an image into elements.
class ElementWriter {
 public:
  explicit ElementWriter(const ActivationSpec& spec);
  void write(std::span<const float> x, const RankMap& ranks, std::uint64_t image, std::byte* out) const;

 private:
  template <typename Word>
  void write_words(std::span<const float> x, const RankMap& ranks, std::uint64_t image, std::byte* out) const;
  float value(float rank) const;
  std::uint64_t element(float value, Random& random) const;

  const ActivationSpec& spec_;
  const InverseTable& inverse_;
};

}  // namespace terrace::bench
