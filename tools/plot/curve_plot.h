// Step time over memory: what a budget costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "liballoc/wire/result.h"

namespace terrace::plot {

struct CurvePoint {
  std::uint64_t budget_bytes = 0;
  double step_us = 0;
};

struct CurvePicture {
  std::string title;
  std::vector<CurvePoint> points;           // by budget, smallest first; at least one
  double compute_us = 0;                    // computing alone: no step is faster
  std::optional<CurvePoint> measured = {};  // of a program that ran
};

// PREFIX.svg and PREFIX.png.
Result<std::vector<std::string>> plot_curve(const std::string& prefix, const CurvePicture& picture);

}  // namespace terrace::plot
