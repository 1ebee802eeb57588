// From what a user asked for to a device, or to the reason why there is none.
#include <cerrno>

#include "tiers/gpu/device.h"
#include "tiers/gpu/emulated/device.h"
#ifdef TERRACE_HAVE_CUDA
#include "tiers/gpu/cuda_device.h"
#endif

namespace terrace::tiers::gpu {

int open_device(const DeviceSpec& spec, std::unique_ptr<Device>* out, std::string* reason) {
  std::string ignored;
  std::string* const why = reason != nullptr ? reason : &ignored;
  if (spec.kind == Kind::emulated) return open_emulated_device(spec, out, why);
#ifdef TERRACE_HAVE_CUDA
  return open_cuda_device(spec.index, out, why);
#else
  *why = "this build has no CUDA: build Terrace where the CUDA toolkit is, or use --gpu emulated:8G";
  return ENOTSUP;
#endif
}

}  // namespace terrace::tiers::gpu
