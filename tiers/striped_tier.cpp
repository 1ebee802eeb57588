// Which drive is next, and the drives' queues as one.
#include "tiers/striped_tier.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "tiers/extent_allocator.h"
#include "tiers/high_descriptor.h"

namespace terrace::tiers {
namespace {

constexpr std::uint64_t heaviest = 256;  // times 4 TiB times the drives: far from 63 bits

// Nothing that the drive did: its queue is full, or what was asked for cannot be done anywhere.
bool is_callers(int error) noexcept {
  return error == EAGAIN || error == EINVAL || error == EROFS || error == EFAULT;
}

int watch(int epoll_fd, int fd) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

}  // namespace

// ---- a drive ----------------------------------------------------------------------------------------------

bool StripedTier::Member::is_ready_for(std::uint64_t wanted) const noexcept {
  return wanted < refused_bytes && rest.load(std::memory_order_relaxed) == 0;
}

std::int64_t StripedTier::Member::earned(std::uint64_t wanted) const noexcept {
  return is_ready_for(wanted) ? static_cast<std::int64_t>(wanted * weight) : 0;
}

int StripedTier::Member::reserve(std::uint64_t wanted, Extent* out) noexcept {
  was_asked = true;
  Extent extent;
  const int error = tier->reserve(wanted, &extent);
  if (error == 0) {
    *out = {first + extent.offset, extent.bytes};
  } else if (!is_callers(error)) {
    refused_bytes = std::min(refused_bytes, wanted);
  }
  return error;
}

void StripedTier::Member::note(int error) noexcept {
  if (error != 0 && !is_callers(error)) rest.store(rest_extents, std::memory_order_relaxed);
}

// A failure that is noted meanwhile wins.
void StripedTier::Member::count_extent() noexcept {
  std::uint32_t left = rest.load(std::memory_order_relaxed);
  if (left > 0) rest.compare_exchange_strong(left, left - 1, std::memory_order_relaxed);
}

// ---- opening ----------------------------------------------------------------------------------------------

int StripedTier::open(std::span<const Drive> drives) noexcept {
  if (count_ > 0) return EBUSY;
  if (drives.empty() || drives.size() > most_drives) return EINVAL;
  for (const Drive& drive : drives)
    if (drive.tier == nullptr) return EINVAL;
  std::uint64_t first = 0;
  queue_depth_ = drives[0].tier->queue_depth();
  for (const Drive& drive : drives) {
    Member& member = members_[count_++];
    member.tier = drive.tier;
    member.place = drive.place;
    member.first = first;
    member.bytes = drive.tier->space().capacity_bytes;
    first += member.bytes;
    queue_depth_ = std::min(queue_depth_, drive.tier->queue_depth());
  }
  const int error = open_waiter();
  if (error != 0) close();
  return error;
}

void StripedTier::close() noexcept {
  close_waiter();
  for (Member& member : members()) {
    member.credit = 0;
    member.refused_bytes = UINT64_MAX;
    member.rest.store(0);
  }
  count_ = queue_depth_ = polled_first_ = 0;
}

// Drives whose completions are ready at once have nothing to wait for.
int StripedTier::open_waiter() noexcept {
  const auto waits = [](const Member& member) { return member.tier->wait_fd() >= 0; };
  if (std::none_of(members().begin(), members().end(), waits)) return 0;
  epoll_fd_ = move_to_high_number(::epoll_create1(EPOLL_CLOEXEC));
  int error = epoll_fd_ < 0 ? errno : 0;
  for (const Member& member : members())
    if (error == 0 && waits(member)) error = watch(epoll_fd_, member.tier->wait_fd());
  if (error != 0) close_waiter();
  return error;
}

// By system call: close() may be the program's, or our own wrapper of it.
void StripedTier::close_waiter() noexcept {
  if (epoll_fd_ >= 0) ::syscall(SYS_close, epoll_fd_);
  epoll_fd_ = -1;
}

// The epoll set is the parent's, and watches the parent's rings. Each drive is reopened whatever became of
// the others, as none may be left with what is the parent's.
int StripedTier::reopen_after_fork() noexcept {
  close_waiter();
  int error = 0;
  for (Member& member : members())
    if (const int found = member.tier->reopen_after_fork(); error == 0) error = found;
  return error != 0 ? error : open_waiter();
}

// ---- space ------------------------------------------------------------------------------------------------

Space StripedTier::space() const noexcept {
  Space sum;
  for (const Member& member : members()) {
    const Space part = member.tier->space();
    sum.capacity_bytes += part.capacity_bytes;
    sum.used_bytes += part.used_bytes;
  }
  return sum;
}

std::uint64_t StripedTier::capacity_bytes() const noexcept {
  return count_ == 0 ? 0 : members_[count_ - 1].first + members_[count_ - 1].bytes;
}

// In units, whose product fits into 64 bits. Rounded down: together they stay within the limit.
void StripedTier::set_limit(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t unit = ExtentAllocator::unit_bytes;
  const std::uint64_t whole = capacity_bytes() / unit;
  for (Member& member : members()) {
    const bool is_none = bytes >= capacity_bytes();
    member.tier->set_limit(is_none ? bytes : bytes / unit * (member.bytes / unit) / whole * unit);
    member.refused_bytes = UINT64_MAX;
  }
}

bool StripedTier::give_space_back(bool all) noexcept {
  bool is_more = false;
  for (Member& member : members()) is_more |= member.tier->give_space_back(all);
  return is_more;
}

int StripedTier::reserve(std::uint64_t bytes, Extent* out) noexcept {
  if (bytes == 0) return EINVAL;
  if (bytes > capacity_bytes()) return ENOSPC;
  weigh();
  int error = 0;
  while (Member* member = next_for(bytes)) {
    const int refusal = member->reserve(bytes, out);
    if (refusal == 0) {
      charge(*member, bytes);
      return 0;
    }
    if (error == 0 || refusal == ENOSPC) error = refusal;
  }
  return error;
}

// By the space that is left, the emptiest drive's being `heaviest`.
void StripedTier::weigh() noexcept {
  std::uint64_t most = 1;
  for (Member& member : members()) {
    const Space space = member.tier->space();
    member.weight = space.capacity_bytes - space.used_bytes;
    member.was_asked = false;
    most = std::max(most, member.weight);
  }
  for (Member& member : members()) member.weight = member.weight * heaviest / most;
}

// The drive with the most credit among those that were not asked yet; one that is ready before all others.
StripedTier::Member* StripedTier::next_for(std::uint64_t bytes) noexcept {
  Member* best = nullptr;
  const auto is_better = [&](const Member& member) {
    const bool ready = member.is_ready_for(bytes);
    if (best == nullptr || ready != best->is_ready_for(bytes)) return best == nullptr || ready;
    return member.credit + member.earned(bytes) > best->credit + best->earned(bytes);
  };
  for (Member& member : members())
    if (!member.was_asked && is_better(member)) best = &member;
  return best;
}

// All credit together stays zero, so that none of it grows without bound.
void StripedTier::charge(Member& taker, std::uint64_t bytes) noexcept {
  for (Member& member : members()) {
    const std::int64_t earned = member.earned(bytes);
    member.credit += earned;
    taker.credit -= earned;
    member.count_extent();
  }
}

void StripedTier::release(const Extent& extent) noexcept {
  Member* member = member_at(extent.offset);
  assert(member != nullptr && "release() of an extent that is not reserved");
  if (member == nullptr) return;
  member->tier->release({extent.offset - member->first, extent.bytes});
  member->refused_bytes = UINT64_MAX;
}

// ---- transfers --------------------------------------------------------------------------------------------

StripedTier::Member* StripedTier::member_at(std::uint64_t offset) noexcept {
  for (Member& member : members())
    if (member.holds(offset)) return &member;
  return nullptr;
}

const char* StripedTier::place_of(std::uint64_t offset) const noexcept {
  for (const Member& member : members())
    if (member.holds(offset)) return member.place;
  return "";
}

const char* StripedTier::io() const noexcept {
  for (const Member& member : members())
    if (member.tier->wait_fd() < 0) return member.tier->io();
  return count_ > 0 ? members_[0].tier->io() : "none";
}

std::size_t StripedTier::in_flight() const noexcept {
  std::size_t sum = 0;
  for (const Member& member : members()) sum += member.tier->in_flight();
  return sum;
}

// What reaches over a drive's end is no part of an extent: the drive refuses it.
int StripedTier::submit(const Transfer& transfer) noexcept {
  Member* member = member_at(transfer.extent.offset);
  if (member == nullptr) return EINVAL;
  if (in_flight() >= queue_depth_) return EAGAIN;
  Transfer inner = transfer;
  inner.extent.offset -= member->first;
  const int error = member->tier->submit(inner);
  member->note(error);
  return error;
}

// Each time another drive is first, so that none waits for room behind the others for ever.
std::size_t StripedTier::poll(std::span<Completion> out) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < count_; ++i)
    count += poll_member(members_[(polled_first_ + i) % count_], out.subspan(count));
  if (count_ > 0) polled_first_ = (polled_first_ + 1) % count_;
  return count;
}

std::size_t StripedTier::poll_member(Member& member, std::span<Completion> out) noexcept {
  const std::size_t count = member.tier->poll(out);
  for (const Completion& done : out.first(count)) member.note(done.error);
  return count;
}

}  // namespace terrace::tiers
