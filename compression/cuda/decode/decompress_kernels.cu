// decompress()'s kernels. The register budget follows from a CTA's threads, so each number of threads is a
// kernel.
#include "compression/cuda/decode/decompress.cuh"
#include "compression/cuda/launch.cuh"

namespace terrace::compression::cuda {
namespace {

template <unsigned threads>
__global__ void __launch_bounds__(threads, resident<threads>)
    decompress_kernel(const __grid_constant__ Work<Target> work) {
  decompress_blocks(work);
}

__global__ void __launch_bounds__(prepare_threads)
    prepare_decompress_kernel(const __grid_constant__ Work<Target> work) {
  prepare_decompress(work);
}

__global__ void __launch_bounds__(prepare_threads)
    prepare_lone_decompress_kernel(const __grid_constant__ Target tensor, Lone<Target>* lone, u64* ns,
                                   const __grid_constant__ Work<Target> work) {
  begin_lone(tensor, *lone, ns);
  prepare_decompress(work);
}

Kernel<Target> kernel_of(unsigned threads) {
  switch (threads) {
    case 128:
      return decompress_kernel<128>;
    case 256:
      return decompress_kernel<256>;
    case 512:
      return decompress_kernel<512>;
    default:
      return nullptr;
  }
}

}  // namespace

unsigned resident_decompress_ctas(unsigned threads) {
  return resident_ctas(kernel_of(threads), threads, sizeof(DecodeShared));
}

Status decompress(const Batch<Target>& batch, const Launch& launch, Stream stream) {
  if (batch.count == 0) return Status::ok;
  if (const Status status = check_batch(batch, launch); status != Status::ok) return status;
  const Work<Target> work = work_of(batch);
  prepare_decompress_kernel<<<ctas_for(batch.count, launch.decompress_ctas), prepare_threads,
                              sizeof(CheckShared), stream>>>(work);
  return launch_main(work, kernel_of(launch.threads), sizeof(DecodeShared), launch.threads,
                     launch.decompress_ctas, stream);
}

Status decompress_lone(const Target& target, const LoneMemory& memory, const Launch& launch, Stream stream) {
  Work<Target> work;
  if (const Status status = lone_work(target, memory, launch, work); status != Status::ok) return status;
  auto* lone = static_cast<Lone<Target>*>(memory.scratch);
  prepare_lone_decompress_kernel<<<1, prepare_threads, sizeof(CheckShared), stream>>>(
      target, lone, &memory.verdict->ns, work);
  return launch_main(work, kernel_of(launch.threads), sizeof(DecodeShared), launch.threads,
                     launch.decompress_ctas, stream);
}

}  // namespace terrace::compression::cuda
