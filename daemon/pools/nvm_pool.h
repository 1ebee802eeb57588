// NVM that the administrator gives to jobs: a directory on persistent memory, or NUMA nodes of slow memory
// ([[tier]] in terraced.toml), divided as the pool is (pools.h): a part is promised to a job, its processes
// share it, and each has a file of its own there.
//
// No more is promised than the tier has, and than is free of it: what others take of the nodes, what lies in
// the directory is not there to be promised. Jobs of an earlier terraced bring what they were promised. A job
// for which there is none has none, and does as well as without. So it is while the directory is lost.
//
// The daemon's thread alone. Making a file and asking what is free are some system calls, none of which waits
// for a device.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/pools/nvm_rule.h"
#include "daemon/pools/pools.h"

namespace terrace::daemon {

class NvmPool {
 public:
  // `rule.nodes` are looked up now where the rule names neither nodes nor a directory.
  explicit NvmPool(const NvmRule& rule);

  // A file for a new session, of as much as its job is promised; its error is ENOSPC where nothing is left.
  PoolGrant give(SessionId session, const JobKey& job, std::uint32_t uid, std::uint32_t gid);
  // What an earlier daemon gave a session, as the session says.
  struct Brought {
    std::uint64_t capacity_bytes = 0, used_bytes = 0;
    bool is_on_record = false;  // else nothing proves it, and it is promised no more than a new one would be
  };
  // Its job is promised what it brings, at most what is left. Nothing of a file in another place, as after a
  // change of [[tier]]. EBADMSG for what cannot be such a file.
  std::optional<Refusal> adopt(SessionId session, const JobKey& job, const Brought& brought,
                               const PoolFile& file);
  void leave(SessionId session) { pools_.leave(session); }
  // Whether the session was given that file, or brought it.
  bool holds(SessionId session, const FileId& file) const { return pools_.holds(session, file); }
  // What the process says that lies there; its file is asked as well.
  void observe(SessionId session, std::uint64_t reported_bytes);
  // What the process may have in use now; 0: it was given nothing.
  std::uint64_t limit_bytes(SessionId session) const { return pools_.limit_bytes(session); }
  std::uint64_t capacity_bytes(SessionId session) const { return pools_.capacity_bytes(session); }

  const NvmRule& rule() const { return rule_; }
  std::uint64_t promised_bytes() const { return pools_.promised_bytes(); }
  std::uint64_t used_bytes() const { return pools_.used_bytes(); }
  std::uint64_t reported_bytes() const { return pools_.reported_bytes(); }
  // Of the place, whoever takes it; what may be promised is at most that.
  std::uint64_t free_bytes() const;

 private:
  int open_file(std::uint64_t bytes) const;

  NvmRule rule_;
  Pools pools_;
};

}  // namespace terrace::daemon
