// The part of a job's data that waits in NVM: what the daemon granted of its own, or what TERRACE_TIERS
// names, made here; with what TERRACE_FAULT wraps around it. It stands in the chain before the drives
// (pool_tier.h).
//
// NVM that is not to be had is done without, and a line says so and what helps: the job has asked for speed,
// not for its end. It is never another amount than was asked for, but for the daemon's, which says how much
// it grants.
#pragma once

#include <cstdint>

#include "liballoc/agent/client/client.h"
#include "liballoc/agent/pool/fault_injection.h"
#include "liballoc/base/tier_list.h"
#include "tiers/memory/nvm_tier.h"

namespace terrace::liballoc {

class NvmPart {
 public:
  constexpr NvmPart() = default;

  // The tier, open, or nullptr: there is none. Call once, on the agent's thread.
  tiers::Tier* open(const NvmWish& wish, const Grant& grant, const char* fault);
  void close() { nvm_.close(); }

  // -1: there is none. Of a grant, and of a file of our own, alike.
  int fd() const { return nvm_.fd(); }
  bool is_granted() const { return is_granted_; }
  // How much of what was granted may be in use now.
  void set_limit(std::uint64_t bytes) { nvm_.set_limit(bytes); }

 private:
  // Each a descriptor, or -1 where it was said why there is none.
  int adopt(const Grant& grant, const NvmWish& wish);
  int make(const NvmWish& wish);
  int make_in_directory(const NvmWish& wish);
  int make_on_nodes(const NvmWish& wish);
  tiers::Tier* use(int fd, std::uint64_t bytes, const NvmWish& wish, const char* fault);

  tiers::NvmTier nvm_;
  FaultInjection injection_;
  bool is_granted_ = false;
};

}  // namespace terrace::liballoc
