// The pool file on a drive and the thread that moves tensors between it and the slab, with io_uring and
// O_DIRECT straight from and to the slab's pages (tiers/nvme_tier.h).
//
// Reads that somebody waits for go first, then reads ahead, then writes. A tensor moves in pieces, many at
// once, so that one tensor alone keeps the drive busy. Space is reserved and released under the engine's
// lock; the thread alone submits and polls.
#pragma once

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "liballoc/agent/pool/fault_injection.h"
#include "liballoc/gpu/offload/settings.h"
#include "liballoc/gpu/offload/tensors/tensor.h"
#include "tiers/adaptors/meter_adaptor.h"
#include "tiers/nvme_tier.h"

namespace terrace::liballoc::offload {

// What a transfer of so many bytes takes on the drive.
constexpr std::uint64_t whole_blocks(std::uint64_t bytes) {
  return (bytes + tiers::block_bytes - 1) / tiers::block_bytes * tiers::block_bytes;
}

class Drive {
 public:
  static constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;

  struct Job {
    TensorPtr tensor;
    tiers::Direction direction = tiers::Direction::read;
    bool urgent = false;
    bool is_part = false;  // of a tensor that goes through the window
    // To be summed as it is written (stored_sum.h), so many bytes, onto `sum`. 0: it has a proof already.
    std::uint64_t summed_bytes = 0;
    std::uint64_t sum = 0;
    std::byte* memory = nullptr;
    tiers::Extent extent{};
    std::uint64_t begun_ns = 0;
    std::uint64_t submitted_bytes = 0;  // of it, to the tier, whatever came of them
  };
  // On the drive's thread, without any lock: the job, 0 or errno.
  using Done = std::function<void(const Job&, int error)>;

  Drive() = default;
  Drive(const Drive&) = delete;
  Drive& operator=(const Drive&) = delete;
  ~Drive() { stop(); }

  // A pool file that somebody else made, and owns.
  struct Granted {
    int fd = -1;  // -1: none, the file is to be made
    std::uint64_t capacity_bytes = 0;
  };

  // 0 or errno with *reason. Starts the thread (which throws where there is none); `begin` is the first that
  // it does.
  int open(const Settings& settings, const Granted& granted, const std::function<void()>& begin, Done done,
           std::string* reason);
  // Finishes what is queued.
  void stop();

  // Serialised by the caller.
  int reserve(std::uint64_t bytes, tiers::Extent* out) {
    return bytes <= free_bytes() ? tier_->reserve(bytes, out) : ENOSPC;
  }
  void release(const tiers::Extent& extent) { tier_->release(extent); }
  // Gives back all of *extent but its first `bytes`, in the tier's units.
  void shrink(tiers::Extent* extent, std::uint64_t bytes);
  std::uint64_t used_bytes() const { return tier_->space().used_bytes; }
  std::uint64_t free_bytes() const {
    const std::uint64_t most = std::min(tier_->space().capacity_bytes, limit_bytes_);
    return most - std::min(most, used_bytes());
  }
  // What may be in use, within the capacity; what is in use stays. The file grows ahead of need by a small
  // part of that: what it takes up counts for the job, whose other sessions have so much less of its pool.
  void set_limit(std::uint64_t bytes) {
    limit_bytes_ = bytes;
    tier_->set_limit(bytes);
  }

  void queue(const Job& job);
  // Where a transfer may go that passes by the thread: to extents that were reserved.
  int fd() const { return nvme_.fd(); }
  bool bypasses_page_cache() const { return nvme_.direct(); }
  const char* io() const { return tier_->io(); }
  // Of what the thread moved. Any thread.
  tiers::TierSpeeds speeds() const { return meter_->speeds(); }

 private:
  struct Moving : Job {
    unsigned in_flight = 0;
    int error = 0;
    std::uint64_t sum_at = 0;  // bytes that are in it
  };
  using Active = std::list<Moving>;

  int open_tier(const Settings& settings, const Granted& granted, std::string* reason);
  bool take_next();
  void serve();
  bool submit_some();
  bool submit_piece(Moving& job);
  static void sum_up_to(Moving& job, std::uint64_t end);
  void collect();
  void finish_ended();
  void wait();

  tiers::NvmeTier nvme_;
  FaultInjection faults_;
  std::optional<tiers::MeterAdaptor> meter_;  // on nvme_, or what damages it
  tiers::Tier* tier_ = nullptr;               // the same
  std::uint64_t limit_bytes_ = ~std::uint64_t{0};
  Done done_;
  Active active_;  // the thread's own
  std::mutex mutex_;
  std::deque<Job> urgent_, reads_, writes_;
  bool ending_ = false;
  int wake_fd_ = -1;
  std::thread thread_;
};

}  // namespace terrace::liballoc::offload
