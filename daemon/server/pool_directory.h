// Whether the pool's directory can be used. A file system that is not mounted, a drive that died or a
// directory that somebody removed takes the pool away, and nothing else: the service starts and goes on
// without it, jobs are told why they have no pool, and once a second it looks whether the directory is back.
// Of a private daemon the directory is not looked at: its one job can do without a pool and says so itself.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/pools/pools.h"
#include "daemon/server/division.h"
#include "daemon/settings/config.h"

namespace terrace::daemon {

class PoolDirectory {
 public:
  // The settings are looked at anew at each call.
  PoolDirectory(const Config& config, bool is_private) : config_(config), is_private_(is_private) {}

  // Before the first job. "" or why there must be no start: the directory is there, and what it takes in
  // would not be encrypted although it is to be.
  std::string open(Pools* pools);
  // Opens a pool that was lost at the start and is back, and from then on counts what is written to its
  // drive. Makes a file, once a second, and only while the directory is lost.
  void look_again(Registry* registry, const Division& division, std::uint64_t now_ns);

 private:
  std::string encrypt(Pools* pools) const;

  const Config& config_;
  bool is_private_;
  std::uint64_t next_look_ns_ = 0;
};

}  // namespace terrace::daemon
