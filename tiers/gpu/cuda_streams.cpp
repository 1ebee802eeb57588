// The other half of cuda_device.h: pinned memory, streams, events, and the work that streams do.
#include <cerrno>

#include "tiers/gpu/cuda_current.h"
#include "tiers/gpu/cuda_device.h"

namespace terrace::tiers::gpu {
namespace {

CUstream raw(Stream stream) noexcept { return reinterpret_cast<CUstream>(stream); }
CUevent raw(Event event) noexcept { return reinterpret_cast<CUevent>(event); }

constexpr std::uint64_t page = 4096;

}  // namespace

int CudaDevice::pin(void* host, std::uint64_t bytes) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(host);
  if (at == 0 || at % page != 0 || bytes == 0 || bytes % page != 0) return refused("pinning", EINVAL);
  const Current current(*driver_, context_);
  return told("cuMemHostRegister", driver_->mem_host_register(host, bytes, CU_MEMHOSTREGISTER_PORTABLE));
}

int CudaDevice::unpin(void* host) noexcept {
  const Current current(*driver_, context_);
  return told("cuMemHostUnregister", driver_->mem_host_unregister(host));
}

int CudaDevice::create_stream(Stream* out) noexcept {
  const Current current(*driver_, context_);
  CUstream stream = nullptr;
  const int error = told("cuStreamCreate", driver_->stream_create(&stream, CU_STREAM_NON_BLOCKING));
  if (error == 0) *out = reinterpret_cast<Stream>(stream);
  return error;
}

int CudaDevice::destroy_stream(Stream stream) noexcept {
  if (stream == nullptr) return refused("destroying the default stream", EINVAL);
  const Current current(*driver_, context_);
  // The driver would return at once and finish later, with memory that the caller takes for free.
  const int error = told("cuStreamSynchronize", driver_->stream_synchronize(raw(stream)));
  const int destroyed = told("cuStreamDestroy", driver_->stream_destroy(raw(stream)));
  return error != 0 ? error : destroyed;
}

int CudaDevice::create_event(Event* out) noexcept {
  const Current current(*driver_, context_);
  CUevent event = nullptr;
  constexpr unsigned flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
  const int error = told("cuEventCreate", driver_->event_create(&event, flags));
  if (error == 0) *out = reinterpret_cast<Event>(event);
  return error;
}

int CudaDevice::destroy_event(Event event) noexcept {
  if (event == nullptr) return refused("destroying an event", EINVAL);
  const Current current(*driver_, context_);
  return told("cuEventDestroy", driver_->event_destroy(raw(event)));
}

int CudaDevice::record(Event event, Stream stream) noexcept {
  if (event == nullptr) return refused("recording an event", EINVAL);
  const Current current(*driver_, context_);
  return told("cuEventRecord", driver_->event_record(raw(event), raw(stream)));
}

int CudaDevice::wait(Stream stream, Event event) noexcept {
  if (event == nullptr) return refused("waiting for an event", EINVAL);
  const Current current(*driver_, context_);
  return told("cuStreamWaitEvent", driver_->stream_wait_event(raw(stream), raw(event), 0));
}

int CudaDevice::query(Event event) noexcept {
  if (event == nullptr) return refused("asking for an event", EINVAL);
  const Current current(*driver_, context_);
  return told("work before an event", driver_->event_query(raw(event)));
}

int CudaDevice::synchronize(Event event) noexcept {
  if (event == nullptr) return refused("waiting for an event", EINVAL);
  const Current current(*driver_, context_);
  return told("work before an event", driver_->event_synchronize(raw(event)));
}

// The driver sees from the addresses which way it is; pageable host memory is staged by it.
int CudaDevice::copy(Stream stream, void* to, const void* from, std::uint64_t bytes, Way) noexcept {
  if (bytes == 0) return 0;
  if (to == nullptr || from == nullptr) return refused("copying", EINVAL);
  const Current current(*driver_, context_);
  const auto target = reinterpret_cast<CUdeviceptr>(to);
  const auto source = reinterpret_cast<CUdeviceptr>(from);
  return told("cuMemcpyAsync", driver_->memcpy_async(target, source, bytes, raw(stream)));
}

// cudaError_t and CUresult number the same errors alike (driver_types.h, since CUDA 10.1).
int CudaDevice::launch(Stream stream, const Kernel& kernel) noexcept {
  if (kernel.cuda == nullptr) return refused("launching a kernel that has no CUDA side", EINVAL);
  const Current current(*driver_, context_);
  return told("launching a kernel", static_cast<CUresult>(kernel.cuda(stream, kernel.arguments)));
}

int CudaDevice::call_host(Stream stream, void (*function)(void*), void* argument) noexcept {
  if (function == nullptr) return refused("queuing a function", EINVAL);
  const Current current(*driver_, context_);
  return told("cuLaunchHostFunc", driver_->launch_host_func(raw(stream), function, argument));
}

// The mode is the thread's, not the context's. cuda.h: in the global mode, each thread's at first, a thread's
// potentially unsafe calls are refused, and spoil the capture, while any thread captures in that mode.
void CudaDevice::relax_stream_capture() noexcept {
  if (driver_->thread_exchange_stream_capture_mode == nullptr) return;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver_->thread_exchange_stream_capture_mode(&mode);
}

}  // namespace terrace::tiers::gpu
