// libterrace_gpu_preload.so: the CUDA runtime's allocation functions. Functions named …_ptsz are what a
// program calls that was compiled with --default-stream per-thread: the same, but stream 0 is the thread's
// own.
//
// Not hooked, and so CUDA's own: cudaMallocManaged, cudaMallocPitch, cudaMalloc3D, arrays, host memory,
// memory pools other than the default one. Their pointers pass through cudaFree and cudaFreeAsync untouched.
//
// An error of ours is no error of the runtime's, which would not know of it: it is kept for the thread until
// cudaGetLastError(), as CUDA does. When both have one, the runtime's is told.
#include "liballoc/gpu/preload/hooks.h"
#include "liballoc/gpu/preload/redirect.h"

using namespace terrace::liballoc::gpu;  // NOLINT: this file's functions are CUDA's

namespace {

constinit thread_local int last_error = cuda_success;

int keep(int error) {
  if (error != cuda_success) last_error = error;
  return error;
}

using Malloc = int (*)(void**, std::size_t);
using Free = int (*)(void*);
using MallocAsync = int (*)(void**, std::size_t, CudaStream);
using FreeAsync = int (*)(void*, CudaStream);
using PoolMalloc = int (*)(void**, std::size_t, CudaPool, CudaStream);
using MemoryInfo = int (*)(std::size_t*, std::size_t*);
using LastError = int (*)();
using StreamDestroy = int (*)(CudaStream);

constinit NextFunction<Malloc> next_malloc(Library::runtime, "cudaMalloc");
constinit NextFunction<Free> next_free(Library::runtime, "cudaFree");
constinit NextFunction<MallocAsync> next_malloc_async(Library::runtime, "cudaMallocAsync");
constinit NextFunction<MallocAsync> next_malloc_async_ptsz(Library::runtime, "cudaMallocAsync_ptsz");
constinit NextFunction<FreeAsync> next_free_async(Library::runtime, "cudaFreeAsync");
constinit NextFunction<FreeAsync> next_free_async_ptsz(Library::runtime, "cudaFreeAsync_ptsz");
constinit NextFunction<PoolMalloc> next_pool_malloc(Library::runtime, "cudaMallocFromPoolAsync");
constinit NextFunction<PoolMalloc> next_pool_malloc_ptsz(Library::runtime, "cudaMallocFromPoolAsync_ptsz");
constinit NextFunction<MemoryInfo> next_memory_info(Library::runtime, "cudaMemGetInfo");
constinit NextFunction<StreamDestroy> next_stream_destroy(Library::runtime, "cudaStreamDestroy");
constinit NextFunction<LastError> next_last_error(Library::runtime, "cudaGetLastError");
constinit NextFunction<LastError> next_peek_error(Library::runtime, "cudaPeekAtLastError");

CudaStream own_default(CudaStream stream) { return stream == nullptr ? per_thread_stream : stream; }

// The runtime's own last error. Where the GPU is emulated and there is no driver, the runtime has that to say
// to every question: no error of the program's.
int theirs_of(NextFunction<LastError>* query) {
  const int error = query->call_or(cuda_success);
  const bool no_driver = error == cuda_insufficient_driver || error == cuda_no_device;
  return no_driver && heap_is_emulated() && heap_is_wanted() ? cuda_success : error;
}

// What a program asks of a runtime that is nowhere to be found. An emulated GPU has none: cudaFree(0), by
// which programs set CUDA up, then succeeds.
int free_nowhere(void* block) { return block == nullptr ? cuda_success : cuda_invalid_value; }

int malloc_in(void** out, std::size_t bytes, CudaStream stream, NextFunction<MallocAsync>* next,
              CudaStream as_given) {
  const int answer = allocate_in_stream(Library::runtime, out, bytes, stream);
  return answer != pass_on ? keep(answer) : next->call_or(cuda_not_supported, out, bytes, as_given);
}

int free_in(void* block, CudaStream stream, NextFunction<FreeAsync>* next, CudaStream as_given) {
  const int answer = release_in_stream(Library::runtime, block, stream);
  return answer != pass_on ? keep(answer) : next->call_or(cuda_invalid_value, block, as_given);
}

int pool_malloc_in(void** out, std::size_t bytes, CudaPool pool, CudaStream stream,
                   NextFunction<PoolMalloc>* next, CudaStream as_given) {
  const bool ours = is_redirecting() && is_default_pool(pool);
  const int answer = ours ? allocate_in_stream(Library::runtime, out, bytes, stream) : pass_on;
  return answer != pass_on ? keep(answer) : next->call_or(cuda_not_supported, out, bytes, pool, as_given);
}

}  // namespace

extern "C" {

TERRACE_API int cudaMalloc(void** out, std::size_t bytes) {
  const int answer = allocate(Library::runtime, out, bytes);
  return answer != pass_on ? keep(answer) : next_malloc.call_or(cuda_not_supported, out, bytes);
}

TERRACE_API int cudaFree(void* block) {
  if (block == nullptr && heap_is_emulated() && is_redirecting()) return cuda_success;
  const int answer = release(Library::runtime, block);
  if (answer != pass_on) return keep(answer);
  const auto next = next_free.get();
  return next != nullptr ? next(block) : free_nowhere(block);
}

TERRACE_API int cudaMallocAsync(void** out, std::size_t bytes, CudaStream stream) {
  return malloc_in(out, bytes, stream, &next_malloc_async, stream);
}

TERRACE_API int cudaMallocAsync_ptsz(void** out, std::size_t bytes, CudaStream stream) {
  return malloc_in(out, bytes, own_default(stream), &next_malloc_async_ptsz, stream);
}

TERRACE_API int cudaFreeAsync(void* block, CudaStream stream) {
  return free_in(block, stream, &next_free_async, stream);
}

TERRACE_API int cudaFreeAsync_ptsz(void* block, CudaStream stream) {
  return free_in(block, own_default(stream), &next_free_async_ptsz, stream);
}

TERRACE_API int cudaMallocFromPoolAsync(void** out, std::size_t bytes, CudaPool pool, CudaStream stream) {
  return pool_malloc_in(out, bytes, pool, stream, &next_pool_malloc, stream);
}

TERRACE_API int cudaMallocFromPoolAsync_ptsz(void** out, std::size_t bytes, CudaPool pool,
                                             CudaStream stream) {
  return pool_malloc_in(out, bytes, pool, own_default(stream), &next_pool_malloc_ptsz, stream);
}

TERRACE_API int cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const int answer = memory_info(Library::runtime, free_bytes, total_bytes);
  return answer != pass_on ? keep(answer)
                           : next_memory_info.call_or(cuda_not_supported, free_bytes, total_bytes);
}

TERRACE_API int cudaStreamDestroy(CudaStream stream) {
  stream_ends(Library::runtime, stream);
  return next_stream_destroy.call_or(cuda_not_supported, stream);
}

TERRACE_API int cudaGetLastError() {
  const int ours = last_error;
  last_error = cuda_success;
  const int theirs = theirs_of(&next_last_error);
  return theirs != cuda_success ? theirs : ours;
}

TERRACE_API int cudaPeekAtLastError() {
  const int theirs = theirs_of(&next_peek_error);
  return theirs != cuda_success ? theirs : last_error;
}

}  // extern "C"
