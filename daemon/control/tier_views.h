// What jobs have of the pool, of the bytes of a day and of GPUs, as JSON: part of control_views.cpp's
// answers, under the names of the keys in terraced.toml.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "daemon/control/control.h"

namespace terrace::daemon {

// Of a job: what the pool promised it, what is said of it of each of these, and its heaps on GPUs.
void put_tiers(nlohmann::json& object, const ControlContext& context, const JobKey& job,
               const std::vector<const Session*>& processes);

// A tier for each device on which there is a heap.
void add_gpus(nlohmann::json& tiers, const GpuShares& gpu);

}  // namespace terrace::daemon
