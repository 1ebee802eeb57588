// The planners behind framework_policies(), one file each.
#pragma once

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner::frameworks {

Result<Placement> place_mxnet(const Instance& instance, const SearchControl& control);
Result<Placement> place_mxnet_search(const Instance& instance, const SearchControl& control);
Result<Placement> place_interval_move(const Instance& instance, const SearchControl& control);
Result<Placement> place_megengine_best_fit(const Instance& instance, const SearchControl& control);
Result<Placement> place_pushdown(const Instance& instance, const SearchControl& control);
Result<Placement> place_onnxruntime(const Instance& instance, const SearchControl& control);
Result<Placement> place_xla_spatial(const Instance& instance, const SearchControl& control);
Result<Placement> place_xla_temporal(const Instance& instance, const SearchControl& control);
Result<Placement> place_iree(const Instance& instance, const SearchControl& control);
Result<Placement> place_left_edge(const Instance& instance, const SearchControl& control);
Result<Placement> place_parallel_safe(const Instance& instance, const SearchControl& control);

// What MXNet's allocator does with a match range (0: nothing is shared).
Objects mxnet_objects(const Instance& instance, const std::vector<std::uint64_t>& bytes,
                      std::uint64_t match_range);

}  // namespace terrace::planner::frameworks
