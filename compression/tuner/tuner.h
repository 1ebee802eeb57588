// Finds the launch geometry of a GPU kernel by Bayesian optimisation, as CSWAP does (Chen et al., CLUSTER
// 2021), and remembers it for each device.
//
// A space is a few parameters with a few values each; a cost function measures one point (the time of a
// launch, with its noise). A Gaussian process over the points measured so far says for every other point what
// cost to expect and how certain that is; the point with the largest expected improvement over the best one
// is measured next (Jones, Schonlau and Welch, "Efficient Global Optimization", J. Global Optimization 13,
// 1998). Of the 192 points of tests/compression/tuner_test.cpp 20 to 40 are measured. The search is
// deterministic but for the cost.
//
// Throws nothing but what the cost function throws. No function here is for a hot path.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace terrace::compression {

struct Parameter {
  std::string name;
  std::vector<double> values;  // ascending
  bool logarithmic = true;     // distances are those of the logarithms: 128, 256, 512 are evenly spaced
};

// An index into each parameter's values.
using Point = std::vector<std::size_t>;

// The cost of a point; infinite, or no number, where it cannot run at all.
using Cost = std::function<double(const Point&)>;

struct TunerOptions {
  std::size_t first_trials = 6;  // spread over the space before the model is asked; more if none can run
  std::size_t most_trials = 40;  // points measured, repetitions not counted
  double enough_improvement = 0.00003;  // ends when no point promises more, as a share of the best cost
  std::size_t confirmations =
      5;  // measurements of each of the best points at the end, which noise may have reordered
};

struct Tuned {
  Point best;
  double cost = 0;         // the median of its measurements
  std::size_t trials = 0;  // points measured
};

// Nothing if the space is empty, above 100,000 points, or no point measured has a finite cost.
std::optional<Tuned> tune(const std::vector<Parameter>& space, const Cost& cost,
                          const TunerOptions& options = {});

// What was found, by the device's name: a JSON file
//
//   {"version": 1, "geometries": {"NVIDIA H200": {"threads": 256, "ctas_per_unit": 3, "cost": 12.5}}}
//
// that is checked when read and replaced as a whole when written, with the mode that it had. Names are UTF-8.
using Geometries = std::map<std::string, std::map<std::string, double>>;

struct StoreError {
  std::string message;  // names the file and what to do about it
};

// A file that is not there holds nothing. Another's file, a damaged one, or one above 1 MiB is an error.
std::optional<StoreError> read_geometries(const std::string& path, Geometries& geometries);
// Adds one device's, or replaces it. A file that cannot be read is not overwritten. Others that do the same
// are waited for.
std::optional<StoreError> remember_geometry(const std::string& path, const std::string& device,
                                            const std::map<std::string, double>& geometry);

}  // namespace terrace::compression
