// The families of policies, one folder or file each; reuse_policies() puts them into one table.
#pragma once

#include <vector>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {

std::vector<ReusePolicy> tflite_policies();     // tflite/: LiteRT's GPU strategies and the CPU arena
std::vector<ReusePolicy> tvm_policies();        // tvm/: unified static memory planner
std::vector<ReusePolicy> allocator_policies();  // allocators/: BFC, PyTorch's caching allocator, simulated
std::vector<ReusePolicy>
framework_policies();  // frameworks/: MXNet, MegEngine, ONNX Runtime, XLA, colouring, parallel-safe
std::vector<ReusePolicy> search_policies();   // search/: exact search (MiniMalloc's kind)
std::vector<ReusePolicy> terrace_policies();  // portfolio/: ours

}  // namespace terrace::planner
