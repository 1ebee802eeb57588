// Where jobs' pool files are made, and who may put how much into them.
//
// A pool file is opened unlinked (O_TMPFILE) and its descriptor handed to the job; the daemon keeps none, so
// the kernel frees the space when the job's last process is gone, whatever became of the daemon. The ledger
// promises capacity out of the quota, per job: processes of one job share one promise, and each is told how
// much it may have in use now (used + an equal part of what is free), so that one of them can take it all.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/arbiter.h"

namespace terrace::daemon {

struct PoolGrant {
  int error = 0;  // errno: no file could be opened (the job may still run without)
  int fd = -1;    // the caller's, close-on-exec
  std::uint64_t capacity_bytes = 0;
};

class Pools {
 public:
  // `share_generously`: a private daemon serves one job, which may have everything.
  Pools(std::string directory, std::uint64_t quota_bytes, bool share_generously)
      : directory_(std::move(directory)), quota_bytes_(quota_bytes), generous_(share_generously) {}

  // Less than this cannot take in a single one of a job's runs.
  static constexpr std::uint64_t least_bytes = 2ULL << 20;

  // `wanted` is wire::any_bytes or a size, which is met or refused. Nothing when promised.
  std::optional<Refusal> promise(SessionId session, const JobKey& job, std::uint64_t wanted_bytes);
  // For a session that brings a pool. Its claims are believed within the quota, and beyond it as far as the
  // file takes up disk: what an earlier daemon promised may be more than this one's quota, which follows the
  // free space that the file has taken.
  void adopt(SessionId session, const JobKey& job, std::uint64_t capacity_bytes, std::uint64_t used_bytes,
             std::uint64_t allocated_bytes);
  void leave(SessionId session);

  // A new unlinked file owned by uid:gid (for disk quotas).
  PoolGrant open_file(SessionId session, std::uint32_t uid, std::uint32_t gid) const;

  void observe(SessionId session, std::uint64_t used_bytes);
  // How much this connection may have in use now; 0 for a session without a pool.
  std::uint64_t limit_bytes(SessionId session) const;
  std::uint64_t capacity_bytes(SessionId session) const;

  const std::string& directory() const { return directory_; }
  std::uint64_t quota_bytes() const { return quota_bytes_; }
  std::uint64_t promised_bytes() const;
  std::uint64_t used_bytes() const;
  void set_quota(std::uint64_t bytes) { quota_bytes_ = bytes; }

 private:
  struct Session {
    JobKey job;
    std::uint64_t used_bytes = 0;
  };
  struct Job {
    std::uint64_t promised_bytes = 0;
    std::uint64_t brought_bytes = 0;  // on disk in files that came along
    std::vector<SessionId> sessions;
  };
  void join(SessionId session, const JobKey& job);
  std::uint64_t used_bytes(const Job& job) const;
  std::optional<Refusal> refuse_any(const Job* job, std::uint64_t promised) const;

  std::string directory_;
  std::uint64_t quota_bytes_;
  bool generous_;
  std::map<SessionId, Session> sessions_;
  std::map<JobKey, Job> jobs_;
};

// An unlinked file in `directory`, O_DIRECT where the file system has it. A descriptor or -errno.
int open_unlinked(const std::string& directory);

}  // namespace terrace::daemon
