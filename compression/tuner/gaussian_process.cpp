#include "compression/tuner/gaussian_process.h"

#include <cmath>
#include <limits>

namespace terrace::compression {
namespace {

constexpr double lengths[] = {0.15, 0.3, 0.5, 0.8, 1.3, 2.0};
constexpr double noises[] = {0.01, 0.03, 0.1, 0.3};

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

}  // namespace

GaussianProcess::GaussianProcess(std::vector<std::vector<double>> inputs,
                                 const std::vector<double>& observations)
    : inputs_(std::move(inputs)) {
  double best = -std::numeric_limits<double>::infinity(), best_length = lengths[0], best_noise = noises[0];
  for (const double length : lengths)
    for (const double noise : noises)
      if (const double likelihood = fit(observations, length, noise); likelihood > best) {
        best = likelihood;
        best_length = length;
        best_noise = noise;
      }
  fit(observations, best_length, best_noise);
}

double GaussianProcess::covariance(const std::vector<double>& a, const std::vector<double>& b) const {
  const double r = std::sqrt(5.0) * distance(a, b) / length_;
  return (1 + r + r * r / 3) * std::exp(-r);
}

double GaussianProcess::fit(const std::vector<double>& observations, double length, double noise) {
  length_ = length;
  noise_ = noise;
  const std::size_t n = inputs_.size();
  factor_.assign(n * n, 0);
  double likelihood = 0;
  for (std::size_t row = 0; row < n; ++row)
    for (std::size_t column = 0; column <= row; ++column) {
      double sum = covariance(inputs_[row], inputs_[column]) + (row == column ? noise * noise : 0);
      for (std::size_t k = 0; k < column; ++k) sum -= factor(row, k) * factor(column, k);
      if (row == column && sum <= 0) return -std::numeric_limits<double>::infinity();
      factor(row, column) = row == column ? std::sqrt(sum) : sum / factor(column, column);
      if (row == column) likelihood -= std::log(factor(row, row));
    }
  weights_ = solve_upper(solve_lower(observations));
  for (std::size_t i = 0; i < n; ++i) likelihood -= observations[i] * weights_[i] / 2;
  return likelihood;
}

std::vector<double> GaussianProcess::solve_lower(std::vector<double> b) const {
  for (std::size_t row = 0; row < b.size(); ++row) {
    for (std::size_t k = 0; k < row; ++k) b[row] -= factor(row, k) * b[k];
    b[row] /= factor(row, row);
  }
  return b;
}

std::vector<double> GaussianProcess::solve_upper(std::vector<double> b) const {
  for (std::size_t row = b.size(); row-- > 0;) {
    for (std::size_t k = row + 1; k < b.size(); ++k) b[row] -= factor(k, row) * b[k];
    b[row] /= factor(row, row);
  }
  return b;
}

GaussianProcess::Prediction GaussianProcess::at(const std::vector<double>& input) const {
  std::vector<double> near(inputs_.size());
  double mean = 0;
  for (std::size_t i = 0; i < near.size(); ++i) {
    near[i] = covariance(input, inputs_[i]);
    mean += near[i] * weights_[i];
  }
  double variance = 1;
  for (const double v : solve_lower(near)) variance -= v * v;
  return {mean, std::sqrt(std::max(variance, 0.0))};
}

}  // namespace terrace::compression
