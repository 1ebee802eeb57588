// The CUDA driver, found at run time: libcuda.so.1 by dlopen, its functions by the names that cuda.h gives
// them.
//
// Nothing here is linked against CUDA, so that one build runs with and without a GPU. Types and names of the
// functions both come from cuda.h, whose macros choose the version of each (cuMemGetInfo is cuMemGetInfo_v2):
// they cannot disagree. CUresult is turned into errno here and nowhere else.
#pragma once

#include <cuda.h>

#include <string>

namespace terrace::tiers::gpu {

// Attributes by number, as a cuda.h of 12.2 has no names for them and a newer driver answers all the same:
// whether host memory, or that of a NUMA node, can be mapped like the device's.
inline constexpr auto maps_host_numa_memory = static_cast<CUdevice_attribute>(141);
inline constexpr auto maps_host_memory = static_cast<CUdevice_attribute>(145);
#if CUDA_VERSION >= 13000
static_assert(maps_host_numa_memory == CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(maps_host_memory == CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
#endif

struct CudaDriver {
  decltype(&::cuInit) init = nullptr;
  decltype(&::cuDriverGetVersion) driver_get_version = nullptr;
  decltype(&::cuGetErrorName) get_error_name = nullptr;
  decltype(&::cuGetErrorString) get_error_string = nullptr;
  decltype(&::cuDeviceGetCount) device_get_count = nullptr;
  decltype(&::cuDeviceGet) device_get = nullptr;
  decltype(&::cuDeviceGetName) device_get_name = nullptr;
  decltype(&::cuDeviceGetAttribute) device_get_attribute = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) primary_context_retain = nullptr;
  decltype(&::cuDevicePrimaryCtxRelease) primary_context_release = nullptr;
  decltype(&::cuCtxPushCurrent) context_push = nullptr;
  decltype(&::cuCtxPopCurrent) context_pop = nullptr;
  decltype(&::cuMemGetInfo) mem_get_info = nullptr;
  decltype(&::cuMemGetAllocationGranularity) mem_get_granularity = nullptr;
  decltype(&::cuMemAddressReserve) mem_address_reserve = nullptr;
  decltype(&::cuMemAddressFree) mem_address_free = nullptr;
  decltype(&::cuMemCreate) mem_create = nullptr;
  decltype(&::cuMemRelease) mem_release = nullptr;
  decltype(&::cuMemMap) mem_map = nullptr;
  decltype(&::cuMemUnmap) mem_unmap = nullptr;
  decltype(&::cuMemSetAccess) mem_set_access = nullptr;
  decltype(&::cuMemHostRegister) mem_host_register = nullptr;
  decltype(&::cuMemHostUnregister) mem_host_unregister = nullptr;
  decltype(&::cuMemcpyAsync) memcpy_async = nullptr;
  decltype(&::cuStreamCreate) stream_create = nullptr;
  decltype(&::cuStreamSynchronize) stream_synchronize = nullptr;
  decltype(&::cuStreamDestroy) stream_destroy = nullptr;
  decltype(&::cuStreamWaitEvent) stream_wait_event = nullptr;
  decltype(&::cuEventCreate) event_create = nullptr;
  decltype(&::cuEventRecord) event_record = nullptr;
  decltype(&::cuEventQuery) event_query = nullptr;
  decltype(&::cuEventSynchronize) event_synchronize = nullptr;
  decltype(&::cuEventDestroy) event_destroy = nullptr;
  decltype(&::cuLaunchHostFunc) launch_host_func = nullptr;
  decltype(&::cuThreadExchangeStreamCaptureMode) thread_exchange_stream_capture_mode = nullptr;  // may lack
};

// 0 and the table, initialised once for the process; or ENODEV with *reason saying what is missing and what
// helps. The library stays loaded. Any thread.
int load_cuda_driver(const CudaDriver** out, std::string* reason);

// The errno value for a result; what the device does not recover from is EIO.
int cuda_errno(CUresult result) noexcept;

// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
std::string cuda_words(const CudaDriver& driver, CUresult result);

}  // namespace terrace::tiers::gpu
