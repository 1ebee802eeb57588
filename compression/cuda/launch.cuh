// What launching a kernel of a given number of threads takes, for compress_kernels.cu and
// decompress_kernels.cu.
#pragma once

#include <cuda_runtime.h>

#include "compression/cuda/batch.cuh"

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

template <typename Tensor>
Status check_batch(const Batch<Tensor>& batch, const Launch& launch) {
  if (launch.compress_ctas == 0 || launch.decompress_ctas == 0) return Status::bad_geometry;
  if (batch.tensors == nullptr || batch.results == nullptr || batch.blocks >= 0xffffffff)
    return Status::bad_batch;
  if (batch.scratch == nullptr || reinterpret_cast<std::uintptr_t>(batch.scratch) % 16 != 0)
    return Status::bad_batch;
  return batch.scratch_bytes < scratch_bytes(batch.count, batch.blocks) ? Status::scratch_small : Status::ok;
}

template <typename Tensor>
Work<Tensor> work_of(const Batch<Tensor>& batch) {
  return {batch.tensors, batch.results, scratch_at(batch.scratch, batch.count, batch.blocks), batch.count,
          static_cast<u32>(batch.blocks)};
}

// A batch whose tensors are all empty still has a second kernel: it finishes their frames, or tells of a
// wrong numbering.
inline unsigned ctas_for(std::uint64_t wanted, unsigned most) {
  return wanted < 1 ? 1 : wanted < most ? static_cast<unsigned>(wanted) : most;
}

// Two launches: `prepare`, then `main` on the blocks.
template <typename Tensor>
Status launch_both(const Batch<Tensor>& batch, Kernel<Tensor> prepare, std::size_t prepare_bytes,
                   Kernel<Tensor> main, std::size_t main_bytes, unsigned threads, unsigned ctas,
                   Stream stream) {
  const Work<Tensor> work = work_of(batch);
  prepare<<<ctas_for(batch.count, ctas), prepare_threads, prepare_bytes, stream>>>(work);
  main<<<ctas_for(batch.blocks, ctas), threads, main_bytes, stream>>>(work);
  return cudaPeekAtLastError() == cudaSuccess ? Status::ok : Status::launch_failed;
}

// CTAs of a geometry that fill a multiprocessor; 0 where there are none. In compress_kernels.cu,
// decompress_kernels.cu.
unsigned resident_compress_ctas(unsigned threads);
unsigned resident_decompress_ctas(unsigned threads);

}  // namespace terrace::compression::cuda
