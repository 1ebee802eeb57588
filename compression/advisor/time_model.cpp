#include "compression/advisor/time_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <iterator>

namespace terrace::compression {
namespace {

// Found by replaying measurements of four codecs from 64 KiB to 256 MiB; none of them is critical to a factor
// of two.
constexpr double first_variance = 0.5;   // of a coefficient: 70%
constexpr double alike = 0.6;            // correlation of what a byte takes at different fractions
constexpr double drift_variance = 1e-4;  // of a coefficient from one observation to the next: 1%
constexpr double least_coefficient = 0.02;
constexpr double first_spread = 0.05;
constexpr double least_spread = 0.02;
constexpr double step_to_spread = 0.886;  // half the square root of pi: mean difference of two normal errors
constexpr double outlier_spreads = 4;     // so many times the usual spread is not believed at once
constexpr std::uint32_t trusting = 3;     // the first observations are taken as they are
constexpr int believed_in_a_row = 4;
constexpr double wildest = 64;       // no single observation counts as more than so many times the prediction
constexpr double longest_ns = 1e18;  // 30 years

double sane_share(double share) { return share >= 0 && share <= 1 ? share : 1; }

}  // namespace

TimeFit::TimeFit() : covariance_{}, spread_(first_spread) {
  std::fill(std::begin(coefficient_), std::end(coefficient_), 1);
  rescale(1);
}

void TimeFit::take_over(const TimeFit& other) {
  scale_ = other.scale_;
  std::copy(std::begin(other.coefficient_), std::end(other.coefficient_), coefficient_);
  spread_ = std::max(other.spread_, least_spread);
}

TimeFit::Row TimeFit::row(const TimePrior& prior, Work work) const {
  const double c = sane_share(work.fraction);
  const double moved = scale_ * prior.byte_ns * static_cast<double>(work.bytes);
  Row row{{scale_ * prior.call_ns}};
  for (int i = 0; i < knots; ++i) row.x[1 + i] = moved * std::max(0.0, 1 - std::abs(c * (knots - 1) - i));
  return row;
}

double TimeFit::value(const Row& row) const {
  double sum = 0;
  for (int i = 0; i < terms; ++i) sum += coefficient_[i] * row.x[i];
  return std::clamp(sum, 1e-3, longest_ns);
}

double TimeFit::predict_ns(const TimePrior& prior, Work work) const { return value(row(prior, work)); }

// How much of an error to believe, from 0 to 1; keeps the count of outliers and the usual spread. The latter
// comes from differences of errors in a row: a model that lags behind a drift must not take its lag for
// noise.
double TimeFit::trust(double error) {
  const double limit = outlier_spreads * std::max(spread_, least_spread);
  const double step = std::abs(error - last_error_);
  spread_ += 0.1 * (step_to_spread * std::min(step, limit) - spread_);
  last_error_ = error;
  if (std::abs(error) <= limit || observations_ < trusting) {
    far_off_ = 0;
    return 1;
  }
  far_off_ = error > 0 ? std::max(far_off_, 0) + 1 : std::min(far_off_, 0) - 1;
  return limit / std::abs(error);
}

void TimeFit::observe(const TimePrior& prior, Work work, double ns) {
  const double ratio = std::clamp(ns / predict_ns(prior, work), 1 / wildest, wildest);
  double believed = trust(ratio - 1);
  double error = ratio - 1;
  if (observations_ == 0 || std::abs(far_off_) >= believed_in_a_row) {
    rescale(ratio);
    error = 0;
    believed = 1;
  }
  Row x = row(prior, work);
  const double expected = value(x);
  for (double& term : x.x) term /= expected;
  drift();
  correct(x, error, std::pow(std::max(spread_, least_spread), 2) / believed);
  if (observations_ < UINT32_MAX) ++observations_;
}

// The first observation, and several of another level: the shape over fractions stays, but nothing is
// certain.
void TimeFit::rescale(double ratio) {
  scale_ = std::clamp(scale_ * ratio, 1e-9, 1e9);
  far_off_ = 0;
  last_error_ = 0;
  for (int i = 0; i < terms; ++i)
    for (int j = 0; j < terms; ++j)
      covariance_[i][j] = first_variance * (i == j ? 1 : i == 0 || j == 0 ? 0 : alike);
}

void TimeFit::correct(const Row& row, double error, double noise_variance) {
  double gain[terms];
  double variance = noise_variance;
  for (int i = 0; i < terms; ++i) {
    gain[i] = 0;
    for (int j = 0; j < terms; ++j) gain[i] += covariance_[i][j] * row.x[j];
    variance += row.x[i] * gain[i];
  }
  for (int i = 0; i < terms; ++i)
    coefficient_[i] = std::max(least_coefficient, coefficient_[i] + gain[i] / variance * error);
  for (int i = 0; i < terms; ++i)
    for (int j = 0; j < terms; ++j) covariance_[i][j] -= gain[i] * gain[j] / variance;
}

// Certainty fades, but never below that of the beginning.
void TimeFit::drift() {
  for (int i = 0; i < terms; ++i)
    if (covariance_[i][i] < first_variance) covariance_[i][i] += drift_variance;
}

int TimeModel::range_of(std::uint64_t bytes) {
  if (bytes == 0) return 0;
  return std::clamp((static_cast<int>(std::bit_width(bytes - 1)) - 15) / 2, 0, ranges - 1);
}

int TimeModel::nearest_observed(int range) const {
  for (int distance = 0; distance < ranges; ++distance)
    for (const int i : {range + distance, range - distance})
      if (i >= 0 && i < ranges && fits_[i].observations() > 0) return i;
  return range;
}

double TimeModel::predict_ns(Work work) const {
  return std::max(1.0, fits_[nearest_observed(range_of(work.bytes))].predict_ns(prior_, work));
}

void TimeModel::observe(Work work, double ns) {
  if (work.bytes == 0 || !std::isfinite(ns) || ns <= 0) return;
  const int range = range_of(work.bytes);
  const int nearest = nearest_observed(range);
  if (nearest != range) fits_[range].take_over(fits_[nearest]);
  fits_[range].observe(prior_, work, ns);
}

std::uint32_t TimeModel::observations(std::uint64_t bytes) const {
  return fits_[range_of(bytes)].observations();
}

}  // namespace terrace::compression
