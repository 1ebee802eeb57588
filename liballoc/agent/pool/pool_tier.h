// The tiers below DRAM: what TERRACE_TIERS names, and at the end of the chain a pool file, the daemon's where
// it granted one, else one of our own in each directory of TERRACE_POOL_DIR, of which the daemon then knows
// nothing; with what TERRACE_FAULT wraps around it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/agent/client/client.h"
#include "liballoc/agent/pool/fault_injection.h"
#include "liballoc/agent/pool/nvm_part.h"
#include "liballoc/agent/pool/pool_files.h"
#include "liballoc/agent/pool/tier_meters.h"
#include "liballoc/base/availability.h"
#include "liballoc/base/options.h"
#include "tiers/adaptors/write_lease_adaptor.h"
#include "tiers/chain/chained_tier.h"
#include "tiers/mapping.h"
#include "tiers/memory/dram_tier.h"
#include "tiers/nvme_tier.h"
#include "tiers/striped_tier.h"

namespace terrace::liballoc {

class PoolTier {
 public:
  constexpr PoolTier(const Options& options, Availability& availability)
      : options_(options), availability_(availability) {}
  ~PoolTier() { close(); }

  // False: there is no usable pool file, and it was said why.
  bool open(Client& client);

  // nullptr: none was opened.
  tiers::Tier* tier() { return tier_; }
  bool is_open() const { return tier_ != nullptr; }
  int wait_fd() const { return tier_ != nullptr ? tier_->wait_fd() : -1; }
  // "io_uring", "pread", "none"
  const char* io() const { return tier_ != nullptr ? tier_->io() : "none"; }
  // Whether the file is the daemon's, whose limit on it counts; else the files are our own.
  bool is_granted() const { return is_granted_; }
  // What comes before the drives: what the job names, else what the daemon has for jobs that name nothing.
  // Before open(), once the daemon has answered.
  void choose_tiers(const Grant& grant);
  const TierList& tiers() const { return tiers_; }
  // How fast each of them and the drives were of late.
  const TierMeters& meters() const { return meters_; }
  // How much of the daemon's NVM may be in use now, where it granted some.
  void set_nvm_limit(std::uint64_t bytes) {
    if (nvm_.is_granted()) nvm_.set_limit(bytes);
  }
  // How far the count of what was written to the granted file may go; it says `written_bytes` now.
  void set_write_lease(std::uint64_t written_bytes, std::uint64_t most_bytes) {
    if (lease_ != nullptr) lease_->set_lease(written_bytes, most_bytes);
  }

  // In a forked child: the tier closes its descriptors when it is reopened; before and after that.
  void forget_descriptors_in_child();
  void note_descriptors_in_child();

 private:
  bool open_files(Client& client, PoolFiles* files);
  bool make_own_files(Client& client, PoolFiles* files);
  bool open_drives(std::span<PoolFiles::File> files);
  bool open_drive(PoolFiles::File* file, std::size_t depth);
  bool join();
  bool wrap();
  tiers::Tier* leased(tiers::Tier* tier);
  bool chain(const Grant& grant);
  bool open_compressed(tiers::ChainedTier::Upper* upper);
  void close();
  bool no_file(const char* directory, int error);
  bool unusable(const char* directory, int error);
  bool no_plain_file();
  void tell_not_granted() const;
  void tell_plain() const;
  void tell_without_room(const PoolFiles::File& file) const;
  void tell_twin(const PoolFiles& files, bool was_told) const;
  tiers::NvmeTier& drive(std::size_t i);
  template <typename Visit>
  void for_each_waiter(Visit visit);

  const Options& options_;
  Availability& availability_;
  bool is_granted_ = false;
  TierList tiers_;
  tiers::NvmeTier nvme_;    // the only drive, or the first
  tiers::Mapping more_;     // of further ones, whose tables would make the library larger for everybody
  std::size_t drives_ = 0;  // open
  const char* directories_[PoolDirectories::most] = {};
  tiers::StripedTier striped_;     // over several
  tiers::Tier* joined_ = nullptr;  // nvme_ or striped_
  // Storage, as a library without a daemon constructs none.
  alignas(tiers::WriteLeaseAdaptor) std::byte lease_storage_[sizeof(tiers::WriteLeaseAdaptor)] = {};
  tiers::WriteLeaseAdaptor* lease_ = nullptr;
  FaultInjection injection_;
  tiers::DramTier compressed_;
  NvmPart nvm_;
  TierMeters meters_;
  tiers::ChainedTier chain_;  // of the tiers before it and what was injected into the drives
  tiers::Tier* tier_ = nullptr;
};

}  // namespace terrace::liballoc
