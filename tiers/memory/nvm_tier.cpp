#include "tiers/memory/nvm_tier.h"

#include <algorithm>
#include <cerrno>

#include "tiers/file_transfer.h"
#include "tiers/memory/nvm_file.h"

namespace terrace::tiers {
namespace {

// A full place says no to each extent; others may have made room after so many.
constexpr unsigned refusals_before_asking = 1024;

}  // namespace

int NvmTier::open(int fd, std::uint64_t capacity_bytes, std::size_t queue_depth) noexcept {
  if (file_.fd() >= 0) return EBUSY;
  if (const int error = open_space(capacity_bytes, queue_depth)) return error;
  if (const int error = file_.adopt(fd)) {
    close_space();
    return error;
  }
  nodes_ = nodes_of(fd);
  return 0;
}

void NvmTier::close() noexcept {
  file_.close();
  close_space();
  nodes_ = {};
  taken_bytes_ = 0;
  refusals_left_ = 0;
}

int NvmTier::carry_out(const Transfer& transfer) noexcept { return transfer_by_calls(file_, transfer); }

int NvmTier::back(const Extent& extent) noexcept {
  const std::uint64_t end = extent.offset + whole_units(extent.bytes);
  if (end <= taken_bytes_) return 0;
  if (refusals_left_ > 0) {
    --refusals_left_;
    return ENOSPC;
  }
  const int error = nodes_.is_empty() ? grow(end) : grow_on_nodes(end);
  if (error != 0) refusals_left_ = refusals_before_asking;
  return error;
}

int NvmTier::grow(std::uint64_t end) noexcept {
  if (const int error = file_.grow(end, step_bytes, space().capacity_bytes)) return error;
  taken_bytes_ = file_.allocated_bytes();
  return 0;
}

// Nothing is taken ahead: pages that are written whole need not be zeroed first.
int NvmTier::grow_on_nodes(std::uint64_t end) noexcept {
  const std::uint64_t wanted = std::min(std::max(end, taken_bytes_ + step_bytes), space().capacity_bytes);
  if (wanted > file_size_limit()) return EFBIG;
  if (free_bytes(nodes_) < wanted - taken_bytes_ + left_on_nodes_bytes) return ENOSPC;
  taken_bytes_ = wanted;
  return 0;
}

}  // namespace terrace::tiers
