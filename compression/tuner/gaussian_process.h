// A Gaussian process on a few points: what to expect at the others, and how surely (Rasmussen and Williams,
// "Gaussian Processes for Machine Learning", MIT Press 2006, chapters 2 and 5).
//
// The kernel is Matérn 5/2, whose functions bend once or twice between the edges of a space, as the cost of a
// launch geometry does. Its length scale and the share of noise are those, of a few, under which the
// observations are likeliest. Observations are expected to be normalised: mean 0, variance 1.
#pragma once

#include <cstddef>
#include <vector>

namespace terrace::compression {

class GaussianProcess {
 public:
  // Inputs of equal length, with coordinates from 0 to 1; one observation each. A length scale is of the
  // whole range.
  GaussianProcess(std::vector<std::vector<double>> inputs, const std::vector<double>& observations);

  struct Prediction {
    double mean, deviation;
  };
  Prediction at(const std::vector<double>& input) const;
  double noise() const { return noise_; }  // the deviation of an observation

 private:
  // Factors the covariance; returns the log likelihood, or minus infinity where it is singular.
  double fit(const std::vector<double>& observations, double length, double noise);
  double covariance(const std::vector<double>& a, const std::vector<double>& b) const;
  std::vector<double> solve_lower(std::vector<double> b) const;
  std::vector<double> solve_upper(std::vector<double> b) const;
  double& factor(std::size_t row, std::size_t column) { return factor_[row * inputs_.size() + column]; }
  double factor(std::size_t row, std::size_t column) const { return factor_[row * inputs_.size() + column]; }

  std::vector<std::vector<double>> inputs_;
  double length_ = 1, noise_ = 0;
  std::vector<double> factor_;   // lower triangle L of the covariance, L Lᵀ
  std::vector<double> weights_;  // covariance⁻¹ observations
};

}  // namespace terrace::compression
