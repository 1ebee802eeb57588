// What terrace_gpu.h's callers hold.
#pragma once

#include <memory>

#include "liballoc/gpu/offload/engine/engine.h"

struct terrace_offload {
  std::unique_ptr<terrace::liballoc::offload::Engine> engine;
};
