#include <cerrno>
#include <cstdlib>

#include "liballoc/gpu/terrace_gpu.h"
#include "tests/liballoc/gpu/preload/trace.h"

extern "C" int cudaMalloc(void** out, size_t bytes);

Doubles& doubles() {
  static Doubles all;
  return all;
}

void note(const std::string& call) { doubles().calls.push_back(call); }

namespace {

std::string in(int device, void* stream) {
  return " device " + std::to_string(device) + " stream " +
         std::to_string(reinterpret_cast<uintptr_t>(stream));
}

}  // namespace

extern "C" {

void* terrace_gpu_alloc(ssize_t size, int device, void* stream) {
  note("heap alloc " + std::to_string(size) + in(device, stream));
  void* inner = nullptr;
  if (doubles().heap_calls_cuda) cudaMalloc(&inner, 1);
  errno = doubles().heap_errno;
  return errno != 0 ? nullptr : std::aligned_alloc(512, (static_cast<size_t>(size) + 511) / 512 * 512);
}

void terrace_gpu_free(void* block, ssize_t size, int device, void* stream) {
  note("heap free " + std::to_string(size) + in(device, stream));
  std::free(block);
}

void terrace_gpu_end_stream(void* stream) {
  note("heap end_stream " + std::to_string(reinterpret_cast<uintptr_t>(stream)));
}

int terrace_gpu_get_statistics(int, struct terrace_gpu_statistics* out) {
  out->allocated_bytes = doubles().allocated_bytes;
  out->reserved_bytes = doubles().reserved_bytes;
  out->budget_bytes = doubles().budget_bytes;
  return 0;
}

}  // extern "C"
