// libterrace_gpu.so, opened at the first allocation: this library is preloaded into every program of a job,
// most of which never touch a GPU, and must cost them nothing.
#pragma once

#include <cstdint>

#include "liballoc/gpu/terrace_gpu.h"

namespace terrace::liballoc::gpu {

struct HeapLibrary {
  decltype(&terrace_gpu_alloc) allocate = nullptr;
  decltype(&terrace_gpu_free) release = nullptr;
  decltype(&terrace_gpu_end_stream) end_stream = nullptr;
  decltype(&terrace_gpu_get_statistics) statistics = nullptr;
};

// TERRACE_GPU and what may stand against it, read once: the first answer stays. False: not asked for, or
// refused with one line on standard error that names the reason.
bool heap_is_wanted();
// "emulated:…": the heap's memory is the host's, and there may be no driver to ask anything.
bool heap_is_emulated();
// The CUDA device that is the heap's number 0: 1 for TERRACE_GPU=cuda:1.
int first_device();
// The emulated device's capacity; 0 where it is not known.
std::uint64_t emulated_capacity_bytes();
// nullptr after one line that says what is missing. Thread-safe.
const HeapLibrary* heap_library();

}  // namespace terrace::liballoc::gpu
