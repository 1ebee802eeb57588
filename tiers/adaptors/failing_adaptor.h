// A tier that fails when told to: the n-th call, every call from the n-th on, a flipped bit, a lost device.
//
// A failed transfer is let through to the wrapped tier and its completion altered, as on a real device: it
// takes its time, it occupies the queue, and afterwards the buffer (read) or the extent (write) holds
// something undefined. Here, the buffer of a failed read is overwritten, so that a caller who ignores the
// error shows. Calls are counted from 1, per operation, since construction or the last heal().
//
//   FailingAdaptor tier(inner);
//   tier.fail_nth(FailingAdaptor::Operation::write, 3, EIO);      // once
//   tier.fail_from(FailingAdaptor::Operation::reserve, 1, ENOSPC); // until heal()
//   tier.flip_bit_in_nth_read(2, 12345);                           // silent corruption
//   tier.lose_device();                                            // EIO from everything, in flight included
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tiers/adaptors/adaptor.h"
#include "tiers/fixed_queue.h"

namespace terrace::tiers {

class FailingAdaptor final : public TierAdaptor {
 public:
  // submit: submit() itself returns the error, for either direction. read, write: the completion carries it.
  enum class Operation : std::uint8_t { reserve, submit, read, write };

  explicit FailingAdaptor(Tier& inner) noexcept : TierAdaptor(inner, "failing") {}

  // One plan per operation; a later one replaces it. `nth` counts from 1. Set before the calls concerned.
  void fail_nth(Operation operation, std::uint64_t nth, int error) noexcept;
  void fail_from(Operation operation, std::uint64_t nth, int error) noexcept;
  // `bit` is taken modulo the bits of that transfer. The completion says success.
  void flip_bit_in_nth_read(std::uint64_t nth, std::uint64_t bit) noexcept;
  void lose_device() noexcept { lost_.store(true); }
  // Forgets all plans and counts; the device is back.
  void heal() noexcept;

  int reserve(std::uint64_t bytes, Extent* out) noexcept override;
  int submit(const Transfer& transfer) noexcept override;
  std::size_t poll(std::span<Completion> out) noexcept override;
  int reopen_after_fork() noexcept override;

 private:
  struct Plan {
    std::uint64_t first = 0;  // 0: none
    std::uint64_t last = 0;
    int error = 0;
    std::uint64_t calls = 0;
  };
  struct Slot {
    Transfer transfer;
    int error = 0;
    bool flip = false;
  };

  Plan& plan(Operation operation) noexcept { return plans_[static_cast<std::size_t>(operation)]; }
  int next(Operation operation) noexcept;
  Completion finish(const Completion& inner) noexcept;
  void flip_bit(const Transfer& transfer) const noexcept;

  std::array<Plan, 4> plans_{};
  std::uint64_t flipped_read_ = 0;
  std::uint64_t flipped_bit_ = 0;
  std::atomic<bool> lost_{false};
  SlotTable<Slot> slots_;
};

}  // namespace terrace::tiers
