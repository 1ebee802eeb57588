#include "liballoc/checksum.h"

namespace terrace::liballoc {

std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t generation) {
  using Function = std::uint64_t (*)(const void*, std::size_t, std::uint64_t);
  static constinit Function chosen = nullptr;
  if (chosen == nullptr) {
    chosen = __builtin_cpu_supports("avx2") ? checksum_avx2 : checksum_sse2;
  }
  return chosen(data, bytes, generation);
}

}  // namespace terrace::liballoc
