// TERRACE_GPU_SELFTEST=1: says on standard error, one line for each program and library that allocates GPU
// memory, whether its calls reach Terrace. A preload is not seen by a CUDA runtime that is linked in
// (cudart_static), nor by a library opened with RTLD_DEEPBIND; and nothing would look wrong, but for memory
// that Terrace does not manage.
//
// Said when the process starts, of what it starts with, and at its end, of what it loaded since; then also
// how many allocations Terrace served. A process that does not end through exit() says the first part only.
#pragma once

#include <string>
#include <vector>

#include "liballoc/gpu/preload/loaded_object.h"

namespace terrace::liballoc::gpu {

enum class Phase { start, end };

// The line about one object, without prefix and line end; "" when it has nothing to do with CUDA.
std::string verdict_on(const LoadedObject& object, Phase phase);

}  // namespace terrace::liballoc::gpu
