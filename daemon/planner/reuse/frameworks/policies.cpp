#include "daemon/planner/reuse/families.h"
#include "daemon/planner/reuse/frameworks/planners.h"

namespace terrace::planner {

std::vector<ReusePolicy> framework_policies() {
  using namespace frameworks;
  const char* family = "framework";
  const char* megengine = "MegEngine, src/core/impl/graph/var_node_mem_mgr/static_mem_alloc/";
  const char* xla = "XLA, heap_simulator.cc, GlobalDecreasingSizeBestFitHeap";
  return {
      {"mxnet", family, "MXNet, src/nnvm/plan_memory.cc, match range 16", place_mxnet},
      {"mxnet_search", family, "MXNet, the best match range of 1 to 16", place_mxnet_search},
      {"megengine_interval_move", family, megengine, place_interval_move},
      {"megengine_best_fit", family, megengine, place_megengine_best_fit},
      {"megengine_pushdown", family, megengine, place_pushdown},
      {"onnxruntime", family, "ONNX Runtime, core/framework/mem_pattern_planner.h", place_onnxruntime},
      {"xla_spatial", family, xla, place_xla_spatial},
      {"xla_temporal", family, xla, place_xla_temporal},
      {"iree", family, "IREE, Dialect/Stream/Transforms/LayoutSlices.cpp", place_iree},
      {"left_edge", family, "Hashimoto and Stevens, DAC 1971, per size", place_left_edge},
      {"parallel_safe", family, "reuse that adds no dependency (TFLite's ReallocationGraph)",
       place_parallel_safe},
  };
}

}  // namespace terrace::planner
