// See sealed.h.
#include "tiers/records/sealed.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace terrace::records {

void seal(std::string* bytes) { put(bytes, std::uint64_t{XXH3_64bits(bytes->data(), bytes->size())}); }

bool is_sealed(std::string_view bytes) {
  if (bytes.size() < seal_bytes) return false;
  const std::size_t content = bytes.size() - seal_bytes;
  return get<std::uint64_t>(bytes, content) == XXH3_64bits(bytes.data(), content);
}

}  // namespace terrace::records
