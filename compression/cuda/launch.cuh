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

// The second launch of a call, on the blocks.
template <typename Tensor>
Status launch_main(const Work<Tensor>& work, Kernel<Tensor> main, std::size_t shared_bytes, unsigned threads,
                   unsigned ctas, Stream stream) {
  main<<<ctas_for(work.blocks, ctas), threads, shared_bytes, stream>>>(work);
  return cudaPeekAtLastError() == cudaSuccess ? Status::ok : Status::launch_failed;
}

inline constexpr std::size_t lone_front_bytes =
    to_unit(sizeof(Lone<Source>) > sizeof(Lone<Target>) ? sizeof(Lone<Source>) : sizeof(Lone<Target>));

// The work on one tensor that comes with the call: its description, in front of the scratch memory, is
// written by the first kernel, its verdict by whoever finishes it, where the host reads it. So nothing is
// copied before or behind, which would queue for the link behind copies of whole tensors.
template <typename Tensor>
Status lone_work(const Tensor& tensor, const LoneMemory& memory, const Launch& launch, Work<Tensor>& work) {
  if (memory.verdict == nullptr || memory.scratch_bytes < lone_front_bytes) return Status::bad_batch;
  auto* lone = static_cast<Lone<Tensor>*>(memory.scratch);
  const Batch<Tensor> batch{&lone->tensor,
                            1,
                            (tensor.content_bytes + block_bytes - 1) / block_bytes,
                            &memory.verdict->result,
                            static_cast<u8*>(memory.scratch) + lone_front_bytes,
                            memory.scratch_bytes - lone_front_bytes};
  if (const Status status = check_batch(batch, launch); status != Status::ok) return status;
  work = work_of(batch);
  work.timing = &lone->timing;
  return Status::ok;
}

// CTAs of a geometry that fill a multiprocessor; 0 where there are none. In compress_kernels.cu,
// decompress_kernels.cu.
unsigned resident_compress_ctas(unsigned threads);
unsigned resident_decompress_ctas(unsigned threads);

}  // namespace terrace::compression::cuda
