#include "liballoc/heap/reserved_range.h"

#include <algorithm>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::size_t most_span = std::size_t{1} << 40;
constexpr std::size_t least_span = std::size_t{1} << 28;

}  // namespace

// At most half of what is allowed (ulimit -v, ulimit -d), as the rest of the program maps memory, too; and
// half as much again, as often as the kernel refuses.
bool ReservedRange::find_room() {
  const std::uint64_t limit = os::mapping_limit();
  if (limit != UINT64_MAX) commit_step_ = limited_commit_bytes;
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(most_span, limit / 2));
  for (std::size_t span = most; span >= least_span; span /= 2) {
    span = span / run_bytes * run_bytes;
    auto* area = static_cast<std::byte*>(os::map_anonymous(span + run_bytes, PROT_NONE));
    if (area == nullptr) continue;
    const std::size_t head = (run_bytes - reinterpret_cast<std::uintptr_t>(area) % run_bytes) % run_bytes;
    base_ = reinterpret_cast<std::uintptr_t>(area) + head;
    span_ = span;
    return true;
  }
  return false;
}

int ReservedRange::reserve() {
  if (!find_room()) return ENOMEM;
  blocks_ = arena() + BootstrapArena::bytes;
  const int error = os::protect(arena(), BootstrapArena::bytes, PROT_READ | PROT_WRITE);
  if (error != 0) release();
  return error;
}

void ReservedRange::release() {
  os::unmap(arena(), span_);
  span_ = 0;
  base_ = 0;
}

// In large steps, or else, where that is more than is allowed (ulimit -d), in the smallest.
bool ReservedRange::commit(std::uint32_t top_granule) {
  const std::size_t needed = std::size_t{top_granule} * granule_bytes;
  if (needed <= committed_) return true;
  const std::size_t limit = block_bytes();
  for (const std::size_t step : {commit_step_, run_bytes}) {
    const std::size_t wanted = std::min((needed + step - 1) / step * step, limit);
    if (os::protect(blocks_ + committed_, wanted - committed_, PROT_READ | PROT_WRITE) != 0) continue;
    committed_ = wanted;
    return true;
  }
  return false;
}

}  // namespace terrace::liballoc
