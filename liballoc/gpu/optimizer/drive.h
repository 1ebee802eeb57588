// The pool file with the blocks that are not in DRAM: transfers of whole blocks with io_uring and O_DIRECT
// (tiers/nvme_tier.h), counted in the drive's endurance ledger. No thread of its own: the kernel moves the
// bytes while the caller computes.
//
// One thread at a time. Errors are errno values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "liballoc/agent/pool/fault_injection.h"
#include "liballoc/gpu/offload/drive/endurance_ledger.h"
#include "liballoc/gpu/optimizer/block.h"
#include "liballoc/gpu/terrace_optimizer.h"
#include "tiers/nvme_tier.h"

namespace terrace::liballoc::optimizer {

class Drive {
 public:
  static constexpr std::size_t most_in_flight = 32;

  // 0 or errno with *reason.
  int open(const terrace_optimizer_config& config, std::string* reason);
  const std::string& warning() const { return warning_; }
  std::string path() const;

  int reserve(std::uint64_t bytes, tiers::Extent* out) { return tier_->reserve(bytes, out); }
  void release(const tiers::Extent& extent) { tier_->release(extent); }

  // Start a transfer of a whole block between its extent and `memory`; `token` comes back. A write is charged
  // to the ledger first: EDQUOT when the endurance budget is spent.
  int start_read(const Block& block, std::byte* memory, std::uint64_t token);
  int start_write(const Block& block, std::byte* memory, std::uint64_t token);
  // Calls ended(token, error) for each transfer that has ended; waits for one if `wait` and some are under
  // way.
  void collect(bool wait, const std::function<void(std::uint64_t, int)>& ended);

  void count(terrace_optimizer_statistics* out) const;

 private:
  int open_pool(const terrace_optimizer_config& config, const char* directory, std::string* reason);
  int submit(const Block& block, tiers::Direction direction, std::byte* memory, std::uint64_t token);

  tiers::NvmeTier nvme_;
  FaultInjection faults_;
  tiers::Tier* tier_ = nullptr;  // nvme_, or what damages it
  offload::EnduranceLedger ledger_;
  std::string directory_, warning_;
  std::uint64_t read_bytes_ = 0, written_bytes_ = 0, wait_ns_ = 0, errors_ = 0;
};

}  // namespace terrace::liballoc::optimizer
