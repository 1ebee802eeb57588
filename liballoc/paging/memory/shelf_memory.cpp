#include "liballoc/paging/memory/shelf_memory.h"

#include <cerrno>

#include "liballoc/base/os.h"
#include "liballoc/paging/runs/run.h"

namespace terrace::liballoc {

static_assert(tiers::slab_bytes == run_bytes);

void ShelfMemory::lend_to(tiers::Tier& tier, Mover& mover) {
  mover_ = &mover;
  tier.set_memory_source(this);
}

void ShelfMemory::unlock() const {
  if (arena_ != nullptr) os::unlock(arena_, bytes_);
}

// Pages move only to where touches are watched. Nobody touches an empty slab.
int ShelfMemory::adopt(std::byte* arena, std::uint64_t bytes) noexcept {
  if (mover_->kind() != MoverKind::move) return ENOTSUP;
  if (arena_ != nullptr) return EBUSY;
  os::unlock(arena, bytes);  // after mlockall(MCL_FUTURE) it was born locked, and frames are not
  if (const int error = mover_->adopt_frames(arena, bytes)) return error;
  arena_ = arena;
  bytes_ = bytes;
  return 0;
}

int ShelfMemory::fill(std::byte* slab) noexcept {
  const std::uint32_t frame = staging_.take_free();
  if (frame == none) return ENOMEM;
  if (const int error = mover_->pass_on(staging_.address(frame), slab)) {
    budget_.lose(staging_.release(frame));
    return error;
  }
  staging_.give_absent(frame);
  budget_.lose(pages_per_run);
  budget_.keep(budget_.kept_runs() + 1);
  return 0;
}

void ShelfMemory::take(std::byte* slab) noexcept {
  const bool is_frame = to_frame(slab);
  if (!is_frame) os::advise(slab, run_bytes, MADV_DONTNEED);
  budget_.keep(budget_.kept_runs() - 1);
  if (is_frame) budget_.gain(pages_per_run);
}

bool ShelfMemory::to_frame(std::byte* slab) noexcept {
  const std::uint32_t frame = staging_.take_absent();
  if (frame == none) return false;
  if (mover_->pass_on(slab, staging_.address(frame)) != 0) {
    staging_.give_absent(frame);
    return false;
  }
  staging_.note_memory(frame, pages_per_run, false);
  staging_.release(frame);
  return true;
}

}  // namespace terrace::liballoc
