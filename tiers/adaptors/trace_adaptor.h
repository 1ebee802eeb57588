// Remembers the calls that a tier received, for tests to assert on.
//
// The last 4096 calls are kept in a ring of fixed size, in the order in which they returned; poll() is one
// record per completion. reserve() and submit() may run at the same time (tier.h), so places in the
// ring are taken atomically; reading is for when nothing runs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "tiers/adaptors/adaptor.h"

namespace terrace::tiers {

class TraceAdaptor final : public TierAdaptor {
 public:
  enum class Operation : std::uint8_t { reserve, release, submit, complete, reopen_after_fork };

  struct Call {
    Operation operation = Operation::reserve;
    Direction direction = Direction::read;  // submit
    Extent extent = {};                     // reserve (as given out), release, submit
    std::uint64_t token = 0;                // submit, complete
    int result = 0;                         // what was returned; for complete, its error
  };

  static constexpr std::size_t kept_calls = 4096;

  explicit TraceAdaptor(Tier& inner) noexcept : TierAdaptor(inner, "trace") {}

  // All calls since construction or clear(), kept or not.
  std::size_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }
  // The i-th call, which must be one of the last kept_calls.
  const Call& call(std::size_t i) const noexcept { return kept_[i % kept_calls]; }
  // How many of the kept calls are of this operation.
  std::size_t count(Operation operation) const noexcept;
  void clear() noexcept { calls_.store(0, std::memory_order_relaxed); }

  int reserve(std::uint64_t bytes, Extent* out) noexcept override;
  void release(const Extent& extent) noexcept override;
  int submit(const Transfer& transfer) noexcept override;
  std::size_t poll(std::span<Completion> out) noexcept override;
  int reopen_after_fork() noexcept override;

 private:
  void record(const Call& call) noexcept {
    kept_[calls_.fetch_add(1, std::memory_order_relaxed) % kept_calls] = call;
  }

  std::array<Call, kept_calls> kept_{};
  std::atomic<std::size_t> calls_{0};
};

}  // namespace terrace::tiers
