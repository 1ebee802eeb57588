// Reserve and release on one side, submit and poll on the other; they share nothing
// that changes after open().
#include "tiers/nvme_tier.h"

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "tiers/file_transfer.h"
#include "tiers/monotonic_clock.h"

namespace terrace::tiers {
namespace {

constexpr std::uint64_t steps_to_limit = 16;
constexpr std::uint64_t least_step_bytes = std::uint64_t{64} << 20;
constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;  // that goes back at once
constexpr std::uint64_t least_walk_bytes = 4 * piece_bytes;    // to be found by it

bool valid(const NvmeTier::Options& options) noexcept {
  return options.queue_depth > 0 && options.queue_depth <= max_queue_depth &&
         options.grow_step_bytes <= ExtentAllocator::max_capacity_bytes;
}

}  // namespace

int NvmeTier::open(int fd, const Options& options) noexcept {
  if (!valid(options)) return EINVAL;
  if (file_.fd() >= 0) return EBUSY;
  options_ = options;
  const int error = open_parts(fd);
  if (error != 0) {
    file_.disown();
    close();
  }
  return error;
}

int NvmeTier::open_parts(int fd) noexcept {
  if (const int error = file_.adopt(fd)) return error;
  if (const int error = extents_.open(options_.capacity_bytes)) return error;
  return start_io();
}

int NvmeTier::start_io() noexcept {
  if (options_.io == Io::pread) return 0;
  const int error = ring_.init(static_cast<unsigned>(options_.queue_depth), file_.fd());
  return options_.io == Io::automatic ? 0 : error;
}

void NvmeTier::close() noexcept {
  drain();
  ring_.close();
  file_.close();
  extents_.close();
  ready_.clear();
  slots_.clear();
  limit_bytes_ = UINT64_MAX;
  needed_end_ = 0;
  punched_to_ = no_walk;
  released_bytes_ = 0;
  frozen_ = false;
}

// Buffers belong to the kernel until their completions are in.
void NvmeTier::drain() noexcept {
  Completion dropped[16];
  while (slots_.size() > 0)
    if (poll(dropped) == 0 && ring_.wait() != 0) return;
}

int NvmeTier::reserve(std::uint64_t bytes, Extent* out) noexcept {
  if (frozen_) return EROFS;
  Extent extent;
  if (const int error = extents_.reserve(bytes, &extent)) return error;
  if (const int error = back(extent); error != 0) {
    (void)extents_.release(extent);
    return error;
  }
  needed_end_ = std::max(needed_end_, extent.offset + extent.bytes);
  *out = extent;
  return 0;
}

int NvmeTier::back(const Extent& extent) noexcept {
  if (const int error = grow_to(extent.offset + extent.bytes)) return error;
  return file_.has_holes() ? file_.fill(extent.offset, extent.bytes) : 0;
}

// A step is a small part of the limit, which falls when others come to share, and no more than what is there
// already: most jobs never need a GiB, and what is given back to a drive that discards is free only later.
int NvmeTier::grow_to(std::uint64_t end) noexcept {
  const std::uint64_t limit = std::min(limit_bytes_, extents_.capacity_bytes());
  if (end > limit && end > file_.allocated_bytes()) return ENOSPC;
  const std::uint64_t doubled = std::max(file_.allocated_bytes(), least_step_bytes);
  const std::uint64_t step = std::min({options_.grow_step_bytes, limit_bytes_ / steps_to_limit, doubled});
  return file_.grow(end, step, limit);
}

// As a rule the end of the file goes alone, and slowly: the next step may need again what the last one did,
// and blocks that are made anew cost more than those that were written before. What others wait for goes at
// once, from between what is stored as well. A file system may take 200 ms for a GiB, and who calls has other
// work.
bool NvmeTier::give_space_back(bool all) noexcept {
  constexpr std::uint64_t longest_ns = 3'000'000;
  const std::uint64_t allocated = file_.allocated_bytes();
  if (frozen_ || allocated == 0) return false;
  const std::uint64_t until_ns = monotonic_ns() + longest_ns;
  const bool is_wanted = all || (allocated > limit_bytes_ && file_.taken_bytes() > limit_bytes_);
  if ((all || (is_wanted && released_bytes_ >= least_walk_bytes)) && punched_to_ == no_walk)
    punched_to_ = released_bytes_ = 0;
  const bool is_more = shrink_to(needed_bytes(is_wanted), until_ns);
  return is_more || punch_on(until_ns);
}

// From the file's beginning. Half of what was needed is forgotten in 90 s. Small remainders stay.
std::uint64_t NvmeTier::needed_bytes(bool is_wanted) noexcept {
  constexpr std::uint64_t calls_to_forget = 128;
  const std::uint64_t allocated = file_.allocated_bytes();
  const std::uint64_t end = extents_.end_of_reserved(allocated);
  const std::uint64_t remembered = needed_end_ - (needed_end_ + calls_to_forget - 1) / calls_to_forget;
  needed_end_ = is_wanted ? end : std::max(end, remembered);
  const std::uint64_t needed = (needed_end_ + least_step_bytes - 1) / least_step_bytes * least_step_bytes;
  const std::uint64_t least_spare = is_wanted ? 0 : std::max(least_step_bytes, allocated / 8);
  return needed + least_spare <= allocated ? needed : allocated;
}

bool NvmeTier::shrink_to(std::uint64_t bytes, std::uint64_t until_ns) noexcept {
  while (file_.allocated_bytes() > bytes) {
    if (file_.shrink(std::max(bytes, file_.allocated_bytes() - piece_bytes)) != 0) return false;
    if (monotonic_ns() >= until_ns) return file_.allocated_bytes() > bytes;
  }
  return false;
}

// The walk through what is free between what is stored.
bool NvmeTier::punch_on(std::uint64_t until_ns) noexcept {
  while (punched_to_ != no_walk) {
    const Extent stretch = extents_.free_stretch(punched_to_, file_.allocated_bytes());
    const std::uint64_t bytes = std::min(stretch.bytes, piece_bytes);
    punched_to_ = bytes == 0 || file_.punch(stretch.offset, bytes) != 0 ? no_walk : stretch.offset + bytes;
    if (monotonic_ns() >= until_ns) break;
  }
  return punched_to_ != no_walk;
}

void NvmeTier::release(const Extent& extent) noexcept {
  if (frozen_) return;
  released_bytes_ += extent.bytes;
  [[maybe_unused]] const bool was_reserved = extents_.release(extent);
  assert(was_reserved && "release() of an extent that is not reserved");
}

int NvmeTier::submit(const Transfer& transfer) noexcept {
  if (const int error = check_transfer(transfer, extents_.capacity_bytes())) return error;
  if (frozen_ && transfer.direction == Direction::write) return EROFS;
  if (in_flight() >= options_.queue_depth) return EAGAIN;
  if (uses_ring()) return submit_to_ring(transfer);
  ready_.push({transfer.token, transfer_by_calls(file_, transfer)});
  return 0;
}

int NvmeTier::submit_to_ring(const Transfer& transfer) noexcept {
  const std::size_t slot = slots_.take({transfer, {.total_bytes = transfer.extent.bytes}});
  if (send_rest(slot) == 0) return 0;
  slots_.release(slot);
  ready_.push({transfer.token, transfer_by_calls(file_, transfer)});
  return 0;
}

int NvmeTier::send_rest(std::uint64_t slot) noexcept {
  const Transfer& transfer = slots_[slot].transfer;
  const Piece piece = rest_of(transfer, slots_[slot].progress);
  return ring_.submit({.direction = transfer.direction,
                       .buffer = piece.buffer,
                       .bytes = static_cast<std::uint32_t>(piece.bytes),
                       .offset = piece.offset,
                       .tag = slot});
}

std::size_t NvmeTier::poll(std::span<Completion> out) noexcept {
  std::size_t count = ready_.take(out);
  if (!uses_ring()) return count;
  Uring::Result results[16];
  while (count < out.size()) {
    const std::size_t wanted = std::min(out.size() - count, std::size(results));
    const std::size_t got = ring_.reap({results, wanted});
    for (std::size_t i = 0; i < got; ++i) count += settle(results[i], &out[count]) ? 1 : 0;
    if (got < wanted) break;
  }
  return count;
}

// True when the transfer is over and *out says how; false when the rest of it has been sent on.
bool NvmeTier::settle(const Uring::Result& result, Completion* out) noexcept {
  if (!slots_.holds(result.tag)) return false;
  Slot& slot = slots_[result.tag];
  int error = 0;
  if (advance(slot.progress, result.result, &error) == Step::again) {
    if (send_rest(result.tag) == 0) return false;
    error = transfer_by_calls(file_, slot.transfer, slot.progress);
  }
  *out = {slot.transfer.token, error};
  slots_.release(result.tag);
  return true;
}

int NvmeTier::reopen_after_fork() noexcept {
  ring_.abandon_in_child();
  slots_.clear();
  ready_.clear();
  frozen_ = true;
  return start_io();
}

}  // namespace terrace::tiers
