// The CUDA side of codec_kernels.h. The runtime (linked statically) works in the context that is current,
// which Device::launch() has made the program's primary one: the runtime's own.
#include <cuda_runtime_api.h>

#include "liballoc/gpu/offload/codec/codec_kernels.h"

namespace terrace::liballoc::offload {
namespace {

using compression::cuda::Status;

int error_of(Status status) {
  if (status == Status::ok) return cudaSuccess;
  const cudaError_t last = cudaGetLastError();
  return last != cudaSuccess ? last : cudaErrorInvalidValue;
}

int plan(void*, void* codec_plan) {
  auto& plan = *static_cast<CodecPlan*>(codec_plan);
  void* at = nullptr;
  if (const cudaError_t error = cudaHostGetDevicePointer(&at, plan.verdicts, 0); error != cudaSuccess) {
    cudaGetLastError();  // else the program's next check would find it
    return error;
  }
  plan.device_verdicts = static_cast<compression::cuda::Verdict*>(at);
  return error_of(plan_launch({}, plan.launch));
}

compression::cuda::LoneMemory memory_of(const CodecCall& call) {
  return {call.scratch, call.scratch_bytes, call.device_verdict};
}

int encode(void* stream, void* codec_call) {
  const auto& call = *static_cast<const CodecCall*>(codec_call);
  return error_of(compress_lone(call.source, memory_of(call), *call.launch,
                                static_cast<compression::cuda::Stream>(stream)));
}

int decode(void* stream, void* codec_call) {
  const auto& call = *static_cast<const CodecCall*>(codec_call);
  return error_of(decompress_lone(call.target, memory_of(call), *call.launch,
                                  static_cast<compression::cuda::Stream>(stream)));
}

constexpr CodecKernels kernels{plan, encode, decode, compression::cuda::lone_scratch_bytes};

}  // namespace

const CodecKernels* cuda_kernels() { return &kernels; }

}  // namespace terrace::liballoc::offload
