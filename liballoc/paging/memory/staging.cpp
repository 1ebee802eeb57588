#include "liballoc/paging/memory/staging.h"

#include "liballoc/base/os.h"
#include "liballoc/paging/runs/page_set.h"
#include "liballoc/paging/runs/run.h"

namespace terrace::liballoc {

int Staging::initialise(std::uint32_t frames, Mover* mover) {
  const std::size_t bytes = std::size_t{frames} * run_bytes;
  auto* area = static_cast<std::byte*>(os::map_anonymous(bytes + run_bytes, PROT_READ | PROT_WRITE));
  auto* stacks = os::map_anonymous(2 * std::size_t{frames} * sizeof(std::uint32_t), PROT_READ | PROT_WRITE);
  memory_ = static_cast<std::uint16_t*>(
      os::map_anonymous(std::size_t{frames} * sizeof(std::uint16_t), PROT_READ | PROT_WRITE));
  if (area == nullptr || stacks == nullptr || memory_ == nullptr) return ENOMEM;
  const std::size_t head = (run_bytes - reinterpret_cast<std::uintptr_t>(area) % run_bytes) % run_bytes;
  base_ = area + head;
  frames_ = frames;
  absent_ = static_cast<std::uint32_t*>(stacks);
  free_ = absent_ + frames;
  unlock();  // after mlockall(MCL_FUTURE) it was born locked
  os::advise(base_, bytes, MADV_HUGEPAGE);
  os::advise(base_, bytes, MADV_DONTFORK);
  for (std::uint32_t frame = frames; frame-- > 0;) give_absent(frame);
  return mover->adopt_frames(base_, bytes);
}

void Staging::unlock() { os::unlock(base_, std::size_t{frames_} * run_bytes); }

void Staging::reset_after_fork() {
  absent_count_ = 0;
  free_count_ = 0;
  frames_ = 0;
}

std::uint32_t Staging::take_absent() { return absent_count_ == 0 ? none : absent_[--absent_count_]; }
void Staging::give_absent(std::uint32_t frame) {
  memory_[frame] = 0;
  absent_[absent_count_++] = frame;
}
std::uint32_t Staging::take_free() { return free_count_ == 0 ? none : free_[--free_count_]; }

void Staging::note_memory(std::uint32_t frame, std::uint32_t pages, bool small) {
  memory_[frame] = static_cast<std::uint16_t>(pages | (small ? small_bit : 0U));
}

std::uint32_t Staging::release(std::uint32_t frame) {
  if (memory_[frame] != pages_per_run) return discard(frame);
  free_[free_count_++] = frame;
  return 0;
}

std::uint32_t Staging::drop_free() {
  const std::uint32_t frame = take_free();
  return frame == none ? 0 : discard(frame);
}

std::uint32_t Staging::discard(std::uint32_t frame) {
  const std::uint32_t pages = memory_of(frame);
  os::advise(address(frame), run_bytes, MADV_DONTNEED);
  give_absent(frame);
  return pages;
}

void Staging::expose(std::uint32_t frame) { os::advise(address(frame), run_bytes, MADV_DOFORK); }
void Staging::hide(std::uint32_t frame) { os::advise(address(frame), run_bytes, MADV_DONTFORK); }

}  // namespace terrace::liballoc
