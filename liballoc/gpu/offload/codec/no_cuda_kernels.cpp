// In place of cuda_kernels.cpp where the build found no nvcc.
#include "liballoc/gpu/offload/codec/codec_kernels.h"

namespace terrace::liballoc::offload {

const CodecKernels* cuda_kernels() { return nullptr; }

}  // namespace terrace::liballoc::offload
