// See pools.h.
#include "daemon/pools/pools.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>

#include "daemon/base/size.h"
#include "daemon/base/unique_fd.h"
#include "liballoc/wire/protocol.h"
#include "tiers/encryption/at_rest.h"

namespace terrace::daemon {
namespace {

constexpr std::uint64_t least_useful_bytes = 64ULL << 20;

Refusal too_small_a_pool(std::uint64_t bytes) {
  return {EINVAL, Pools::least_bytes,
          fmt::format("a pool of {} is too small to use; ask for at least {}", format_size(bytes),
                      format_size(Pools::least_bytes))};
}

// For file systems without O_TMPFILE (overlayfs before 6.3, NFS): a name for an instant.
int open_named_and_unlink(const std::string& directory) {
  std::string path = directory + "/.terrace-pool-XXXXXX";
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return -errno;
  ::unlink(path.c_str());
  return fd;
}

}  // namespace

int open_unlinked(const std::string& directory) {
  constexpr int flags = O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC;  // no link(2) gives it a name
  int fd = ::open(directory.c_str(), flags | O_DIRECT, 0600);
  if (fd < 0 && errno == EINVAL) fd = ::open(directory.c_str(), flags, 0600);
  if (fd >= 0) return fd;
  if (errno != EOPNOTSUPP && errno != EISDIR) return -errno;
  return open_named_and_unlink(directory);
}

void Pools::set_users(UserShares users) {
  users.keep_job_limits(users_);
  users_ = std::move(users);
}

std::optional<Refusal> Pools::set_job_limit(const JobKey& key, const JobLimit& limit) {
  if (limit.bytes < least_bytes) return too_small_a_pool(limit.bytes);
  if (auto refusal = users_.set_job_limit(key, limit)) return refusal;
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return std::nullopt;
  Job& job = found->second;
  job.excused_bytes = disk_bytes(job);
  const std::uint64_t most = std::max(job.promised_bytes, room_for(key).of(limit.by));
  job.promised_bytes = std::min({job.wanted_bytes, limit.bytes, most});
  for (const SessionId id : job.sessions) observe(id, sessions_.at(id).reported_bytes);
  return std::nullopt;
}

void Pools::join(SessionId session, const JobKey& key) {
  jobs_[key].sessions.push_back(session);
  sessions_[session].job = key;
}

// "Whatever there is" may be nothing, or nothing that a run fits into.
std::optional<Refusal> Pools::refuse_any(const Job* job, std::uint64_t promised) const {
  if (promised < least_bytes)
    return Refusal{
        ENOSPC, promised,
        fmt::format("no pool space is left for the job in {} ([pool] size, and limits in terraced.toml)",
                    directory_)};
  if (job == nullptr || minus(promised, used_bytes(*job)) / (job->sessions.size() + 1) >= least_bytes)
    return std::nullopt;
  return Refusal{ENOSPC, 0,
                 fmt::format("the job's other processes use all of its pool of {} in {}",
                             format_size(promised), directory_)};
}

std::optional<Refusal> Pools::promise(SessionId session, const JobKey& key, std::uint64_t wanted_bytes) {
  if (is_closed()) return Refusal{ENOSPC, 0, problem_};
  const auto known = jobs_.find(key);
  const Job* job = known == jobs_.end() ? nullptr : &known->second;
  const std::uint64_t held = job == nullptr ? 0 : job->promised_bytes;
  const Room room = room_for(key);
  const std::uint64_t left = room.owners();
  // Another process of a job that was limited since asks for what the first one did.
  std::uint64_t promised = std::min(wanted_bytes, users_.job_limit(key).bytes);
  std::uint64_t wanted = wanted_bytes;
  if (wanted_bytes == wire::any_bytes) {
    // Half of what others may have, too, keeps a place for the jobs that come later.
    const std::uint64_t shared = std::min({room.machine, room.user, room.group});
    const std::uint64_t half = std::max(shared / 2, std::min(shared, least_useful_bytes));
    wanted = generous_ ? shared : half;
    promised = held != 0 ? held : generous_ ? left : std::min(room.job, half);
    if (auto refusal = refuse_any(job, promised)) return refusal;
  } else if (wanted_bytes < least_bytes) {
    return too_small_a_pool(wanted_bytes);
  } else if (promised > std::max(left, held)) {
    return does_not_fit(key, wanted_bytes);
  }
  join(session, key);
  Job& joined = jobs_[key];
  joined.promised_bytes = std::max(held, promised);
  joined.wanted_bytes = std::max({joined.wanted_bytes, joined.promised_bytes, held == 0 ? wanted : 0});
  return std::nullopt;
}

bool Pools::adopt(SessionId session, const JobKey& key, std::uint64_t capacity_bytes,
                  std::uint64_t used_bytes, const PoolDisk& disk) {
  join(session, key);
  Job& job = jobs_[key];
  Session& joined = sessions_[session];
  joined.brought = {disk.file, missing_bytes(disk), nullptr};
  joined.file = disk.file;
  joined.descriptor = disk.descriptor;
  job.promised_bytes = std::max(job.promised_bytes, std::min(capacity_bytes, room_for(key).owners()));
  job.wanted_bytes = std::max(job.wanted_bytes, job.promised_bytes);
  observe(session, used_bytes);
  measure(session);
  return job.promised_bytes >= capacity_bytes;
}

// A new file shows what ours look like: on NFS an unlinked one has a name, and another owner.
std::optional<Refusal> Pools::judge(const PoolFile& file, std::uint32_t uid, PoolDisk* disk) const {
  const UniqueFd fd(open_unlinked(directory_));
  return judge(file, look_at_pool_file(fd.get()), uid, disk);
}

std::optional<Refusal> Pools::judge(const PoolFile& file, const std::optional<PoolFile>& ours,
                                    std::uint32_t uid, PoolDisk* disk) {
  if (!file.writable) return Refusal{EBADMSG, 0, "the pool file sent along is not open for writing"};
  const bool is_here = ours && ours->id.device == file.id.device;
  if (is_here && file.names > ours->names)
    return Refusal{EBADMSG, 0, "the pool file sent along has a name; a pool has none"};
  if (is_here && file.owner != uid && file.owner != ours->owner)
    return Refusal{EBADMSG, 0, "the pool file sent along is another user's"};
  *disk = {file.id, is_here ? file.allocated_bytes : 0, is_here ? file.descriptor : nullptr};
  return std::nullopt;
}

// What `key` could have in all. Of a job whose files take up more than it was promised that counts.
Room Pools::room_for(const JobKey& key) const {
  const std::uint64_t quota = quota_.bytes + (quota_.of_free_disk ? brought_bytes() : 0);
  PromisedBytes promised;
  for (const auto& [other, job] : jobs_) {
    if (other == key) continue;
    const std::uint64_t on_disk = minus(disk_bytes(job), overhead_bytes(job.promised_bytes));
    promised.add(other, std::max(job.promised_bytes, on_disk), users_.jobs());
  }
  return room_of(quota, users_, key, promised, *users_.of(key).limit_bytes);
}

Refusal Pools::does_not_fit(const JobKey& key, std::uint64_t wanted) const {
  constexpr RoomWords words{"a pool", "pool_limit", "[pool] per_user",
                            "or have its limit raised (`terrace set JOB --pool-limit`)", "for less"};
  const Room room = room_for(key);
  if (wanted > room.machine)
    return {
        ENOSPC, room.owners(),
        fmt::format("a pool of {} does not fit: {} of {} in {} are left; ask for at most that, or raise "
                    "[pool] size",
                    format_size(wanted), format_size(room.owners()), format_size(quota_.bytes), directory_)};
  return beyond_owners(room, users_, key, wanted, words, users_.job_limit(key).bytes != no_limit);
}

std::uint64_t Pools::brought_bytes() const {
  std::uint64_t sum = 0;
  std::set<FileId> counted;
  for (const auto& [id, session] : sessions_) {
    if (counted.insert(session.brought.file).second) sum += session.brought.bytes;
  }
  return sum;
}

std::uint64_t Pools::missing_bytes(const PoolDisk& disk) {
  if (!missing_.contains(disk.file)) note(disk.file, disk.bytes);
  const auto found = missing_.find(disk.file);
  return found == missing_.end() ? 0 : found->second;
}

// Of files that there is no room to remember, nothing counts.
void Pools::note(const FileId& file, std::uint64_t missing_bytes) {
  if (missing_.size() < most_files || missing_.contains(file)) missing_[file] = missing_bytes;
}

void Pools::leave(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const auto job = jobs_.find(found->second.job);
  std::erase(job->second.sessions, session);
  if (job->second.sessions.empty()) jobs_.erase(job);
  sessions_.erase(found);
}

std::string Pools::encrypt() {
  encrypts_ = true;
  const encryption::AtRest at_rest = encryption::look_at_rest(directory_);
  if (at_rest.is_encrypted()) return {};
  std::string problem = at_rest.reason;
  if (at_rest.how == encryption::AtRest::How::possible)
    encrypted_ = encryption::EncryptedDirectory::make(directory_, &problem);
  return encrypted_ ? "" : problem;
}

// Whatever became of the directory since: what is handed out is looked at.
int Pools::open_encrypted() const {
  if (!encrypted_)
    return encryption::look_at_rest(directory_).is_encrypted() ? open_unlinked(directory_) : -ENOKEY;
  const int fd = open_unlinked(encrypted_->path());
  if (fd < 0 || encrypted_->encrypts(fd)) return fd;
  ::close(fd);
  return -ENOKEY;
}

bool Pools::takes_direct_io() const {
  if (!encrypts_) return true;
  const UniqueFd fd(open_encrypted());
  return !fd || encryption::takes_direct_io(fd.get());
}

PoolGrant Pools::open_file(SessionId session, std::uint32_t uid, std::uint32_t gid) {
  return hand_out(session, encrypts_ ? open_encrypted() : open_unlinked(directory_), uid, gid);
}

PoolGrant Pools::hand_out(SessionId session, int fd, std::uint32_t uid, std::uint32_t gid) {
  if (fd < 0) return {-fd, -1, 0};
  if (const auto file = look_at_pool_file(fd)) give(session, file->id);
  const int ours = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (const auto found = sessions_.find(session); found != sessions_.end() && ours >= 0)
    found->second.descriptor = std::make_shared<UniqueFd>(ours);
  if (::geteuid() == 0 && ::fchown(fd, uid, gid) != 0) {
    // Only disk quotas miss it.
  }
  return {0, fd, capacity_bytes(session)};
}

// A new file: who had one of that number has it no longer.
void Pools::give(SessionId session, const FileId& file) {
  note(file, 0);
  for (auto& [id, other] : sessions_) {
    if (other.file == file) other.file = {};
  }
  if (const auto found = sessions_.find(session); found != sessions_.end()) found->second.file = file;
}

bool Pools::holds(SessionId session, const FileId& file) const {
  const auto found = sessions_.find(session);
  return found != sessions_.end() && found->second.file == file;
}

void Pools::observe(SessionId session, std::uint64_t reported_bytes) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  found->second.reported_bytes = std::min(reported_bytes, jobs_.at(found->second.job).promised_bytes);
}

