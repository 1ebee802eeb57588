// A placement as people look at it: every buffer a rectangle, time to the right, addresses upwards, coloured
// by the tensors' kinds, or by size where all are of one kind. White is memory that nobody uses.
//
// Buffers of less than a pixel are summed up (density.h), so that 60,000 of them stay readable and the SVG
// small.
#pragma once

#include <string>
#include <vector>

#include "daemon/planner/reuse/instance.h"
#include "liballoc/wire/result.h"

namespace terrace::plot {

struct PlacementPicture {
  const planner::Instance* instance = nullptr;    // with its trace, if there is one
  const planner::Placement* placement = nullptr;  // a valid one
  std::string policy;
};

// PREFIX.svg and PREFIX.png.
Result<std::vector<std::string>> plot_placement(const std::string& prefix, const PlacementPicture& picture);

}  // namespace terrace::plot
