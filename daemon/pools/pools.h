// Where jobs' pool files are made, and who may put how much into them.
//
// A pool file is opened unlinked (O_TMPFILE) and its descriptor handed to the job. The daemon keeps another
// while the session lasts, so that it sees what the file takes up (fstat) whatever the job reports; with the
// session's end or the daemon's it is closed, and the kernel frees the space when the job's last process is
// gone, too. The ledger promises capacity out of the quota, per job: processes of one job share one promise,
// and each is told how much it may have in use now (used + an equal part of what is free), so that one of
// them can take it all. What users, groups and jobs are guaranteed is promised to no others, and none is
// promised more than its limit (shares/room.h): by the same rule as DRAM, but that no space is lent, since
// what lies in a file does not come back in time. Nothing keeps a job from writing more: then others are
// promised less, and it is named.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/pools/pool_file.h"
#include "daemon/shares/arbiter.h"
#include "tiers/encryption/encrypted_directory.h"

namespace terrace::daemon {

struct PoolGrant {
  int error = 0;  // errno: no file could be opened (the job may still run without)
  int fd = -1;    // the caller's, close-on-exec
  std::uint64_t capacity_bytes = 0;
};

// What all pools may take, and whether that was worked out from the disk that is free: then what a file takes
// up that was there before is missing from it.
struct PoolQuota {
  PoolQuota(std::uint64_t quota_bytes, bool is_of_free_disk = false)
      : bytes(quota_bytes), of_free_disk(is_of_free_disk) {}
  std::uint64_t bytes;
  bool of_free_disk;
};

// What a pool file takes up on the disk that the quota is of.
struct PoolDisk {
  FileId file;
  std::uint64_t bytes = 0;
  std::shared_ptr<UniqueFd> descriptor = nullptr;  // if it is of the pool directory's file system
};

class Pools {
 public:
  // `share_generously`: a private daemon serves one job, which may have everything.
  Pools(std::string directory, PoolQuota quota, bool share_generously)
      : directory_(std::move(directory)), quota_(quota), generous_(share_generously) {}

  // Less than this cannot take in a single one of a job's runs.
  static constexpr std::uint64_t least_bytes = 2ULL << 20;

  // Guarantees, limits and the cap for all users, of the quota. What is promised already stays.
  void set_users(UserShares users);
  const UserShares& users() const { return users_; }
  // What the job is promised at most while it runs; no_limit: nothing is said. What it was promised beyond
  // that is there for others, but for what its files take up; without a limit it has it again as far as it is
  // left. EPERM: an administrator set another; EINVAL: too little to use.
  std::optional<Refusal> set_job_limit(const JobKey& job, const JobLimit& limit);
  void forget_job(const JobKey& job) { users_.forget_job(job); }

  // While there is a problem, nothing new is promised, and who asks is told it. "": open again.
  void close(std::string problem) { problem_ = std::move(problem); }
  bool is_closed() const { return !problem_.empty(); }
  const std::string& problem() const { return problem_; }

  // `wanted` is wire::any_bytes or a size, which is met or refused. Nothing when promised.
  std::optional<Refusal> promise(SessionId session, const JobKey& job, std::uint64_t wanted_bytes);
  // For a session that brings a pool. It is promised what it says, at most what is left of the quota, to
  // which is added what its file takes up, where the quota is of the disk that was free beside it: once,
  // whoever brings the file, and nothing of a file that was made here since. False: it was promised less than
  // it says that it had.
  bool adopt(SessionId session, const JobKey& job, std::uint64_t capacity_bytes, std::uint64_t used_bytes,
             const PoolDisk& disk);
  // Of a file that `uid` brings, what counts here: nothing of one in another file system, as after a change
  // of [pool] directory. EBADMSG for what cannot be a pool file.
  std::optional<Refusal> judge(const PoolFile& file, std::uint32_t uid, PoolDisk* disk) const;
  // The same beside `ours`, which was made as the job's was; nothing: none can be.
  static std::optional<Refusal> judge(const PoolFile& file, const std::optional<PoolFile>& ours,
                                      std::uint32_t uid, PoolDisk* disk);
  void leave(SessionId session);
  // Whether the session was given that file, or brought it.
  bool holds(SessionId session, const FileId& file) const;

