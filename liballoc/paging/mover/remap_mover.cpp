#include "liballoc/paging/mover/remap_mover.h"

#include <cerrno>

#include "liballoc/base/os.h"

namespace terrace::liballoc {

int RemapMover::take(std::byte* run, std::byte* frame, bool /*may_have_holes*/) {
  return os::remap_keeping(run, run_bytes, frame);
}

int RemapMover::take_pages(std::byte* run, std::byte* frame, const PageSet& /*pages*/) {
  return os::remap_keeping(run, run_bytes, frame);
}

int RemapMover::take_fresh(std::byte* fresh, std::byte* frame) {
  return os::remap_keeping(fresh, run_bytes, frame);
}

int RemapMover::put_mapping(std::byte* frame, std::byte* run) {
  if (const int error = os::remap_keeping(frame, run_bytes, run); error != 0) return error;
  if (userfault_.watch(run, run_bytes) != 0) watching_.note_unwatched();
  userfault_.wake(run, run_bytes);
  return 0;
}

int RemapMover::put(std::byte* frame, std::byte* run, bool* frame_keeps_memory) {
  if (put_mapping(frame, run) == 0) return 0;
  // Too many mappings, most likely: a copy needs none.
  std::size_t done = 0;
  const int error = userfault_.copy_run(frame, run, &done, run_bytes);
  *frame_keeps_memory = error == 0;
  return error != 0 && done > 0 ? ENOTRECOVERABLE : error;
}

}  // namespace terrace::liballoc
