// libterrace_gpu_preload.so: the CUDA driver's allocation functions, for programs that are linked to
// libcuda.so or that ask cuGetProcAddress (entry_points.cpp). The runtime's own calls to the driver do not
// come here: it looks the driver up through a handle of its own.
#include "liballoc/gpu/preload/hooks.h"
#include "liballoc/gpu/preload/redirect.h"

using namespace terrace::liballoc::gpu;  // NOLINT: this file's functions are CUDA's

namespace {

using Malloc = int (*)(DevicePointer*, std::size_t);
using Free = int (*)(DevicePointer);
using MallocAsync = int (*)(DevicePointer*, std::size_t, CudaStream);
using FreeAsync = int (*)(DevicePointer, CudaStream);
using StreamDestroy = int (*)(CudaStream);

constinit NextFunction<Malloc> next_malloc(Library::driver, "cuMemAlloc_v2");
constinit NextFunction<Free> next_free(Library::driver, "cuMemFree_v2");
constinit NextFunction<MallocAsync> next_malloc_async(Library::driver, "cuMemAllocAsync");
constinit NextFunction<MallocAsync> next_malloc_async_ptsz(Library::driver, "cuMemAllocAsync_ptsz");
constinit NextFunction<FreeAsync> next_free_async(Library::driver, "cuMemFreeAsync");
constinit NextFunction<FreeAsync> next_free_async_ptsz(Library::driver, "cuMemFreeAsync_ptsz");
constinit NextFunction<StreamDestroy> next_stream_destroy(Library::driver, "cuStreamDestroy_v2");

void* block_at(DevicePointer address) { return reinterpret_cast<void*>(address); }  // NOLINT

CudaStream own_default(CudaStream stream) { return stream == nullptr ? per_thread_stream : stream; }

int stored(int error, void* block, DevicePointer* out) {
  if (error == cuda_success) *out = reinterpret_cast<DevicePointer>(block);
  return error;
}

int malloc_in(DevicePointer* out, std::size_t bytes, CudaStream stream, NextFunction<MallocAsync>* next,
              CudaStream as_given) {
  void* block = nullptr;
  const int answer = allocate_in_stream(Library::driver, out == nullptr ? nullptr : &block, bytes, stream);
  return answer != pass_on ? stored(answer, block, out)
                           : next->call_or(cuda_not_supported, out, bytes, as_given);
}

int free_in(DevicePointer block, CudaStream stream, NextFunction<FreeAsync>* next, CudaStream as_given) {
  const int answer = release_in_stream(Library::driver, block_at(block), stream);
  return answer != pass_on ? answer : next->call_or(cuda_invalid_value, block, as_given);
}

}  // namespace

extern "C" {

TERRACE_API int cuMemAlloc_v2(DevicePointer* out, std::size_t bytes) {
  void* block = nullptr;
  const int answer = allocate(Library::driver, out == nullptr ? nullptr : &block, bytes);
  return answer != pass_on ? stored(answer, block, out) : next_malloc.call_or(cuda_not_supported, out, bytes);
}

TERRACE_API int cuMemFree_v2(DevicePointer block) {
  const int answer = release(Library::driver, block_at(block));
  return answer != pass_on ? answer : next_free.call_or(cuda_invalid_value, block);
}

TERRACE_API int cuMemAllocAsync(DevicePointer* out, std::size_t bytes, CudaStream stream) {
  return malloc_in(out, bytes, stream, &next_malloc_async, stream);
}

TERRACE_API int cuMemAllocAsync_ptsz(DevicePointer* out, std::size_t bytes, CudaStream stream) {
  return malloc_in(out, bytes, own_default(stream), &next_malloc_async_ptsz, stream);
}

TERRACE_API int cuMemFreeAsync(DevicePointer block, CudaStream stream) {
  return free_in(block, stream, &next_free_async, stream);
}

TERRACE_API int cuMemFreeAsync_ptsz(DevicePointer block, CudaStream stream) {
  return free_in(block, own_default(stream), &next_free_async_ptsz, stream);
}

TERRACE_API int cuStreamDestroy_v2(CudaStream stream) {
  stream_ends(Library::driver, stream);
  return next_stream_destroy.call_or(cuda_not_supported, stream);
}

}  // extern "C"
