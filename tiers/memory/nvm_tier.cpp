// The only file that knows memkind.
#include "tiers/memory/nvm_tier.h"

#include <memkind.h>
#include <sys/mman.h>

#include <cerrno>

namespace terrace::tiers {
namespace {

constexpr std::size_t arena_alignment = std::size_t{2} << 20;  // huge pages
// What memkind keeps in the file beside our block: its heap's headers and the alignment.
constexpr std::uint64_t overhead_bytes = std::uint64_t{32} << 20;

}  // namespace

int NvmTier::open_kmem(std::uint64_t capacity_bytes, std::size_t queue_depth) noexcept {
  if (memkind_check_available(MEMKIND_DAX_KMEM) != MEMKIND_SUCCESS) return ENODEV;
  if (const int error = open_space(capacity_bytes, queue_depth)) return error;
  return take_arena(MEMKIND_DAX_KMEM);
}

int NvmTier::open_directory(const char* directory, std::uint64_t capacity_bytes,
                            std::size_t queue_depth) noexcept {
  if (const int error = open_space(capacity_bytes, queue_depth)) return error;
  memkind* kind = nullptr;
  if (memkind_create_pmem(directory, capacity_bytes + overhead_bytes, &kind) != MEMKIND_SUCCESS)
    return ENODEV;
  owns_kind_ = true;
  return take_arena(kind);
}

int NvmTier::take_arena(memkind* kind) noexcept {
  kind_ = kind;
  void* taken = nullptr;
  if (memkind_posix_memalign(kind, &taken, arena_alignment, space().capacity_bytes) != 0) return ENOMEM;
  use_arena(static_cast<std::byte*>(taken));
  return 0;
}

void NvmTier::close() noexcept {
  if (arena() != nullptr) memkind_free(kind_, arena());
  if (owns_kind_) memkind_destroy_kind(kind_);
}

// DONTNEED frees private memory, REMOVE the blocks of a shared file; each is refused
// or harmless for the other.
void NvmTier::discard(const Extent& extent) noexcept {
  std::byte* const place = arena() + extent.offset;
  ::madvise(place, extent.bytes, owns_kind_ ? MADV_REMOVE : MADV_DONTNEED);
}

}  // namespace terrace::tiers
