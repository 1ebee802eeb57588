// As libcudart.so.13. cudaMalloc and its like give addresses that the heap never would.
#include <cstdint>

#include "tests/liballoc/gpu/preload/trace.h"

namespace {

int noted(const std::string& call) {
  note("runtime " + call);
  return 0;
}

int given(void** out, std::size_t bytes, const std::string& name) {
  static std::uintptr_t next = 0x1000;
  *out = reinterpret_cast<void*>(next += 0x1000);
  return noted(name + " " + std::to_string(bytes));
}

// Not `" " + …`: g++ 12 warns of an overlap that cannot be (GCC bug 105651).
std::string number(const void* stream) {
  return std::string(" ").append(std::to_string(reinterpret_cast<std::uintptr_t>(stream)));
}

}  // namespace

extern "C" {

int cudaGetDevice(int* out) {
  *out = doubles().device;
  return 0;
}
int cudaSetDevice(int device) {
  doubles().device = device;
  return noted("cudaSetDevice " + std::to_string(device));
}
int cudaMalloc(void** out, std::size_t bytes) { return given(out, bytes, "cudaMalloc"); }
int cudaMallocManaged(void** out, std::size_t bytes, unsigned) {
  return given(out, bytes, "cudaMallocManaged");
}
int cudaFree(void* block) { return noted(block == nullptr ? "cudaFree of nothing" : "cudaFree"); }
int cudaMallocAsync(void** out, std::size_t bytes, void* stream) {
  return given(out, bytes, "cudaMallocAsync" + number(stream));
}
int cudaMallocAsync_ptsz(void** out, std::size_t bytes, void* stream) {
  return given(out, bytes, "cudaMallocAsync_ptsz" + number(stream));
}
int cudaFreeAsync(void*, void* stream) { return noted("cudaFreeAsync" + number(stream)); }
int cudaFreeAsync_ptsz(void*, void* stream) { return noted("cudaFreeAsync_ptsz" + number(stream)); }
int cudaMallocFromPoolAsync(void** out, std::size_t bytes, void*, void*) {
  return given(out, bytes, "cudaMallocFromPoolAsync");
}
int cudaDeviceGetDefaultMemPool(void** out, int device) {
  *out = reinterpret_cast<void*>(std::uintptr_t{0x900} + static_cast<unsigned>(device));
  return 0;
}
int cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = 600;
  *total_bytes = 1000;
  return 0;
}
int cudaStreamDestroy(void* stream) { return noted("cudaStreamDestroy" + number(stream)); }
int cudaDeviceSynchronize() { return noted("cudaDeviceSynchronize"); }
int cudaStreamSynchronize(void* stream) { return noted("cudaStreamSynchronize" + number(stream)); }
int cudaStreamIsCapturing(void*, int* out) {
  *out = doubles().capture_status;
  return 0;
}
int cudaGetLastError() {
  const int error = doubles().runtime_error;
  doubles().runtime_error = 0;
  return error;
}
int cudaPeekAtLastError() { return doubles().runtime_error; }
int cudaGetDriverEntryPoint(const char*, void** out, unsigned long long, int*) {
  *out = reinterpret_cast<void*>(std::uintptr_t{0x77});
  return 0;
}

}  // extern "C"
