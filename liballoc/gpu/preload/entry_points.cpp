// libterrace_gpu_preload.so: the two functions by which programs look driver functions up. The real one is
// asked first, so that what this driver does not have stays unknown; then the functions we stand in front of
// are exchanged.
//
// A version below 3020 asks for cuMemAlloc with 32-bit sizes, which no program of today has; it is left
// alone.
#include <cstring>

#include "liballoc/gpu/preload/hooks.h"
#include "liballoc/gpu/preload/redirect.h"

using namespace terrace::liballoc::gpu;  // NOLINT: this file's functions are CUDA's

namespace {

// The version from which on cuGetProcAddress has its fifth parameter.
constexpr int version_with_status = 12000;
constexpr int version_with_wide_sizes = 3020;
// cudaGetDriverEntryPoint does not say for which version it looks. That matters for cuGetProcAddress alone,
// whose two forms differ in their parameters: it is then left as it is.
constexpr int unknown_version = INT32_MAX;

struct DriverHook {
  const char* symbol;
  const void* function;
  const void* per_thread;
};

template <typename Function>
const void* address(Function function) {
  const void* where = nullptr;
  std::memcpy(&where, &function, sizeof(where));
  return where;
}

const DriverHook* find(const char* symbol) {
  static const DriverHook hooks[] = {
      {"cuMemAlloc", address(&cuMemAlloc_v2), address(&cuMemAlloc_v2)},
      {"cuMemFree", address(&cuMemFree_v2), address(&cuMemFree_v2)},
      {"cuMemAllocAsync", address(&cuMemAllocAsync), address(&cuMemAllocAsync_ptsz)},
      {"cuMemFreeAsync", address(&cuMemFreeAsync), address(&cuMemFreeAsync_ptsz)},
      {"cuStreamDestroy", address(&cuStreamDestroy_v2), address(&cuStreamDestroy_v2)},
  };
  for (const DriverHook& hook : hooks)
    if (std::strcmp(hook.symbol, symbol) == 0) return &hook;
  return nullptr;
}

// After a look-up that succeeded.
int exchange(int error, const char* symbol, void** out, int version, std::uint64_t flags) {
  if (error != cuda_success || symbol == nullptr || out == nullptr || *out == nullptr) return error;
  const void* ours = heap_is_wanted() ? driver_hook(symbol, version, flags) : nullptr;
  if (ours != nullptr) *out = const_cast<void*>(ours);  // NOLINT: CUDA's type for a function
  return error;
}

using Lookup = int (*)(const char*, void**, int, std::uint64_t);
using LookupWithStatus = int (*)(const char*, void**, int, std::uint64_t, int*);
using EntryPoint = int (*)(const char*, void**, unsigned long long, int*);
using EntryPointByVersion = int (*)(const char*, void**, unsigned, unsigned long long, int*);

constinit NextFunction<Lookup> next_lookup(Library::driver, "cuGetProcAddress");
constinit NextFunction<LookupWithStatus> next_lookup_v2(Library::driver, "cuGetProcAddress_v2");
constinit NextFunction<EntryPoint> next_entry(Library::runtime, "cudaGetDriverEntryPoint");
constinit NextFunction<EntryPoint> next_entry_ptsz(Library::runtime, "cudaGetDriverEntryPoint_ptsz");
constinit NextFunction<EntryPointByVersion> next_versioned(Library::runtime,
                                                           "cudaGetDriverEntryPointByVersion");
constinit NextFunction<EntryPointByVersion> next_versioned_ptsz(Library::runtime,
                                                                "cudaGetDriverEntryPointByVersion_ptsz");

}  // namespace

namespace terrace::liballoc::gpu {

const void* driver_hook(const char* symbol, int version, std::uint64_t flags) {
  if (std::strcmp(symbol, "cuGetProcAddress") == 0) {
    if (version == unknown_version) return nullptr;
    return version >= version_with_status ? address(&cuGetProcAddress_v2) : address(&cuGetProcAddress);
  }
  const DriverHook* hook = version >= version_with_wide_sizes ? find(symbol) : nullptr;
  if (hook == nullptr) return nullptr;
  return (flags & per_thread_entry_points) != 0 ? hook->per_thread : hook->function;
}

std::span<const Hook> allocation_hooks() {
  static const Hook hooks[] = {
      {"cudaMalloc", address(&cudaMalloc)},
      {"cudaFree", address(&cudaFree)},
      {"cudaMallocAsync", address(&cudaMallocAsync)},
      {"cudaMallocAsync_ptsz", address(&cudaMallocAsync_ptsz)},
      {"cudaFreeAsync", address(&cudaFreeAsync)},
      {"cudaFreeAsync_ptsz", address(&cudaFreeAsync_ptsz)},
      {"cudaMallocFromPoolAsync", address(&cudaMallocFromPoolAsync)},
      {"cudaMallocFromPoolAsync_ptsz", address(&cudaMallocFromPoolAsync_ptsz)},
      {"cuMemAlloc_v2", address(&cuMemAlloc_v2)},
      {"cuMemFree_v2", address(&cuMemFree_v2)},
      {"cuMemAllocAsync", address(&cuMemAllocAsync)},
      {"cuMemAllocAsync_ptsz", address(&cuMemAllocAsync_ptsz)},
      {"cuMemFreeAsync", address(&cuMemFreeAsync)},
      {"cuMemFreeAsync_ptsz", address(&cuMemFreeAsync_ptsz)},
      {"cuGetProcAddress", address(&cuGetProcAddress)},
      {"cuGetProcAddress_v2", address(&cuGetProcAddress_v2)},
  };
  return hooks;
}

}  // namespace terrace::liballoc::gpu

extern "C" {

TERRACE_API int cuGetProcAddress(const char* symbol, void** out, int version, std::uint64_t flags) {
  const int error = next_lookup.call_or(cuda_not_supported, symbol, out, version, flags);
  return exchange(error, symbol, out, version, flags);
}

TERRACE_API int cuGetProcAddress_v2(const char* symbol, void** out, int version, std::uint64_t flags,
                                    int* status) {
  const int error = next_lookup_v2.call_or(cuda_not_supported, symbol, out, version, flags, status);
  return exchange(error, symbol, out, version, flags);
}

// Runtimes before 12.0 know no fourth parameter and do not look at it.
TERRACE_API int cudaGetDriverEntryPoint(const char* symbol, void** out, unsigned long long flags,
                                        int* status) {
  const int error = next_entry.call_or(cuda_not_supported, symbol, out, flags, status);
  return exchange(error, symbol, out, unknown_version, flags);
}

TERRACE_API int cudaGetDriverEntryPoint_ptsz(const char* symbol, void** out, unsigned long long flags,
                                             int* status) {
  const int error = next_entry_ptsz.call_or(cuda_not_supported, symbol, out, flags, status);
  return exchange(error, symbol, out, unknown_version, flags == 0 ? per_thread_entry_points : flags);
}

TERRACE_API int cudaGetDriverEntryPointByVersion(const char* symbol, void** out, unsigned version,
                                                 unsigned long long flags, int* status) {
  const int error = next_versioned.call_or(cuda_not_supported, symbol, out, version, flags, status);
  return exchange(error, symbol, out, static_cast<int>(version), flags);
}

TERRACE_API int cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** out, unsigned version,
                                                      unsigned long long flags, int* status) {
  const int error = next_versioned_ptsz.call_or(cuda_not_supported, symbol, out, version, flags, status);
  return exchange(error, symbol, out, static_cast<int>(version),
                  flags == 0 ? per_thread_entry_points : flags);
}

}  // extern "C"
