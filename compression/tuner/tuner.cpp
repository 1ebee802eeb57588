#include "compression/tuner/tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "compression/tuner/gaussian_process.h"

namespace terrace::compression {
namespace {

constexpr std::size_t most_points = 100'000;

struct Observation {
  std::size_t index;
  double cost;
};

// A space with its points numbered.
class Space {
 public:
  explicit Space(const std::vector<Parameter>& parameters) : parameters_(parameters) {
    for (const Parameter& parameter : parameters_) {
      const std::size_t values = parameter.values.size();
      size_ = values != 0 && size_ <= most_points ? size_ * values : 0;
    }
    if (parameters_.empty()) size_ = 0;
  }

  std::size_t size() const { return size_; }

  Point point(std::size_t index) const {
    Point point;
    for (const Parameter& parameter : parameters_) {
      point.push_back(index % parameter.values.size());
      index /= parameter.values.size();
    }
    return point;
  }

  std::vector<double> coordinates(std::size_t index) const {
    const Point at = point(index);
    std::vector<double> coordinates;
    for (std::size_t i = 0; i < at.size(); ++i) coordinates.push_back(coordinate(parameters_[i], at[i]));
    return coordinates;
  }

 private:
  // From 0 to 1 over the parameter's range.
  static double coordinate(const Parameter& parameter, std::size_t i) {
    const auto scaled = [&](double v) { return parameter.logarithmic && v > 0 ? std::log(v) : v; };
    const double low = scaled(parameter.values.front()), high = scaled(parameter.values.back());
    return high > low ? (scaled(parameter.values[i]) - low) / (high - low) : 0;
  }

  const std::vector<Parameter>& parameters_;
  std::size_t size_ = 1;
};

double squared_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

bool is_observed(const std::vector<Observation>& observed, std::size_t index) {
  return std::any_of(observed.begin(), observed.end(),
                     [&](const Observation& o) { return o.index == index; });
}

// The point farthest from all that were observed; the first one is the middle of the space.
std::size_t farthest(const Space& space, const std::vector<Observation>& observed) {
  const std::vector<double> middle(space.coordinates(0).size(), 0.5);
  std::size_t best = 0;
  double best_distance = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < space.size(); ++i) {
    const std::vector<double> at = space.coordinates(i);
    double nearest =
        observed.empty() ? -squared_distance(at, middle) : std::numeric_limits<double>::infinity();
    for (const Observation& o : observed)
      nearest = std::min(nearest, squared_distance(at, space.coordinates(o.index)));
    if (nearest > best_distance) {
      best_distance = nearest;
      best = i;
    }
  }
  return best;
}

// Something that can run: without it there is nothing to model.
bool is_any_finite(const std::vector<Observation>& observed) {
  return std::any_of(observed.begin(), observed.end(),
                     [](const Observation& o) { return std::isfinite(o.cost); });
}

// What is no number, nor a cost, sorts behind all that is.
double sane(double cost) { return std::isfinite(cost) ? cost : std::numeric_limits<double>::infinity(); }

// Logarithms of the costs, so that a point ten times as slow does not flatten the rest; what cannot run
// counts as twice the slowest. With mean 0 and variance 1.
struct Normalised {
  std::vector<double> values;
  double scale = 1;
};

Normalised normalised(const std::vector<Observation>& observed) {
  double slowest = 0;
  for (const Observation& o : observed)
    if (std::isfinite(o.cost)) slowest = std::max(slowest, o.cost);
  Normalised result;
  double sum = 0, squares = 0;
  for (const Observation& o : observed) {
    result.values.push_back(std::log(std::max(std::isfinite(o.cost) ? o.cost : 2 * slowest, 1e-300)));
    sum += result.values.back();
  }
  const double mean = sum / static_cast<double>(observed.size());
  for (double& value : result.values) {
    value -= mean;
    squares += value * value;
  }
  result.scale = std::max(std::sqrt(squares / static_cast<double>(observed.size())), 1e-9);
  for (double& value : result.values) value /= result.scale;
  return result;
}

// How much less than `best` a prediction may be expected to come out (Jones et al., equation 15).
double expected_improvement(const GaussianProcess::Prediction& at, double best) {
  if (at.deviation <= 0) return std::max(best - at.mean, 0.0);
  const double z = (best - at.mean) / at.deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  const double below = std::erfc(-z / std::numbers::sqrt2) / 2;
  return (best - at.mean) * below + at.deviation * density;
}

struct Candidate {
  std::size_t index = 0;
  double improvement = -1;  // as a share of the best cost
};

Candidate most_promising(const Space& space, const std::vector<Observation>& observed) {
  const Normalised values = normalised(observed);
  std::vector<std::vector<double>> inputs;
  inputs.reserve(observed.size());
  for (const Observation& o : observed) inputs.push_back(space.coordinates(o.index));
  const GaussianProcess process(inputs, values.values);
  // Against the best expected mean: the best observation may owe its place to noise.
  double best = std::numeric_limits<double>::infinity();
  for (const auto& input : inputs) best = std::min(best, process.at(input).mean);
  Candidate candidate;
  for (std::size_t i = 0; i < space.size(); ++i) {
    if (is_observed(observed, i)) continue;
    const double improvement = expected_improvement(process.at(space.coordinates(i)), best) * values.scale;
    if (improvement > candidate.improvement) candidate = {i, improvement};
  }
  return candidate;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Measures the few best points again: noise may have reordered them.
std::optional<Tuned> confirmed(const Space& space, std::vector<Observation> observed, const Cost& cost,
                               std::size_t times) {
  constexpr std::size_t finalists = 5;
  const std::size_t trials = observed.size();
  std::sort(observed.begin(), observed.end(), [](const auto& a, const auto& b) { return a.cost < b.cost; });
  Tuned tuned{{}, std::numeric_limits<double>::infinity(), trials};
  for (std::size_t i = 0; i < std::min(finalists, observed.size()); ++i) {
    std::vector<double> costs = {observed[i].cost};
    if (!std::isfinite(observed[i].cost)) break;
    for (std::size_t k = 0; k < times; ++k) costs.push_back(sane(cost(space.point(observed[i].index))));
    // Without the first measurement, which was chosen for being low.
    if (costs.size() > 1) costs.erase(costs.begin());
    const double typical = median(costs);
    if (typical < tuned.cost) tuned = {space.point(observed[i].index), typical, trials};
  }
  if (!std::isfinite(tuned.cost)) return std::nullopt;  // it ran once, and then no more
  return tuned;
}

}  // namespace

std::optional<Tuned> tune(const std::vector<Parameter>& parameters, const Cost& cost,
                          const TunerOptions& options) {
  const Space space(parameters);
  if (space.size() == 0 || space.size() > most_points) return std::nullopt;
  const std::size_t most = std::min(std::max<std::size_t>(options.most_trials, 1), space.size());
  std::vector<Observation> observed;
  const auto observe = [&](std::size_t index) {
    observed.push_back({index, sane(cost(space.point(index)))});
  };
  const std::size_t first = std::min(std::max<std::size_t>(options.first_trials, 1), most);
  while (observed.size() < first || (observed.size() < most && !is_any_finite(observed)))
    observe(farthest(space, observed));
  while (observed.size() < most) {
    const Candidate next = most_promising(space, observed);
    if (next.improvement < options.enough_improvement) break;
    observe(next.index);
  }
  return confirmed(space, observed, cost, options.confirmations);
}

}  // namespace terrace::compression
