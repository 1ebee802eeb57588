// The half of plan_run() that is about GPU memory and offloading: --gpu…, --offload…, --writes….
#pragma once

#include <string>

#include "tools/cli/run/run_plan.h"

namespace terrace::cli {

// Checks the options and adds their TERRACE_* variables to the plan. Returns what is wrong and what is
// accepted, or
// "". Looks at PYTORCH_CUDA_ALLOC_CONF, and at nothing else outside of its arguments.
std::string take_gpu_options(const RunOptions& options, const Ceiling& ceiling, RunPlan* plan);

// Whether PyTorch was told to map GPU memory by itself, past cudaMalloc ("expandable_segments:True").
bool asks_for_expandable_segments(const char* configuration);

}  // namespace terrace::cli
