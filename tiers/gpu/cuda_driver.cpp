// See cuda_driver.h.
#include "tiers/gpu/cuda_driver.h"

#include <dlfcn.h>

#include <cerrno>
#include <mutex>

namespace terrace::tiers::gpu {
namespace {

constexpr const char* without = "; without a GPU, --gpu emulated:8G emulates one";

// Expanded first, so that the name is the versioned one.
#define TERRACE_TEXT(name) #name
#define TERRACE_SYMBOL(name) TERRACE_TEXT(name)

class Loader {
 public:
  explicit Loader(void* library) : library_(library) {}

  template <class Function>
  void operator()(Function* out, const char* name) {
    *out = reinterpret_cast<Function>(::dlsym(library_, name));
    if (*out == nullptr && missing_ == nullptr) missing_ = name;
  }

  template <class Function>
  void if_there(Function* out, const char* name) {
    *out = reinterpret_cast<Function>(::dlsym(library_, name));
  }

  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

void load_general(Loader& load, CudaDriver* table) {
  load(&table->init, TERRACE_SYMBOL(cuInit));
  load(&table->driver_get_version, TERRACE_SYMBOL(cuDriverGetVersion));
  load(&table->get_error_name, TERRACE_SYMBOL(cuGetErrorName));
  load(&table->get_error_string, TERRACE_SYMBOL(cuGetErrorString));
  load(&table->device_get_count, TERRACE_SYMBOL(cuDeviceGetCount));
  load(&table->device_get, TERRACE_SYMBOL(cuDeviceGet));
  load(&table->device_get_name, TERRACE_SYMBOL(cuDeviceGetName));
  load(&table->device_get_attribute, TERRACE_SYMBOL(cuDeviceGetAttribute));
  load(&table->primary_context_retain, TERRACE_SYMBOL(cuDevicePrimaryCtxRetain));
  load(&table->primary_context_release, TERRACE_SYMBOL(cuDevicePrimaryCtxRelease));
  load(&table->context_push, TERRACE_SYMBOL(cuCtxPushCurrent));
  load(&table->context_pop, TERRACE_SYMBOL(cuCtxPopCurrent));
}

void load_memory(Loader& load, CudaDriver* table) {
  load(&table->mem_get_info, TERRACE_SYMBOL(cuMemGetInfo));
  load(&table->mem_get_granularity, TERRACE_SYMBOL(cuMemGetAllocationGranularity));
  load(&table->mem_address_reserve, TERRACE_SYMBOL(cuMemAddressReserve));
  load(&table->mem_address_free, TERRACE_SYMBOL(cuMemAddressFree));
  load(&table->mem_create, TERRACE_SYMBOL(cuMemCreate));
  load(&table->mem_release, TERRACE_SYMBOL(cuMemRelease));
  load(&table->mem_map, TERRACE_SYMBOL(cuMemMap));
  load(&table->mem_unmap, TERRACE_SYMBOL(cuMemUnmap));
  load(&table->mem_set_access, TERRACE_SYMBOL(cuMemSetAccess));
  load(&table->mem_host_register, TERRACE_SYMBOL(cuMemHostRegister));
  load(&table->mem_host_unregister, TERRACE_SYMBOL(cuMemHostUnregister));
  load(&table->memcpy_async, TERRACE_SYMBOL(cuMemcpyAsync));
}

void load_streams(Loader& load, CudaDriver* table) {
  load(&table->stream_create, TERRACE_SYMBOL(cuStreamCreate));
  load(&table->stream_synchronize, TERRACE_SYMBOL(cuStreamSynchronize));
  load(&table->stream_destroy, TERRACE_SYMBOL(cuStreamDestroy));
  load(&table->stream_wait_event, TERRACE_SYMBOL(cuStreamWaitEvent));
  load(&table->event_create, TERRACE_SYMBOL(cuEventCreate));
  load(&table->event_record, TERRACE_SYMBOL(cuEventRecord));
  load(&table->event_query, TERRACE_SYMBOL(cuEventQuery));
  load(&table->event_synchronize, TERRACE_SYMBOL(cuEventSynchronize));
  load(&table->event_destroy, TERRACE_SYMBOL(cuEventDestroy));
  load(&table->launch_host_func, TERRACE_SYMBOL(cuLaunchHostFunc));
  load.if_there(&table->thread_exchange_stream_capture_mode,
                TERRACE_SYMBOL(cuThreadExchangeStreamCaptureMode));
}

#undef TERRACE_SYMBOL
#undef TERRACE_TEXT

// What went wrong, or nothing when the table is usable.
std::string load_table(CudaDriver* table) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const words = ::dlerror();
    return std::string("the CUDA driver was not found (") + (words != nullptr ? words : "libcuda.so.1") +
           "): install NVIDIA's driver, or start the container with its GPUs (--gpus all)" + without;
  }
  Loader load(library);
  load_general(load, table);
  load_memory(load, table);
  load_streams(load, table);
  if (load.missing() != nullptr) {
    return std::string("the CUDA driver has no ") + load.missing() + ": update it (CUDA 11.2 or newer)" +
           without;
  }
  const CUresult result = table->init(0);
  if (result == CUDA_SUCCESS) return {};
  return "the CUDA driver does not start: " + cuda_words(*table, result) +
         "; see whether nvidia-smi finds a GPU" + without;
}

}  // namespace

int load_cuda_driver(const CudaDriver** out, std::string* reason) {
  static std::mutex mutex;
  static CudaDriver table;
  static bool loaded = false;
  const std::lock_guard lock(mutex);  // a failure is tried again: the driver may be installed meanwhile
  if (!loaded) {
    const std::string fault = load_table(&table);
    if (!fault.empty()) {
      *reason = fault;
      return ENODEV;
    }
    loaded = true;
  }
  *out = &table;
  return 0;
}

int cuda_errno(CUresult result) noexcept {
  switch (result) {
    case CUDA_SUCCESS:
      return 0;
    case CUDA_ERROR_NOT_READY:
      return EBUSY;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return ENOMEM;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
      return EINVAL;
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
    case CUDA_ERROR_ALREADY_MAPPED:
      return EEXIST;
    case CUDA_ERROR_NOT_MAPPED:
      return ENOENT;
    case CUDA_ERROR_NOT_PERMITTED:
      return EPERM;
    case CUDA_ERROR_NOT_SUPPORTED:
      return ENOTSUP;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return ENODEV;
    default:
      return EIO;
  }
}

std::string cuda_words(const CudaDriver& driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.get_error_name(result, &name);
  driver.get_error_string(result, &text);
  std::string words = name != nullptr ? name : "error " + std::to_string(static_cast<int>(result));
  if (text != nullptr) words.append(" (").append(text).append(")");
  return words;
}

}  // namespace terrace::tiers::gpu
