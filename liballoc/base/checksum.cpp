#include "liballoc/base/checksum.h"

#include <atomic>

namespace terrace::liballoc {

std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t generation) {
  using Function = std::uint64_t (*)(const void*, std::size_t, std::uint64_t);
  static constinit std::atomic<Function> chosen = nullptr;  // all threads would choose the same
  Function function = chosen.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = __builtin_cpu_supports("avx2") ? checksum_avx2 : checksum_sse2;
    chosen.store(function, std::memory_order_relaxed);
  }
  return function(data, bytes, generation);
}

}  // namespace terrace::liballoc
