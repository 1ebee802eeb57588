// As libcuda.so.1.
#include <cstdint>
#include <cstring>

#include "tests/liballoc/gpu/preload/trace.h"

namespace {
int noted(const std::string& call) {
  note("driver " + call);
  return 0;
}
}  // namespace

extern "C" {

int cuCtxGetDevice(int* out) {
  *out = doubles().device;
  return 0;
}
int cuCtxSynchronize() { return noted("cuCtxSynchronize"); }
int cuStreamSynchronize(void*) { return noted("cuStreamSynchronize"); }
int cuStreamIsCapturing(void*, int* out) {
  *out = doubles().capture_status;
  return 0;
}
int cuMemAlloc_v2(unsigned long long* out, std::size_t bytes) {
  *out = 0x5000;
  return noted("cuMemAlloc_v2 " + std::to_string(bytes));
}
int cuStreamDestroy_v2(void*) { return noted("cuStreamDestroy_v2"); }
int cuMemFree_v2(unsigned long long) { return noted("cuMemFree_v2"); }
// Knows every name but one.
int cuGetProcAddress_v2(const char* symbol, void** out, int, std::uint64_t, int* status) {
  if (std::strcmp(symbol, "cuNothing") == 0) return 500;
  *out = reinterpret_cast<void*>(std::uintptr_t{0x88});
  if (status != nullptr) *status = 0;
  return 0;
}

}  // extern "C"
