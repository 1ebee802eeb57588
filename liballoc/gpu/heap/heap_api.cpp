// The heap's part of the C API (terrace_gpu.h): one heap for each device, made at its first use from the
// environment, and errors in words. A device that cannot be opened is reported once and stays closed: PyTorch
// calls again and again.
//
// Heaps are never destroyed: blocks are freed by destructors that run after ours would. In a forked child the
// parent's device does not work: allocations are refused, frees ignored.
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "liballoc/gpu/heap/budget.h"
#include "liballoc/gpu/heap/heap.h"
#include "liballoc/gpu/heap/heap_session.h"
#include "liballoc/gpu/terrace_gpu.h"

namespace terrace::liballoc::gpu {
namespace {

using tiers::gpu::Device;
using tiers::gpu::Stream;

constexpr int most_devices = 64;

struct Opened {
  std::once_flag once;
  std::unique_ptr<Device> device;
  std::unique_ptr<HeapSession> session;
  std::unique_ptr<Heap> heap;  // none: could not be opened, see error
  int error = 0;
};

struct Heaps {
  std::array<Opened, most_devices> by_device;
  std::atomic<bool> forked{false};
};

Heaps* the_heaps() {
  static Heaps* const heaps = [] {
    pthread_atfork(nullptr, nullptr, [] { the_heaps()->forked.store(true, std::memory_order_relaxed); });
    return new Heaps;  // for ever
  }();
  return heaps;
}

void report(const std::string& text) { std::fprintf(stderr, "terrace: %s\n", text.c_str()); }

const char* variable(const char* name, const char* fallback) {
  const char* value = secure_getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

int budget_from_environment(const Device& device, std::uint64_t* bytes, std::string* reason) {
  const char* text = variable("TERRACE_GPU_BUDGET", nullptr);
  if (text == nullptr) return 0;
  return parse_budget(text, device.memory().total_bytes, device.frame_bytes(), bytes, reason);
}

// TERRACE_GPU names device 0; the others follow it.
int open_heap(int index, Opened* out, std::string* reason) {
  tiers::gpu::DeviceSpec spec;
  const char* text = variable("TERRACE_GPU", "cuda");
  if (const int error = tiers::gpu::parse_device(text, &spec, reason); error != 0) return error;
  spec.index += index;
  std::unique_ptr<Device> device;
  if (const int error = tiers::gpu::open_device(spec, &device, reason); error != 0) return error;
  std::uint64_t budget = 0;
  if (const int error = budget_from_environment(*device, &budget, reason); error != 0) return error;
  auto heap = std::make_unique<Heap>(*device);
  if (const int error = heap->open(budget); error != 0) {
    *reason = std::string("no address range could be reserved: ") + std::strerror(error);
    return error;
  }
  SessionOptions options;
  if (const int error = read_session_options(&options, reason); error != 0) return error;
  auto session = std::make_unique<HeapSession>(*heap, *device);
  if (const int error = session->open(options, name_on_machine(*device, index), reason); error != 0)
    return error;
  if (!session->warning().empty()) report(session->warning());
  out->device = std::move(device);
  out->session = std::move(session);
  out->heap = std::move(heap);
  return 0;
}

void open_once(int index, Opened* opened) {
  std::string reason;
  opened->error = open_heap(index, opened, &reason);
  if (opened->error == 0) return;
  report("GPU heap for device " + std::to_string(index) + " cannot be opened: " + reason +
         "; allocations on it are refused (TERRACE_GPU, TERRACE_GPU_BUDGET)");
}

// 0, or why there is no heap.
int heap_of(int device, Heap** out) {
  if (device < 0 || device >= most_devices) return EINVAL;
  Heaps* heaps = the_heaps();
  if (heaps->forked.load(std::memory_order_relaxed)) return ENODEV;
  Opened& opened = heaps->by_device[static_cast<std::size_t>(device)];
  std::call_once(opened.once, open_once, device, &opened);
  if (opened.heap == nullptr) return opened.error;
  *out = opened.heap.get();
  return 0;
}

// Functions that are told no device: the heap that has the block.
Heap* heap_with(const void* block) {
  Heaps* heaps = the_heaps();
  if (heaps->forked.load(std::memory_order_relaxed)) return nullptr;
  for (Opened& opened : heaps->by_device) {
    if (opened.heap != nullptr && opened.heap->size_of(block) > 0) return opened.heap.get();
  }
  return nullptr;
}

// Nothing is thrown through the C API; what throws here is the host's memory running out.
template <class Function>
int guarded(Function function) noexcept {
  try {
    return function();
  } catch (const std::exception&) {
    return ENOMEM;
  }
}

std::string in_words(std::uint64_t bytes, int device, int error, const terrace_gpu_statistics& s) {
  std::string text = std::to_string(bytes) + " bytes on GPU " + std::to_string(device) + " refused (" +
                     std::strerror(error) + "): " + std::to_string(s.allocated_bytes) +
                     " bytes are allocated, " + std::to_string(s.reserved_bytes) + " held, the budget is " +
                     std::to_string(s.budget_bytes);
  if (error == ENOMEM)
    text +=
        "; raise TERRACE_GPU_BUDGET, or what terraced grants (`terrace jobs`), or move tensors out of GPU "
        "memory";
  if (error == EIO)
    text += "; bytes on the GPU, or on their way back to it, are lost: go back to the last checkpoint";
  return text;
}

// Frameworks try again after a refusal, so only the first of them is reported.
void report_refusal(Heap* heap, std::uint64_t bytes, int device, int error) {
  static std::atomic<bool> reported{false};
  if (!reported.exchange(true)) report(in_words(bytes, device, error, heap->statistics()));
}

int allocate(ssize_t size, int device, void* stream, void** out) {
  Heap* heap = nullptr;
  if (size < 0) return EINVAL;
  if (const int error = heap_of(device, &heap); error != 0) return error;
  const auto bytes = static_cast<std::uint64_t>(size);
  const int error = heap->allocate(bytes, static_cast<Stream>(stream), out);
  if (error != 0) report_refusal(heap, bytes, device, error);
  return error;
}

}  // namespace
}  // namespace terrace::liballoc::gpu

using namespace terrace::liballoc::gpu;  // NOLINT: the C API stands outside

void* terrace_gpu_alloc(ssize_t size, int device, void* stream) {
  if (size == 0) return nullptr;
  void* block = nullptr;
  const int error = guarded([&] { return allocate(size, device, stream, &block); });
  if (error != 0) errno = error;
  return block;
}

void terrace_gpu_free(void* block, ssize_t, int device, void* stream) {
  if (block == nullptr || the_heaps()->forked.load(std::memory_order_relaxed)) return;
  Heap* heap = nullptr;
  int error = guarded([&] { return heap_of(device, &heap); });
  if (error == 0) error = guarded([&] { return heap->free(block, static_cast<Stream>(stream)); });
  if (error == 0) return;
  std::fprintf(stderr, "terrace: free of %p on GPU %d ignored: %s\n", block, device,
               error == EINVAL ? "no live block begins there" : std::strerror(error));
}

void terrace_gpu_init(int device_count) {
  if (device_count > most_devices) {
    std::fprintf(stderr, "terrace: of %d GPUs only the first %d have a heap\n", device_count, most_devices);
  }
}

void terrace_gpu_reset(void) {
  Heaps* heaps = the_heaps();
  if (heaps->forked.load(std::memory_order_relaxed)) return;
  for (Opened& opened : heaps->by_device) {
    if (opened.heap != nullptr) guarded([&] { return opened.heap->give_back(); });
  }
}

void terrace_gpu_memory_fraction(double fraction, int device) {
  Heap* heap = nullptr;
  int error = guarded([&] { return heap_of(device, &heap); });
  if (error == 0 && !(fraction > 0 && fraction <= 1)) error = EINVAL;
  if (error == 0) error = guarded([&] { return heap->set_budget_share(fraction); });
  if (error == 0) return;
  std::fprintf(stderr, "terrace: memory fraction %g of GPU %d refused (%s): %s; the budget stays\n", fraction,
               device, std::strerror(error),
               error == EBUSY ? "more is in use" : "it must be above 0, at most 1, and at least one frame");
}

void* terrace_gpu_base_alloc(void* block, size_t* size) {
  std::uint64_t bytes = 0;
  guarded([&] {
    Heap* heap = heap_with(block);
    bytes = heap == nullptr ? 0 : heap->size_of(block);
    return 0;
  });
  if (bytes == 0) return nullptr;
  if (size != nullptr) *size = bytes;
  return block;
}

void terrace_gpu_record_stream(void* block, void* stream) {
  const int error = guarded([&] {
    Heap* heap = heap_with(block);
    return heap == nullptr ? EINVAL : heap->record_stream(block, static_cast<Stream>(stream));
  });
  if (error != 0 && !the_heaps()->forked.load(std::memory_order_relaxed)) {
    std::fprintf(stderr, "terrace: record_stream of %p ignored: no live block begins there\n", block);
  }
}

void terrace_gpu_end_stream(void* stream) {
  Heaps* heaps = the_heaps();
  if (stream == nullptr || heaps->forked.load(std::memory_order_relaxed)) return;
  for (Opened& opened : heaps->by_device) {
    if (opened.heap != nullptr)
      guarded([&] { return opened.heap->end_stream(static_cast<Stream>(stream)), 0; });
  }
}

int terrace_gpu_evict(void* block, int keep_mapped, void* stream) {
  return -guarded([&] {
    Heap* heap = heap_with(block);
    return heap == nullptr ? EINVAL : heap->evict(block, keep_mapped != 0, static_cast<Stream>(stream));
  });
}

int terrace_gpu_offer(void* block, void* stream) {
  return -guarded([&] {
    Heap* heap = heap_with(block);
    return heap == nullptr ? EINVAL : heap->offer(block, static_cast<Stream>(stream));
  });
}

int terrace_gpu_restore(void* block, void* stream) {
  return -guarded([&] {
    Heap* heap = heap_with(block);
    return heap == nullptr ? EINVAL : heap->restore(block, static_cast<Stream>(stream));
  });
}

int terrace_gpu_get_statistics(int device, struct terrace_gpu_statistics* out) {
  return -guarded([&] {
    Heap* heap = nullptr;
    if (out == nullptr || out->size < sizeof(out->size)) return EINVAL;
    if (const int error = heap_of(device, &heap); error != 0) return error;
    terrace_gpu_statistics s = heap->statistics();
    s.size = std::min(out->size, sizeof(s));
    std::memcpy(out, &s, s.size);
    return 0;
  });
}
