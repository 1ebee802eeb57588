// The functions that libterrace_gpu_preload.so stands in front of, as their callers know them, and their
// table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "liballoc/gpu/preload/cuda_abi.h"
#include "liballoc/gpu/preload/heap_library.h"

extern "C" {

TERRACE_API int cudaMalloc(void** out, std::size_t bytes);
TERRACE_API int cudaFree(void* block);
TERRACE_API int cudaMallocAsync(void** out, std::size_t bytes, void* stream);
TERRACE_API int cudaMallocAsync_ptsz(void** out, std::size_t bytes, void* stream);
TERRACE_API int cudaFreeAsync(void* block, void* stream);
TERRACE_API int cudaFreeAsync_ptsz(void* block, void* stream);
TERRACE_API int cudaMallocFromPoolAsync(void** out, std::size_t bytes, void* pool, void* stream);
TERRACE_API int cudaMallocFromPoolAsync_ptsz(void** out, std::size_t bytes, void* pool, void* stream);
TERRACE_API int cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes);
TERRACE_API int cudaStreamDestroy(void* stream);
TERRACE_API int cudaGetLastError();
TERRACE_API int cudaPeekAtLastError();
TERRACE_API int cudaGetDriverEntryPoint(const char* symbol, void** out, unsigned long long flags,
                                        int* status);
TERRACE_API int cudaGetDriverEntryPoint_ptsz(const char* symbol, void** out, unsigned long long flags,
                                             int* status);
TERRACE_API int cudaGetDriverEntryPointByVersion(const char* symbol, void** out, unsigned version,
                                                 unsigned long long flags, int* status);
TERRACE_API int cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** out, unsigned version,
                                                      unsigned long long flags, int* status);

TERRACE_API int cuMemAlloc_v2(unsigned long long* out, std::size_t bytes);
TERRACE_API int cuMemFree_v2(unsigned long long block);
TERRACE_API int cuMemAllocAsync(unsigned long long* out, std::size_t bytes, void* stream);
TERRACE_API int cuMemAllocAsync_ptsz(unsigned long long* out, std::size_t bytes, void* stream);
TERRACE_API int cuMemFreeAsync(unsigned long long block, void* stream);
TERRACE_API int cuMemFreeAsync_ptsz(unsigned long long block, void* stream);
TERRACE_API int cuStreamDestroy_v2(void* stream);
TERRACE_API int cuGetProcAddress(const char* symbol, void** out, int version, std::uint64_t flags);
TERRACE_API int cuGetProcAddress_v2(const char* symbol, void** out, int version, std::uint64_t flags,
                                    int* status);

}  // extern "C"

namespace terrace::liballoc::gpu {

struct Hook {
  const char* name;
  const void* function;
};

// Those that allocate and free: what the self-test looks for in a program.
std::span<const Hook> allocation_hooks();

// The driver function of ours that stands for `symbol` ("cuMemAlloc") of that CUDA version (12030: 12.3), or
// nullptr.
const void* driver_hook(const char* symbol, int version, std::uint64_t flags);

}  // namespace terrace::liballoc::gpu
