// A libcuda.so.1 without a GPU: the driver functions that cuda_driver.h asks for, over the emulated device.
//
// It lets the conformance suite run the code of cuda_device.cpp where no GPU is. What it shows is that every
// call is made with the arguments that cuda.h describes, and that errors come through; not how a real driver
// behaves.

#include <cuda.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "tests/tiers/gpu/fake_cuda.h"
#include "tiers/gpu/cuda_driver.h"
#include "tiers/gpu/device.h"

using namespace terrace::tiers::gpu;

namespace {

constexpr std::uint64_t capacity = std::uint64_t{64} << 20;

Device& emulated() {
  static const std::unique_ptr<Device> device = [] {
    DeviceSpec spec;
    spec.kind = Kind::emulated;
    spec.capacity_bytes = capacity;
    std::unique_ptr<Device> opened;
    if (open_device(spec, &opened, nullptr) != 0) std::abort();
    return opened;
  }();
  return *device;
}

CUresult result_of(int error) {
  switch (error) {
    case 0:
      return CUDA_SUCCESS;
    case EBUSY:
      return CUDA_ERROR_NOT_READY;
    case ENOMEM:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case EEXIST:
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    case EPERM:
    case EAGAIN:
      return CUDA_ERROR_NOT_PERMITTED;
    case EIO:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

thread_local int contexts_pushed = 0;
std::atomic<int> retained{0};
CUcontext the_context() { return reinterpret_cast<CUcontext>(&retained); }

// Calls that need a current context answer as CUDA does without one.
CUresult in_context(int error) { return contexts_pushed > 0 ? result_of(error) : CUDA_ERROR_INVALID_CONTEXT; }

// What a test of a poorer driver sets.
bool lacks(const char* what) {
  const char* const set = std::getenv("FAKE_CUDA_LACKS");
  return set != nullptr && std::strstr(set, what) != nullptr;
}

std::atomic<int> pins_held{0};
std::atomic<int> pins_waiting{0};
std::atomic<int> copies_until_one_fails{0};
std::atomic<int> creates{0}, releases{0}, maps{0}, unmaps{0}, accesses{0};
std::atomic<int> failing_queries{0};

// What would break another thread's capture in global mode (CUDA driver API,
// cuThreadExchangeStreamCaptureMode: "potentially unsafe" calls), of threads that are not the program's.
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
thread_local bool is_programs_thread = false;
std::atomic<int> calls_that_break_captures{0};

void note_unsafe_call() {
  if (!is_programs_thread && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) calls_that_break_captures++;
}

// A driver that takes its time to page-lock; for 20 s at most, so that a test that never lets go ends.
void wait_while_held() {
  pins_waiting++;
  for (int i = 0; i < 20'000 && pins_held; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  pins_waiting--;
}

bool this_copy_fails() {
  int left = copies_until_one_fails;
  while (left > 0 && !copies_until_one_fails.compare_exchange_weak(left, left - 1)) {
  }
  return left == 1;
}

// In a stream's turn, before each copy of a driver that lacks speed.
void take_time(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

// A handle holds the place in its last bit: CUDA's do not say it.
CUmemGenericAllocationHandle pack(Frame frame) {
  return frame.handle * 2 + (frame.place == Place::host ? 1 : 0);
}
Frame unpack(CUmemGenericAllocationHandle handle) {
  return {handle / 2, handle % 2 == 1 ? Place::host : Place::device};
}

std::byte* pointer(CUdeviceptr at) { return reinterpret_cast<std::byte*>(at); }
Stream ours(CUstream stream) { return reinterpret_cast<Stream>(stream); }
Event ours(CUevent event) { return reinterpret_cast<Event>(event); }

}  // namespace

extern "C" {

void fake_cuda_hold_pins(int hold) { pins_held = hold; }
int fake_cuda_pins_waiting() { return pins_waiting; }
void fake_cuda_fail_copy(int number) { copies_until_one_fails = number; }
void fake_cuda_fail_queries(int fail) { failing_queries = fail; }
void fake_cuda_this_is_the_programs_thread() { is_programs_thread = true; }
int fake_cuda_calls_that_break_captures() { return calls_that_break_captures; }
FakeCudaCalls fake_cuda_calls() { return {creates, releases, maps, unmaps, accesses}; }

CUresult cuInit(unsigned) { return lacks("init") ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; }

CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OF_THE_FAKE";
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult, const char** text) {
  *text = nullptr;  // as for a code that the driver does not know
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice) {
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(bytes));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      *value = lacks("vmm") ? 0 : 1;
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      *value = 0;
      break;
    case maps_host_numa_memory:
      *value = lacks("host") ? 0 : 1;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;  // an attribute newer than the driver
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  retained++;
  *context = the_context();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  return retained.fetch_sub(1) > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  if (context != the_context()) return CUDA_ERROR_INVALID_CONTEXT;
  contexts_pushed++;
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  if (contexts_pushed == 0) return CUDA_ERROR_INVALID_CONTEXT;
  contexts_pushed--;
  *context = the_context();
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const Memory memory = emulated().memory();
  *free_bytes = memory.free_bytes;
  *total_bytes = memory.total_bytes;
  return in_context(0);
}

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp* wanted,
                                       CUmemAllocationGranularity_flags) {
  if (wanted->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  *bytes = emulated().frame_bytes();
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* out, std::size_t bytes, std::size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  if (alignment != emulated().frame_bytes() || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::byte* base = nullptr;
  const int error = emulated().reserve_address(bytes, &base);
  if (error == 0) *out = reinterpret_cast<CUdeviceptr>(base);
  return result_of(error);
}

CUresult cuMemAddressFree(CUdeviceptr at, std::size_t bytes) {
  return result_of(emulated().release_address(pointer(at), bytes));
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t bytes, const CUmemAllocationProp* wanted,
                     unsigned long long flags) {
  creates++;
  const bool on_host = wanted->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  const bool on_device = wanted->location.type == CU_MEM_LOCATION_TYPE_DEVICE && wanted->location.id == 0;
  const bool direct = wanted->allocFlags.gpuDirectRDMACapable == 1;
  if (bytes != emulated().frame_bytes() || flags != 0 || on_host == on_device || direct != on_device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Frame frame;
  const int error = emulated().create_frame(on_host ? Place::host : Place::device, &frame);
  if (error == 0) *out = pack(frame);
  return result_of(error);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  releases++;
  return result_of(emulated().destroy_frame(unpack(handle)));
}

CUresult cuMemMap(CUdeviceptr at, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  maps++;
  if (bytes != emulated().frame_bytes() || offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Frame frame = unpack(handle);
  return result_of(emulated().map(pointer(at), {&frame, 1}));
}

CUresult cuMemUnmap(CUdeviceptr at, std::size_t bytes) {
  unmaps++;
  return result_of(emulated().unmap(pointer(at), bytes));
}

CUresult cuMemSetAccess(CUdeviceptr, std::size_t, const CUmemAccessDesc* access, std::size_t count) {
  accesses++;
  if (lacks("access")) return CUDA_ERROR_UNKNOWN;
  const bool right = count == 1 && access->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                     access->location.id == 0 && access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister(void* host, std::size_t bytes, unsigned) {
  note_unsafe_call();
  wait_while_held();
  if (lacks("pins")) return CUDA_ERROR_OUT_OF_MEMORY;
  return in_context(emulated().pin(host, bytes));
}

CUresult cuMemHostUnregister(void* host) {
  note_unsafe_call();
  return in_context(emulated().unpin(host));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  if (this_copy_fails()) return CUDA_ERROR_INVALID_VALUE;
  if (lacks("speed")) emulated().call_host(ours(stream), take_time, nullptr);
  return in_context(emulated().copy(ours(stream), pointer(to), pointer(from), bytes, Way::on_device));
}

CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  Stream stream = nullptr;
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const int error = emulated().create_stream(&stream);
  if (error == 0) *out = reinterpret_cast<CUstream>(stream);
  return in_context(error);
}

CUresult cuStreamSynchronize(CUstream stream) {
  Event event = nullptr;
  int error = emulated().create_event(&event);
  if (error == 0) error = emulated().record(event, ours(stream));
  if (error == 0) error = emulated().synchronize(event);
  emulated().destroy_event(event);
  return in_context(error);
}

CUresult cuStreamDestroy(CUstream stream) { return in_context(emulated().destroy_stream(ours(stream))); }

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : in_context(emulated().wait(ours(stream), ours(event)));
}

CUresult cuEventCreate(CUevent* out, unsigned flags) {
  Event event = nullptr;
  if ((flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  const int error = emulated().create_event(&event);
  if (error == 0) *out = reinterpret_cast<CUevent>(event);
  return in_context(error);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return in_context(emulated().record(ours(event), ours(stream)));
}

CUresult cuEventQuery(CUevent event) {
  note_unsafe_call();
  return failing_queries != 0 ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                              : in_context(emulated().query(ours(event)));
}

CUresult cuEventSynchronize(CUevent event) {
  note_unsafe_call();
  return in_context(emulated().synchronize(ours(event)));
}

CUresult cuEventDestroy(CUevent event) { return in_context(emulated().destroy_event(ours(event))); }

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  return in_context(emulated().call_host(ours(stream), function, argument));
}

#ifndef FAKE_CUDA_IS_OLD
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}
#endif

}  // extern "C"
