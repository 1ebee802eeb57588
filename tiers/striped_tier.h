// Several tiers as one: a pool over the drives that a machine has, faster by their number and as large as
// all.
//
// An extent lies on one drive whole, and extents that are reserved one after another lie on different ones.
// The pager has several 2 MiB runs on their way at any time, so that all drives work without any of them
// being asked for slivers (docs/decisions/022-striping.md). The drives' offsets are put end to end: an offset
// tells its drive, and no map is kept.
//
//      offset   0          a               a+b      a+b+c
//               |-drive 0--|----drive 1----|-drive 2-|
//
// Who is next: each drive earns credit for what is reserved, in proportion to the space that it has left, and
// the one with the most credit takes the extent and pays for it. Equal drives take turns; a larger or emptier
// one takes more of them, and no drive is given a long row at once. Two kinds of drives are asked last, when
// no other has room:
//   * one that had no room for so much (its disk is full, whatever its capacity says), until something on it
//     is released;
//   * one on which a transfer failed, for the next `rest_extents` extents. What it stores stays readable as
//     far as it can be read. Nothing is stored twice: a drive that dies takes its part of the data along.
//
// Like an adaptor this owns nothing: the drives outlive it. No malloc anywhere.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tiers/tier.h"

namespace terrace::tiers {

class StripedTier final : public Tier {
 public:
  static constexpr std::size_t most_drives = 8;
  // 8 GiB of whole runs: a drive that fails again costs one pause of the pager in that time, not one in every
  // few extents.
  static constexpr std::uint32_t rest_extents = 4096;

  struct Drive {
    Tier* tier = nullptr;
    const char* place = "";  // for messages, such as a directory; stays the caller's
  };

  constexpr StripedTier() = default;
  ~StripedTier() override { close(); }

  // The drives are open and empty. 0; EINVAL: none, too many, or one missing; EBUSY: open already; or the
  // errno of the descriptor to wait for (EMFILE, ENOMEM).
  int open(std::span<const Drive> drives) noexcept;
  // Leaves the drives open. Also done on destruction.
  void close() noexcept;

  const char* name() const noexcept override { return "striped"; }
  // Of the drives whose transfers block submit(), if any; else of all.
  const char* io() const noexcept override;
  Space space() const noexcept override;
  // Each drive has the part of the limit that it has of the capacity.
  void set_limit(std::uint64_t bytes) noexcept override;
  bool give_space_back(bool all) noexcept override;
  // ENOSPC when that is one drive's answer and none has room; else the first drive's.
  int reserve(std::uint64_t bytes, Extent* out) noexcept override;
  void release(const Extent& extent) noexcept override;
  int submit(const Transfer& transfer) noexcept override;
  std::size_t poll(std::span<Completion> out) noexcept override;
  int wait_fd() const noexcept override { return epoll_fd_; }
  std::size_t in_flight() const noexcept override;
  // Of the shallowest drive: so many may all meet on one.
  std::size_t queue_depth() const noexcept override { return queue_depth_; }
  const char* place_of(std::uint64_t offset) const noexcept override;
  int reopen_after_fork() noexcept override;

 private:
  struct Member {
    bool holds(std::uint64_t offset) const noexcept { return offset >= first && offset - first < bytes; }
    bool is_ready_for(std::uint64_t wanted) const noexcept;
    std::int64_t earned(std::uint64_t wanted) const noexcept;
    int reserve(std::uint64_t wanted, Extent* out) noexcept;
    void note(int error) noexcept;
    void count_extent() noexcept;

    Tier* tier = nullptr;
    const char* place = "";
    std::uint64_t first = 0;  // where its offsets begin
    std::uint64_t bytes = 0;
    std::uint64_t weight = 0;  // these two of the reservation that is being made
    bool was_asked = false;
    std::int64_t credit = 0;
    std::uint64_t refused_bytes = UINT64_MAX;  // so much had no room, nor has more
    std::atomic<std::uint32_t> rest{0};        // extents; set by {submit, poll}, counted down by reserve()
  };

  std::span<Member> members() noexcept { return {members_.data(), count_}; }
  std::span<const Member> members() const noexcept { return {members_.data(), count_}; }
  Member* member_at(std::uint64_t offset) noexcept;
  std::uint64_t capacity_bytes() const noexcept;
  void weigh() noexcept;
  Member* next_for(std::uint64_t bytes) noexcept;
  void charge(Member& taker, std::uint64_t bytes) noexcept;
  std::size_t poll_member(Member& member, std::span<Completion> out) noexcept;
  int open_waiter() noexcept;
  void close_waiter() noexcept;

  std::array<Member, most_drives> members_{};
  std::size_t count_ = 0;
  std::size_t queue_depth_ = 0;
  std::size_t polled_first_ = 0;
  int epoll_fd_ = -1;
};

}  // namespace terrace::tiers
