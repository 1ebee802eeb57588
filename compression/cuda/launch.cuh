// What launching a kernel of a given number of threads takes, for compress_kernels.cu and
// decompress_kernels.cu.
#pragma once

#include <cuda_runtime.h>

#include "compression/cuda/check_call.cuh"

namespace terrace::compression::cuda {

inline constexpr unsigned prepare_threads = 256;

// CTAs that the registers have to suffice for: three, as shared memory does, but two of 512 threads, which
// would have 40 registers each otherwise.
template <unsigned threads>
inline constexpr unsigned resident = threads <= 256 ? 3 : 2;

template <typename Tensor>
using Kernel = void (*)(Work<Tensor>);

// Allows a kernel its shared memory, and asks how many of its CTAs a multiprocessor takes; 0 on an error.
template <typename Tensor>
unsigned resident_ctas(Kernel<Tensor> kernel, unsigned threads, std::size_t shared_bytes) {
  const auto bytes = static_cast<int>(shared_bytes);
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess)
    return 0;
  int ctas = 0;
  const cudaError_t error =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, kernel, static_cast<int>(threads), shared_bytes);
  return error == cudaSuccess && ctas > 0 ? static_cast<unsigned>(ctas) : 0;
}

// A batch whose tensors are all empty still has a second kernel: it finishes their frames, or tells of a
// wrong numbering.
inline unsigned ctas_for(std::uint64_t wanted, unsigned most) {
  return wanted < 1 ? 1 : wanted < most ? static_cast<unsigned>(wanted) : most;
}

// The second launch of a call, on the blocks.
template <typename Tensor>
Status launch_main(const Work<Tensor>& work, Kernel<Tensor> main, std::size_t shared_bytes, unsigned threads,
                   unsigned ctas, Stream stream) {
  main<<<ctas_for(work.blocks, ctas), threads, shared_bytes, stream>>>(work);
  return cudaPeekAtLastError() == cudaSuccess ? Status::ok : Status::launch_failed;
}

// CTAs of a geometry that fill a multiprocessor; 0 where there are none. In compress_kernels.cu,
// decompress_kernels.cu.
unsigned resident_compress_ctas(unsigned threads);
unsigned resident_decompress_ctas(unsigned threads);

}  // namespace terrace::compression::cuda
