// What the tiers whose transfers finish inside submit() share: space, queue, the rules of tier.h.
//
// Memory-like tiers (DRAM, NVM, null) differ in how bytes get from the buffer to the extent, in what stands
// behind an extent, and in what a release gives back; those are the functions a derived class writes.
#pragma once

#include "tiers/extent_allocator.h"
#include "tiers/fixed_queue.h"
#include "tiers/tier.h"

namespace terrace::tiers {

class ImmediateTier : public Tier {
 public:
  static constexpr std::size_t default_queue_depth = 64;

  const char* io() const noexcept override { return "memcpy"; }
  Space space() const noexcept final { return extents_.space(); }
  // Extents end below it.
  void set_limit(std::uint64_t bytes) noexcept override { limit_bytes_ = bytes; }
  int reserve(std::uint64_t bytes, Extent* out) noexcept final;
  void release(const Extent& extent) noexcept final;
  int submit(const Transfer& transfer) noexcept final;
  std::size_t poll(std::span<Completion> out) noexcept final { return ready_.take(out); }
  int wait_fd() const noexcept final { return -1; }
  std::size_t in_flight() const noexcept final { return ready_.size(); }
  std::size_t queue_depth() const noexcept final { return queue_depth_; }
  int reopen_after_fork() noexcept override;

 protected:
  constexpr ImmediateTier() = default;

  // EINVAL: a queue depth of zero or above max_queue_depth, or a capacity that ExtentAllocator refuses.
  int open_space(std::uint64_t capacity_bytes, std::size_t queue_depth) noexcept;
  // Back to before open_space().
  void close_space() noexcept;

  // Moves the bytes of a checked transfer; the result becomes the completion's error.
  virtual int carry_out(const Transfer& transfer) noexcept = 0;
  // Sees to it that there are bytes behind an extent that is about to be given out. 0, or the error of
  // reserve().
  virtual int back(const Extent& extent) noexcept {
    static_cast<void>(extent);
    return 0;
  }
  // The extent's bytes are of no more use to anybody.
  virtual void discard(const Extent& extent) noexcept = 0;
  // No extent ends above. Looks through the bookkeeping.
  std::uint64_t end_of_reserved() const noexcept { return extents_.end_of_reserved(); }

 private:
  ExtentAllocator extents_;
  CompletionQueue ready_;
  std::size_t queue_depth_ = 0;
  std::uint64_t limit_bytes_ = UINT64_MAX;
  bool frozen_ = false;  // a forked child's copy: nothing is reserved, written or given back
};

}  // namespace terrace::tiers