bool Pools::measure(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || !found->second.descriptor) return false;
  found->second.disk_bytes = daemon::disk_bytes(found->second.descriptor->get());
  Job& job = jobs_.at(found->second.job);
  const bool was_overfull = job.is_overfull;
  const std::uint64_t most = std::max(job.promised_bytes, job.excused_bytes);
  job.is_overfull = disk_bytes(job) > most + overhead_bytes(most);
  return job.is_overfull && !was_overfull;
}

// What a file takes up beyond its job's promise is nothing that the job may have.
std::uint64_t Pools::limit_bytes(SessionId session) const {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return 0;
  const Job& job = jobs_.at(found->second.job);
  const std::uint64_t share = minus(job.promised_bytes, used_bytes(job)) / job.sessions.size();
  return std::min(found->second.used_bytes(), job.promised_bytes) + share;
}

bool Pools::is_limit_due(SessionId session, std::uint64_t told_bytes) const {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return false;
  const std::uint64_t limit = limit_bytes(session);
  const std::uint64_t moved = limit > told_bytes ? limit - told_bytes : told_bytes - limit;
  const std::uint64_t room = minus(told_bytes, found->second.used_bytes());
  return moved > capacity_bytes(session) / 64 || moved >= std::max(least_bytes, room / 4);
}

std::optional<std::uint64_t> Pools::disk_bytes(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? std::nullopt : found->second.disk_bytes;
}

std::uint64_t Pools::used_bytes(const Job& job) const {
  std::uint64_t used = 0;
  for (const SessionId session : job.sessions) used += sessions_.at(session).used_bytes();
  return used;
}

std::uint64_t Pools::disk_bytes(const Job& job) const {
  std::uint64_t sum = 0;
  for (const SessionId session : job.sessions) sum += sessions_.at(session).disk_bytes.value_or(0);
  return sum;
}

std::uint64_t Pools::capacity_bytes(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : jobs_.at(found->second.job).promised_bytes;
}

std::uint64_t Pools::promised_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [key, job] : jobs_) sum += job.promised_bytes;
  return sum;
}

std::uint64_t Pools::promised_bytes(const JobKey& key) const {
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? 0 : found->second.promised_bytes;
}

std::uint64_t Pools::used_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, session] : sessions_) sum += session.used_bytes();
  return sum;
}

std::uint64_t Pools::reported_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, session] : sessions_) sum += session.reported_bytes;
  return sum;
}

}  // namespace terrace::daemon
