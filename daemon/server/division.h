// What there is on this machine is divided by the settings: memory, also while it is short, the pool's space,
// the bytes that may be written to its drive in a day, and the memory of GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/pressure/memory_pressure.h"
#include "daemon/sessions/registry.h"
#include "daemon/settings/config.h"

namespace terrace::daemon {

class Division {
 public:
  // The settings are looked at anew at each call. `is_private`: of one user, who needs no protection from
  // himself.
  Division(const Config& config, bool is_private, const std::string& pressure_root)
      : config_(config), is_private_(is_private), pressure_(pressure_root) {}

  // Reads files.
  std::uint64_t budget_bytes() const;
  PoolQuota pool_quota() const;
  // Where no record can be kept, the day's bytes are counted from this start on.
  void keep_writes(Writes* writes) const;
  // What users may have is of all there may be, whatever of it is handed out.
  void divide(Registry* registry) const;
  void divide_pool(Pools* pools) const;
  // While memory is short, less of it is handed out.
  void follow_pressure(Registry* registry, std::uint64_t now_ns);
  // Whether the kernel says how short it is; nothing before it was asked.
  std::optional<bool> is_pressure_known() const { return pressure_.is_known(); }
  // By how many bytes.
  std::uint64_t lowered_bytes() const { return pressure_.lowers(budget_bytes()); }

 private:
  static UserShares alone(bool lends_idle);
  UserShares shares_of(Resource resource) const;

  const Config& config_;
  bool is_private_;
  MemoryPressure pressure_;
};

}  // namespace terrace::daemon
