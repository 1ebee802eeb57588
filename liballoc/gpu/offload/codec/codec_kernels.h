// A frame made or taken apart by a kernel, as tiers::gpu::Kernel wants it: a CodecCall is what its
// `arguments` point to, and stays alive until the stream has passed. On the emulated device the stream's
// thread runs compression/'s host code; on CUDA the launches are those of compression/cuda.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/compressor.h"
#include "compression/cuda/compression_cuda.h"

namespace terrace::liballoc::offload {

struct CodecCall {
  compression::cuda::Source source;  // to encode
  compression::cuda::Target target;  // to decode
  void* scratch = nullptr;
  std::size_t scratch_bytes = 0;
  compression::cuda::Verdict* verdict = nullptr;         // pinned host memory
  compression::cuda::Verdict* device_verdict = nullptr;  // where the device writes to the same
  const compression::cuda::Launch* launch = nullptr;
  compression::Workspace* workspace = nullptr;  // emulated: its stream's own
};

// What is asked of a device once: how to launch, and its address for the pinned verdicts.
struct CodecPlan {
  compression::cuda::Launch launch;
  compression::cuda::Verdict* verdicts = nullptr;         // in
  compression::cuda::Verdict* device_verdicts = nullptr;  // out
};

// All as in tiers::gpu::Kernel::cuda: on a thread whose context is the device's, 0 or a cudaError_t.
struct CodecKernels {
  int (*plan)(void* stream, void* codec_plan) = nullptr;  // launches nothing
  int (*encode)(void* stream, void* codec_call) = nullptr;
  int (*decode)(void* stream, void* codec_call) = nullptr;
  std::size_t (*scratch_bytes)(std::uint64_t content_bytes) = nullptr;
};
// nullptr in a build without nvcc. In cuda_kernels.cpp or no_cuda_kernels.cpp.
const CodecKernels* cuda_kernels();

// tiers::gpu::Kernel::emulated.
void encode_emulated(void* codec_call);
void decode_emulated(void* codec_call);

}  // namespace terrace::liballoc::offload
