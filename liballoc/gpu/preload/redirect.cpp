#include "liballoc/gpu/preload/redirect.h"

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>

#include "liballoc/base/message.h"
#include "liballoc/gpu/preload/block_table.h"
#include "liballoc/gpu/preload/heap_library.h"

namespace terrace::liballoc::gpu {

namespace {

// Without a destructor of its own: other libraries free their blocks after our static objects would be gone.
union Storage {
  BlockTable table;
  constexpr Storage() : table() {}
  ~Storage() {}
};
constinit Storage storage;

constinit std::atomic<bool> given_up{false};
constinit std::atomic<bool> frees_in_streams{false};
constinit std::atomic<std::uint64_t> served{0};
// The heap's own calls to CUDA are not for the heap.
constinit thread_local bool inside = false;

class Inside {
 public:
  Inside() { inside = true; }
  ~Inside() { inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

using DeviceQuery = int (*)(int*);
using Wait = int (*)();
using StreamWait = int (*)(CudaStream);
using CaptureQuery = int (*)(CudaStream, int*);
constinit NextFunction<DeviceQuery> runtime_device(Library::runtime, "cudaGetDevice");
constinit NextFunction<int (*)(int)> runtime_set_device(Library::runtime, "cudaSetDevice");
constinit NextFunction<DeviceQuery> driver_device(Library::driver, "cuCtxGetDevice");
constinit NextFunction<Wait> runtime_wait(Library::runtime, "cudaDeviceSynchronize");
constinit NextFunction<Wait> driver_wait(Library::driver, "cuCtxSynchronize");
constinit NextFunction<StreamWait> runtime_stream_wait(Library::runtime, "cudaStreamSynchronize");
constinit NextFunction<StreamWait> driver_stream_wait(Library::driver, "cuStreamSynchronize");
constinit NextFunction<CaptureQuery> runtime_capture(Library::runtime, "cudaStreamIsCapturing");
constinit NextFunction<CaptureQuery> driver_capture(Library::driver, "cuStreamIsCapturing");
constinit NextFunction<int (*)(CudaPool*, int)> default_pool(Library::runtime, "cudaDeviceGetDefaultMemPool");
constinit NextFunction<int (*)(std::size_t*, std::size_t*)> runtime_memory(Library::runtime,
                                                                           "cudaMemGetInfo");
constinit NextFunction<int (*)(std::size_t*, std::size_t*)> driver_memory(Library::driver, "cuMemGetInfo_v2");

// The heap's number of the current device: TERRACE_GPU=cuda:1 makes device 1 the heap's first. 0; or the
// error of the interface that was asked; or pass_on for a device before the first.
int current_device(Library via, int* out) {
  int device = 0;
  auto& query = via == Library::runtime ? runtime_device : driver_device;
  const int error = heap_is_emulated() ? cuda_success : query.call_or(cuda_no_device, &device);
  if (error != cuda_success) return error;
  if (device < first_device()) return pass_on;
  *out = device - first_device();
  return cuda_success;
}

// Waits for all work on a device, which need not be the current one.
int wait_for_device(Library via, int heap_device) {
  if (heap_is_emulated()) return cuda_success;
  const int device = heap_device + first_device();
  if (via == Library::driver) return driver_wait.call_or(cuda_success);
  int before = device;
  runtime_device.call_or(cuda_success, &before);
  if (before != device) runtime_set_device.call_or(cuda_success, device);
  const int error = runtime_wait.call_or(cuda_success);
  if (before != device) runtime_set_device.call_or(cuda_success, before);
  return error;
}

int wait_for_default_stream(Library via) {
  if (heap_is_emulated() || !frees_in_streams.load(std::memory_order_relaxed)) return cuda_success;
  return (via == Library::runtime ? runtime_stream_wait : driver_stream_wait)
      .call_or(cuda_success, legacy_stream);
}

// What cannot be asked counts as captured: the next implementation knows what to do.
bool is_captured(Library via, CudaStream stream) {
  if (heap_is_emulated()) return false;
  int status = 0;
  auto& query = via == Library::runtime ? runtime_capture : driver_capture;
  return query.call_or(cuda_success, stream, &status) != cuda_success || status != 0;
}

// The emulated device has no stream for each thread.
CudaStream heap_stream(CudaStream stream) {
  if (stream == per_thread_stream) return heap_is_emulated() ? nullptr : stream;
  return stream == legacy_stream ? nullptr : stream;
}

int give_up() {
  if (!given_up.exchange(true))
    Message(Severity::warning)
        << "no GPU for Terrace's heap (see the line above); GPU memory comes from CUDA's own "
           "allocator: check TERRACE_GPU, or run terrace doctor";
  return pass_on;
}

// What needs no heap to be answered: pass_on to go on, else the answer.
int check_request(Library via, void** out, std::size_t bytes) {
  if (out == nullptr || (bytes == 0 && via == Library::driver)) return cuda_invalid_value;
  if (bytes > SSIZE_MAX) return cuda_out_of_memory;
  if (bytes != 0) return pass_on;
  *out = nullptr;
  return cuda_success;
}

int allocate_on(const HeapLibrary& heap, int device, void** out, std::size_t bytes, CudaStream stream) {
  const Inside guard;
  errno = 0;
  void* block = heap.allocate(static_cast<ssize_t>(bytes), device, heap_stream(stream));
  if (block == nullptr) return errno == ENOMEM ? cuda_out_of_memory : give_up();
  if (!storage.table.insert({reinterpret_cast<std::uintptr_t>(block), bytes, device})) {
    heap.release(block, static_cast<ssize_t>(bytes), device, heap_stream(stream));
    return cuda_out_of_memory;
  }
  served.fetch_add(1, std::memory_order_relaxed);
  *out = block;
  return cuda_success;
}

int release_block(void* block, CudaStream stream) {
  Block taken;
  if (!storage.table.take(reinterpret_cast<std::uintptr_t>(block), &taken)) return cuda_invalid_value;
  const Inside guard;
  heap_library()->release(block, static_cast<ssize_t>(taken.bytes), taken.device, heap_stream(stream));
  return cuda_success;
}

bool is_ours(void* block, Block* out) {
  return storage.table.find(reinterpret_cast<std::uintptr_t>(block), out);
}

std::uint64_t difference(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

bool is_redirecting() {
  return !inside && !given_up.load(std::memory_order_relaxed) && heap_library() != nullptr;
}

int allocate_in_stream(Library via, void** out, std::size_t bytes, CudaStream stream) {
  if (!is_redirecting()) return pass_on;
  if (const int answer = check_request(via, out, bytes); answer != pass_on) return answer;
  if (is_captured(via, stream)) return pass_on;
  int device = 0;
  if (const int error = current_device(via, &device); error != cuda_success) return error;
  return allocate_on(*heap_library(), device, out, bytes, stream);
}

int allocate(Library via, void** out, std::size_t bytes) {
  if (!is_redirecting()) return pass_on;
  if (const int answer = check_request(via, out, bytes); answer != pass_on) return answer;
  int device = 0;
  if (const int error = current_device(via, &device); error != cuda_success) return error;
  void* block = nullptr;
  int error = allocate_on(*heap_library(), device, &block, bytes, nullptr);
  if (error != cuda_success) return error;
  error = wait_for_default_stream(via);
  if (error == cuda_success) *out = block;
  if (error != cuda_success) release_block(block, nullptr);
  return error;
}

int release(Library via, void* block) {
  Block found;
  if (!is_ours(block, &found)) return pass_on;
  const int error = wait_for_device(via, found.device);
  return error == cuda_success ? release_block(block, nullptr) : error;
}

int release_in_stream(Library via, void* block, CudaStream stream) {
  Block found;
  if (!is_ours(block, &found)) return pass_on;
  if (is_captured(via, stream)) return cuda_capture_unsupported;
  frees_in_streams.store(true, std::memory_order_relaxed);
  return release_block(block, stream);
}

// A stream in which nothing was ever allocated or freed is none of the heap's.
void stream_ends(Library via, CudaStream stream) {
  if (served.load(std::memory_order_relaxed) == 0 || !is_redirecting() || is_captured(via, stream)) return;
  const Inside guard;
  heap_library()->end_stream(heap_stream(stream));
}

int memory_info(Library via, std::size_t* free_bytes, std::size_t* total_bytes) {
  if (!is_redirecting()) return pass_on;
  int device = 0;
  if (const int error = current_device(via, &device); error != cuda_success) return error;
  std::size_t device_free = 0;
  std::size_t device_total = emulated_capacity_bytes();
  auto& query = via == Library::runtime ? runtime_memory : driver_memory;
  if (!heap_is_emulated())
    if (const int error = query.call_or(cuda_no_device, &device_free, &device_total); error != 0)
      return error;
  const Inside guard;
  terrace_gpu_statistics s{};
  s.size = sizeof(s);
  if (heap_library()->statistics(device, &s) != 0) return pass_on;
  const std::uint64_t total = s.budget_bytes != 0 ? s.budget_bytes : device_total;
  std::uint64_t left = difference(total, s.allocated_bytes);
  // Other processes may have more of the device than the budget leaves them.
  if (!heap_is_emulated())
    left = std::min(left, device_free + difference(s.reserved_bytes, s.allocated_bytes));
  if (free_bytes != nullptr) *free_bytes = left;
  if (total_bytes != nullptr) *total_bytes = total;
  return cuda_success;
}

bool is_default_pool(CudaPool pool) {
  int device = 0;
  CudaPool own = nullptr;
  return current_device(Library::runtime, &device) == cuda_success &&
         default_pool.call_or(cuda_not_supported, &own, device + first_device()) == cuda_success &&
         own == pool;
}

std::uint64_t allocations_served() { return served.load(std::memory_order_relaxed); }

}  // namespace terrace::liballoc::gpu
