// Measures how fast a tier is with what its user asks of it: bytes by the time that they were in transfer,
// for each direction, of late.
//
// Time in transfer is none of the time in which nothing was asked of the tier. Of a tier that finishes in
// submit() it is the time that submit() took. Of another one it is the time from a transfer's start to the
// poll() that finds it done, as far as none of the same direction was found done meanwhile: of several that
// are in flight at once each second counts once. So a transfer by itself says nothing, and many together do.
//
//   submit ├── a ──────┤            ns of a │ns of b│ns of c
//            ├── b ────────────┤    ────────┼───────┼────────
//                ├── c ────────────────┤    bytes of a + b + c by all of it
//
// Transfers that fail count in neither. What comes over the same drive from other processes makes a tier
// slower, and that is measured as well.
#pragma once

#include <atomic>
#include <cstdint>

#include "tiers/adaptors/adaptor.h"
#include "tiers/fixed_queue.h"

namespace terrace::tiers {

// Bytes and the time that they took, of late: what is older than `window_bytes` of younger transfers counts
// ever less. One thread writes, any may read; a reader may see the bytes of one transfer without its time.
class RecentTransfers {
 public:
  static constexpr std::uint64_t window_bytes = std::uint64_t{256} << 20;

  constexpr RecentTransfers() = default;
  void note(std::uint64_t bytes, std::uint64_t ns) noexcept;
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  std::uint64_t ns() const noexcept { return ns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> bytes_ = 0, ns_ = 0;
};

// The same of both ways, as numbers.
struct TierSpeeds {
  std::uint64_t read_bytes = 0, read_ns = 0;
  std::uint64_t write_bytes = 0, write_ns = 0;
};

class MeterAdaptor final : public TierAdaptor {
 public:
  explicit MeterAdaptor(Tier& inner) noexcept;

  // Any thread.
  TierSpeeds speeds() const noexcept {
    return {reads_.transfers.bytes(), reads_.transfers.ns(), writes_.transfers.bytes(),
            writes_.transfers.ns()};
  }

  int submit(const Transfer& transfer) noexcept override;
  std::size_t poll(std::span<Completion> out) noexcept override;
  // The child measures its own.
  int reopen_after_fork() noexcept override;

 private:
  struct Moving {
    std::uint64_t token = 0;  // the caller's
    std::uint64_t bytes = 0;
    std::uint64_t begun_ns = 0;
    std::uint64_t took_ns = 0;  // of a tier that finishes in submit()
    Direction direction = Direction::read;
  };
  struct Way {
    RecentTransfers transfers;
    std::uint64_t last_done_ns = 0;
  };
  void note_done(const Moving& moving) noexcept;
  bool finishes_in_submit() const noexcept { return inner_.wait_fd() < 0; }

  SlotTable<Moving> moving_;
  Way reads_, writes_;
};

}  // namespace terrace::tiers
