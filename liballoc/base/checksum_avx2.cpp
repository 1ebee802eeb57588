// XXH3 compiled for avx2; see checksum.h. The header is inlined so that each variant gets its own code.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "liballoc/base/checksum.h"

namespace terrace::liballoc {

std::uint64_t checksum_avx2(const void* data, std::size_t bytes, std::uint64_t generation) {
  return XXH3_64bits_withSeed(data, bytes, generation);
}

}  // namespace terrace::liballoc
