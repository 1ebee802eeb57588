// The pool file with the blocks that are not in DRAM: transfers of whole blocks with io_uring and O_DIRECT
// (tiers/nvme_tier.h), counted in the drive's endurance ledger, or by the daemon whose pool it is. No thread
// of its own: the kernel moves the bytes while the caller computes.
//
// One thread at a time, but for what says otherwise. Errors are errno values.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "liballoc/agent/pool/fault_injection.h"
#include "liballoc/gpu/offload/drive/write_budget.h"
#include "liballoc/gpu/optimizer/block.h"
#include "liballoc/gpu/terrace_optimizer.h"
#include "tiers/adaptors/meter_adaptor.h"
#include "tiers/nvme_tier.h"

namespace terrace::liballoc::optimizer {

class Drive {
 public:
  static constexpr std::size_t most_in_flight = 32;

  // A pool file of the daemon's, which the session keeps open.
  struct Granted {
    int fd = -1;  // -1: none, the file is to be made in the configuration's directory
    std::uint64_t capacity_bytes = 0;
  };

  // 0 or errno with *reason. Of a granted pool all is to be had where the configuration asks for no drive.
  int open(const terrace_optimizer_config& config, const Granted& granted, std::string* reason);
  const std::string& warning() const { return warning_; }
  std::string path() const;

  // What the daemon says of its pool: how much may be in use, and how far the count of written bytes may go.
  // Any thread.
  void set_limits(std::uint64_t pool_bytes, std::uint64_t most_written_bytes) {
    pool_limit_bytes_ = pool_bytes;
    most_written_bytes_ = most_written_bytes;
  }

  // ENOSPC: the file, or what the daemon says of it, has no room.
  int reserve(std::uint64_t bytes, tiers::Extent* out);
  void release(const tiers::Extent& extent);

  // Start a transfer of a whole block between its extent and `memory`; `token` comes back. A write is charged
  // first: EDQUOT when the endurance budget, or what the daemon leases, is spent.
  int start_read(const Block& block, std::byte* memory, std::uint64_t token);
  int start_write(const Block& block, std::byte* memory, std::uint64_t token);
  // Calls ended(token, error) for each transfer that has ended; waits for one if `wait` and some are under
  // way.
  void collect(bool wait, const std::function<void(std::uint64_t, int)>& ended);

  // Any thread.
  std::uint64_t used_bytes() const { return used_bytes_; }
  std::uint64_t read_bytes() const { return read_bytes_; }
  std::uint64_t written_bytes() const { return written_bytes_; }
  std::uint64_t io_errors() const { return errors_; }
  tiers::TierSpeeds speeds() const { return meter_->speeds(); }
  void count(terrace_optimizer_statistics* out) const;

 private:
  int open_pool(const terrace_optimizer_config& config, const Granted& granted, std::string* reason);
  int open_writes(const terrace_optimizer_config& config, bool is_granted, std::string* reason);
  int charge(std::uint64_t bytes);
  void tell_writes();
  int submit(const Block& block, tiers::Direction direction, std::byte* memory, std::uint64_t token);

  tiers::NvmeTier nvme_;
  FaultInjection faults_;
  std::optional<tiers::MeterAdaptor> meter_;  // on nvme_, or what damages it
  tiers::Tier* tier_ = nullptr;               // the same
  offload::WriteBudget writes_;
  std::string directory_, warning_;
  std::atomic<std::uint64_t> pool_limit_bytes_ = offload::WriteBudget::no_limit;
  std::atomic<std::uint64_t> most_written_bytes_ = offload::WriteBudget::no_limit;
  std::atomic<std::uint64_t> used_bytes_ = 0, read_bytes_ = 0, written_bytes_ = 0, wait_ns_ = 0, errors_ = 0;
  std::atomic<std::uint64_t> today_bytes_ = 0, total_bytes_ = 0;  // as writes_ has them
};

}  // namespace terrace::liballoc::optimizer
