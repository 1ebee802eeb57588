// The little of CUDA's binary interface that the hooks stand in front of, written down here so that the
// library builds where no CUDA toolkit is. Source: CUDA Runtime API and CUDA Driver API reference
// manuals, 13.0 (error codes: section "Data types used by CUDA Runtime", cudaError, and cuda.h, CUresult).
// The two interfaces have used the same numbers for these errors since CUDA 10.1.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::liballoc::gpu {

using CudaStream = void*;                  // cudaStream_t, CUstream
using CudaPool = void*;                    // cudaMemPool_t
using DevicePointer = unsigned long long;  // CUdeviceptr

enum CudaError : int {
  cuda_success = 0,
  cuda_invalid_value = 1,
  cuda_out_of_memory = 2,
  cuda_insufficient_driver = 35,
  cuda_no_device = 100,
  cuda_not_supported = 801,
  cuda_capture_unsupported = 900,
};

// cudaStreamLegacy, and cudaStreamPerThread behind it (handles that stand for streams).
inline const CudaStream legacy_stream = reinterpret_cast<CudaStream>(std::uintptr_t{1});      // NOLINT
inline const CudaStream per_thread_stream = reinterpret_cast<CudaStream>(std::uintptr_t{2});  // NOLINT

// Flag of cuGetProcAddress and cudaGetDriverEntryPoint: functions whose stream 0 is the thread's own.
inline constexpr std::uint64_t per_thread_entry_points = 2;

}  // namespace terrace::liballoc::gpu
