// compress()'s kernels. The register budget follows from a CTA's threads, so each number of threads is a
// kernel.
#include "compression/cuda/encode/compress.cuh"
#include "compression/cuda/launch.cuh"

namespace terrace::compression::cuda {
namespace {

template <unsigned threads>
__global__ void __launch_bounds__(threads, resident<threads>)
    compress_kernel(const __grid_constant__ Work<Source> work) {
  compress_blocks(work);
}

__global__ void __launch_bounds__(prepare_threads)
    prepare_compress_kernel(const __grid_constant__ Work<Source> work) {
  prepare_compress(work);
}

__global__ void __launch_bounds__(prepare_threads)
    prepare_lone_compress_kernel(const __grid_constant__ Source tensor, Lone<Source>* lone, u64* ns,
                                 const __grid_constant__ Work<Source> work) {
  begin_lone(tensor, *lone, ns);
  prepare_compress(work);
}

Kernel<Source> kernel_of(unsigned threads) {
  switch (threads) {
    case 128:
      return compress_kernel<128>;
    case 256:
      return compress_kernel<256>;
    case 512:
      return compress_kernel<512>;
    default:
      return nullptr;
  }
}

}  // namespace

unsigned resident_compress_ctas(unsigned threads) {
  return resident_ctas(kernel_of(threads), threads, sizeof(EncodeShared));
}

Status compress(const Batch<Source>& batch, const Launch& launch, Stream stream) {
  if (batch.count == 0) return Status::ok;
  if (const Status status = check_batch(batch, launch); status != Status::ok) return status;
  const Work<Source> work = work_of(batch);
  prepare_compress_kernel<<<ctas_for(batch.count, launch.compress_ctas), prepare_threads, 0, stream>>>(work);
  return launch_main(work, kernel_of(launch.threads), sizeof(EncodeShared), launch.threads,
                     launch.compress_ctas, stream);
}

Status compress_lone(const Source& source, const LoneMemory& memory, const Launch& launch, Stream stream) {
  Work<Source> work;
  if (const Status status = lone_work(source, memory, launch, work); status != Status::ok) return status;
  auto* lone = static_cast<Lone<Source>*>(memory.scratch);
  prepare_lone_compress_kernel<<<1, prepare_threads, 0, stream>>>(source, lone, &memory.verdict->ns, work);
  return launch_main(work, kernel_of(launch.threads), sizeof(EncodeShared), launch.threads,
                     launch.compress_ctas, stream);
}

}  // namespace terrace::compression::cuda