  // From now on files are encrypted on the drive: because of where the directory lies, or in a directory of
  // ours in it under a key that lasts as long as these pools. "" or why that cannot be; then none is made.
  std::string encrypt();
  bool encrypts() const { return encrypts_; }
  // Whether files go past the page cache, as far as that is due to encryption.
  bool takes_direct_io() const;

  // A new unlinked file owned by uid:gid (for disk quotas).
  // ENOKEY: it would not be encrypted, and should be.
  PoolGrant open_file(SessionId session, std::uint32_t uid, std::uint32_t gid);

  // The same of a file that was made elsewhere, or -errno.
  PoolGrant hand_out(SessionId session, int fd, std::uint32_t uid, std::uint32_t gid);

  // What the job says that it uses. It counts where its file cannot be asked.
  void observe(SessionId session, std::uint64_t reported_bytes);
  // Asks the file what it takes up. True for the first time that the files of its job take up more than was
  // promised.
  bool measure(SessionId session);
  // How much this connection may have in use now; 0 for a session without a pool.
  std::uint64_t limit_bytes(SessionId session) const;
  std::uint64_t capacity_bytes(SessionId session) const;
  // Whether the session has to hear of that where it was told another limit. Small swings are not worth a
  // message, but to one that has little room left by what it knows.
  bool is_limit_due(SessionId session, std::uint64_t told_bytes) const;

  const std::string& directory() const { return directory_; }
  std::uint64_t quota_bytes() const { return quota_.bytes; }
  std::uint64_t promised_bytes() const;
  // Of one job; 0: it has no pool.
  std::uint64_t promised_bytes(const JobKey& job) const;
  // What the files take up, and what their jobs say that they use: less, where space was allocated ahead.
  std::uint64_t used_bytes() const;
  std::uint64_t reported_bytes() const;
  // Of one session; nothing when its file cannot be asked.
  std::optional<std::uint64_t> disk_bytes(SessionId session) const;
  // Every file that there is now is older than the new quota.
  void set_quota(PoolQuota quota) {
    quota_ = quota;
    missing_.clear();
  }

 private:
  struct Session {
    JobKey job;
    std::uint64_t reported_bytes = 0;
    PoolDisk brought;  // with what of it is missing from the quota
    FileId file;
    std::shared_ptr<UniqueFd> descriptor;
    std::optional<std::uint64_t> disk_bytes;
    std::uint64_t used_bytes() const { return disk_bytes.value_or(reported_bytes); }
  };
  struct Job {
    std::uint64_t promised_bytes = 0;
    std::uint64_t wanted_bytes = 0;   // the same without a limit that came later
    std::uint64_t excused_bytes = 0;  // what its files took up when that came
    std::vector<SessionId> sessions;
    bool is_overfull = false;
  };
  // Beyond its promise: what a file system adds, and a file rounds up, is no fault of the job's.
  static constexpr std::uint64_t overhead_bytes(std::uint64_t promised) { return promised / 64 + (1 << 20); }
  void join(SessionId session, const JobKey& job);
  std::uint64_t used_bytes(const Job& job) const;
  std::uint64_t disk_bytes(const Job& job) const;  // as far as its files were asked
  Room room_for(const JobKey& job) const;
  Refusal does_not_fit(const JobKey& job, std::uint64_t wanted_bytes) const;
  std::optional<Refusal> refuse_any(const Job* job, std::uint64_t promised) const;
  std::uint64_t brought_bytes() const;
  std::uint64_t missing_bytes(const PoolDisk& disk);
  void note(const FileId& file, std::uint64_t missing_bytes);
  void give(SessionId session, const FileId& file);

  int open_encrypted() const;

  static constexpr std::size_t most_files = 1 << 16;

  std::string directory_;
  PoolQuota quota_;
  bool generous_;
  UserShares users_;
  std::string problem_;
  bool encrypts_ = false;
  // Null: the directory's file system encrypts by itself.
  std::unique_ptr<encryption::EncryptedDirectory> encrypted_;
  std::map<SessionId, Session> sessions_;
  std::map<JobKey, Job> jobs_;
  // What of a file is missing from the quota: as much as when it first came, as it may have grown since.
  // Files are remembered when their sessions have ended, since a job may come back.
  std::map<FileId, std::uint64_t> missing_;
};

// An unlinked file in `directory`, O_DIRECT where the file system has it. A descriptor or -errno.
int open_unlinked(const std::string& directory);

}  // namespace terrace::daemon
