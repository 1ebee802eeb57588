#include "liballoc/heap/discards.h"

#include <algorithm>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t runs_at_once = 64;

}  // namespace

// Inside one gate the kernel drops the pages and the pager forgets what lies elsewhere: what left or came
// back in between would keep what it had, or be taken for damaged. Nothing is forgotten that the kernel did
// not drop.
int Discards::discard_step(std::byte* begin, std::byte* end, int advice) {
  const InsideGate gate(guarded_);
  const int error = os::advise(begin, static_cast<std::size_t>(end - begin), advice);
  if (error == 0 && guarded_.pager.is_paging()) guarded_.pager.forget(begin, end);
  return error;
}

// In steps, so that the agent and other threads get in meanwhile. MADV_REMOVE is for shared memory. What is
// freed lazily (MADV_FREE) may vanish from a frame, or from under the agent's eyes, so it is dropped at once,
// which the program must expect of it anyway.
int Discards::discard(void* address, std::size_t bytes, int advice) {
  auto* const begin = static_cast<std::byte*>(address);
  if (advice == MADV_REMOVE || reinterpret_cast<std::uintptr_t>(address) % os::page_bytes != 0) return EINVAL;
  if (bytes > range_.bytes_from(address)) return ENOMEM;
  if (bytes == 0) return 0;
  if (advice == MADV_FREE && guarded_.options.may_page()) advice = MADV_DONTNEED;
  const Pager& pager = guarded_.pager;
  std::byte* const end = begin + (bytes + os::page_bytes - 1) / os::page_bytes * os::page_bytes;
  int error = 0;
  for (std::byte* from = begin; from < end && error == 0;) {
    std::byte* const to =
        std::min(end, pager.runs().heap().address(pager.runs().heap().run_of(from) + runs_at_once));
    error = discard_step(from, to, advice);
    from = to;
  }
  waker_.kick();
  return error;
}

}  // namespace terrace::liballoc
