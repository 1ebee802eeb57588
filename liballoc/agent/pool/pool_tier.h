// The tier below DRAM: a pool file, the daemon's where it granted one, else our own, of which the daemon then
// knows nothing; with what TERRACE_FAULT wraps around it.
#pragma once

#include <cstdint>

#include "liballoc/agent/availability.h"
#include "liballoc/agent/client/client.h"
#include "liballoc/agent/pool/fault_injection.h"
#include "liballoc/base/options.h"
#include "tiers/nvme_tier.h"

namespace terrace::liballoc {

class PoolTier {
 public:
  constexpr PoolTier(const Options& options, Availability& availability)
      : options_(options), availability_(availability) {}

  // False: there is no usable pool file, and it was said why.
  bool open(Client& client);

  // nullptr: none was opened.
  tiers::Tier* tier() { return tier_; }
  bool is_open() const { return tier_ != nullptr; }
  int wait_fd() const { return tier_ != nullptr ? tier_->wait_fd() : -1; }
  // "io_uring", "pread", "none"
  const char* io() const { return tier_ != nullptr ? tier_->io() : "none"; }
  // Whether the file is the daemon's, whose limit on it counts; else the file is our own.
  bool is_granted() const { return is_granted_; }

  // In a forked child: the tier closes its descriptors when it is reopened; before and after that.
  void forget_descriptors_in_child();
  void note_descriptors_in_child();

 private:
  int open_file(Client& client, int* fd);
  bool open_on(int fd);
  bool set_capacity(int fd);
  bool wrap();
  bool no_file(int error);
  bool unusable(int error);
  static std::uint64_t default_bytes(int fd);

  const Options& options_;
  Availability& availability_;
  std::uint64_t bytes_ = 0;
  bool is_granted_ = false;
  tiers::NvmeTier nvme_;
  FaultInjection injection_;
  tiers::Tier* tier_ = nullptr;
};

}  // namespace terrace::liballoc
