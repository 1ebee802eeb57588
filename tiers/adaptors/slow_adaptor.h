// Makes a tier as slow as a given device: a fixed latency and a bandwidth that all transfers share.
//
// The device is a server with one queue: a transfer occupies it for bytes / bandwidth from the moment it is
// free, and its completion is held back for the latency on top.
//
//      busy   |--t1--|----t2----|--t3--|
//      due           t1+L       t2+L   t3+L         L: latency
//
// Bytes are moved by the wrapped tier at once; only completions wait. The clock is CLOCK_MONOTONIC, and a
// transfer is never early. wait_fd() is an epoll descriptor over a timer and the wrapped tier's own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tiers/adaptors/adaptor.h"
#include "tiers/fixed_queue.h"

namespace terrace::tiers {

class SlowAdaptor final : public TierAdaptor {
 public:
  struct Speed {
    std::uint64_t latency_ns = 0;
    std::uint64_t bytes_per_second = 0;  // 0: as fast as the wrapped tier
  };

  // The wrapped tier must have nothing in flight.
  SlowAdaptor(Tier& inner, const Speed& speed) noexcept : TierAdaptor(inner, "slow"), speed_(speed) {}
  ~SlowAdaptor() override { close_descriptors(); }

  // Makes the timer; call once before use. 0 or errno (EMFILE, ENOMEM; EBUSY when open).
  int open() noexcept;

  int submit(const Transfer& transfer) noexcept override;
  std::size_t poll(std::span<Completion> out) noexcept override;
  int wait_fd() const noexcept override { return epoll_fd_; }
  std::size_t in_flight() const noexcept override { return slots_.size(); }
  int reopen_after_fork() noexcept override;

 private:
  struct Slot {
    std::uint64_t token = 0;
    std::uint64_t due_ns = 0;
    int error = 0;
    bool moved = false;  // the wrapped tier is done with it
  };

  int open_descriptors() noexcept;
  void close_descriptors() noexcept;
  std::uint64_t due(std::uint64_t bytes) const noexcept;
  void collect() noexcept;
  void arm() noexcept;

  const Speed speed_;
  SlotTable<Slot> slots_;
  std::uint64_t busy_until_ns_ = 0;
  int timer_fd_ = -1;
  int epoll_fd_ = -1;
};

}  // namespace terrace::tiers
