// One tensor a call, its description brought along as a kernel's argument, its verdict written to where the
// host reads it: no copy before or behind, which would queue for the link behind copies of whole tensors.
//
//   begin: description ─► scratch, time      prepare, main (compress, decompress)      end: verdict, time ─►
//   host
#include "compression/cuda/launch.cuh"

namespace terrace::compression::cuda {
namespace {

// In front of the call's own scratch memory.
template <typename Tensor>
struct alignas(16) Lone {
  Tensor tensor;
  Result result;
  u64 begun_ns;
};
constexpr std::size_t front_bytes =
    to_unit(sizeof(Lone<Source>) > sizeof(Lone<Target>) ? sizeof(Lone<Source>) : sizeof(Lone<Target>));

// The device's clock: at steps of a microsecond at most (PTX, "%globaltimer").
__device__ u64 device_ns() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

template <typename Tensor>
__global__ void begin_kernel(const __grid_constant__ Tensor tensor, Lone<Tensor>* lone) {
  lone->tensor = tensor;
  lone->begun_ns = device_ns();
}

template <typename Tensor>
__global__ void end_kernel(const Lone<Tensor>* lone, Verdict* verdict) {
  *verdict = {lone->result, device_ns() - lone->begun_ns};
}

template <typename Tensor, typename Call>
Status around(const Tensor& tensor, const LoneMemory& memory, Stream stream, Call call) {
  if (memory.verdict == nullptr || memory.scratch_bytes < front_bytes) return Status::bad_batch;
  auto* lone = static_cast<Lone<Tensor>*>(memory.scratch);
  const std::uint64_t blocks = (tensor.content_bytes + block_bytes - 1) / block_bytes;
  const Batch<Tensor> batch{&lone->tensor,
                            1,
                            blocks,
                            &lone->result,
                            static_cast<u8*>(memory.scratch) + front_bytes,
                            memory.scratch_bytes - front_bytes};
  begin_kernel<<<1, 1, 0, stream>>>(tensor, lone);
  if (const Status status = call(batch); status != Status::ok) return status;
  end_kernel<<<1, 1, 0, stream>>>(lone, memory.verdict);
  return cudaPeekAtLastError() == cudaSuccess ? Status::ok : Status::launch_failed;
}

}  // namespace

std::size_t lone_scratch_bytes(std::uint64_t content_bytes) {
  return front_bytes + scratch_bytes(1, (content_bytes + block_bytes - 1) / block_bytes);
}

Status compress_lone(const Source& source, const LoneMemory& memory, const Launch& launch, Stream stream) {
  return around(source, memory, stream,
                [&](const Batch<Source>& batch) { return compress(batch, launch, stream); });
}

Status decompress_lone(const Target& target, const LoneMemory& memory, const Launch& launch, Stream stream) {
  return around(target, memory, stream,
                [&](const Batch<Target>& batch) { return decompress(batch, launch, stream); });
}

}  // namespace terrace::compression::cuda
