#include "liballoc/gpu/offload/endurance_ledger.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "liballoc/base/checksum.h"

namespace terrace::liballoc::offload {
namespace {

// "TREL" in memory; version; then day, today's bytes, all bytes; zeros; XXH3 of the 56 bytes before.
constexpr std::uint32_t magic = 0x4c455254;
constexpr std::uint32_t version = 1;
constexpr std::size_t sum_at = 56;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62;  // more no drive has taken: the file lies

std::uint64_t today() { return static_cast<std::uint64_t>(::time(nullptr)) / 86400; }

// Nobody else can leave one of this name in a sticky directory by mistake.
std::string temporary_name() {
  return std::string(EnduranceLedger::file_name) + ".new-" + std::to_string(::geteuid());
}

void put(std::byte* record, std::size_t at, std::uint64_t value) { std::memcpy(record + at, &value, 8); }
std::uint64_t get(const std::byte* record, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, record + at, 8);
  return value;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Counts of another day. A clock that goes back a little does not make today's bytes disappear; a record of
// the day after tomorrow or later was written by a clock that was wrong, and what it counted is today's: else
// no day would begin until then.
void begin_day(EnduranceCounts* counts) {
  const std::uint64_t now = today();
  if (now == counts->day || now + 1 == counts->day) return;
  if (now > counts->day) counts->today_bytes = 0;
  counts->day = now;
}

// Whoever may make files in the directory may change the file: the umask does not count.
int share(int file, const struct stat& directory) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return errno;
  if (status.st_uid != ::geteuid()) return 0;
  if (status.st_gid != directory.st_gid && ::fchown(file, static_cast<uid_t>(-1), directory.st_gid) != 0) {
    // Not a member of that group: others may still share it.
  }
  const mode_t mode = 0600 | (directory.st_mode & 0066);
  if ((status.st_mode & 0666) == mode) return 0;
  return ::fchmod(file, mode) == 0 ? 0 : errno;
}

}  // namespace

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the record is little-endian");

void EnduranceRecord::encode(const EnduranceCounts& counts, std::byte* out) {
  std::memset(out, 0, bytes);
  put(out, 0, magic | std::uint64_t{version} << 32);
  put(out, 8, counts.day);
  put(out, 16, counts.today_bytes);
  put(out, 24, counts.total_bytes);
  put(out, sum_at, checksum(out, sum_at, 0));
}

bool EnduranceRecord::decode(const std::byte* record, std::size_t size, EnduranceCounts* out) {
  if (size != bytes || get(record, sum_at) != checksum(record, sum_at, 0)) return false;
  const EnduranceCounts counts{get(record, 8), get(record, 16), get(record, 24)};
  std::byte same[bytes];
  encode(counts, same);
  if (std::memcmp(same, record, bytes) != 0) return false;
  if (counts.total_bytes > most_bytes || counts.today_bytes > counts.total_bytes) return false;
  *out = counts;
  return true;
}

int EnduranceLedger::read(int file, EnduranceCounts* out) const {
  struct stat status {};
  if (::fstat(file, &status) != 0) return errno;
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1) return EBADMSG;
  std::byte record[EnduranceRecord::bytes + 1];
  const ssize_t size = ::pread(file, record, sizeof(record), 0);
  if (size < 0) return errno;
  return EnduranceRecord::decode(record, static_cast<std::size_t>(size), out) ? 0 : EBADMSG;
}

// In place: 64 bytes at the beginning of a block are written as a whole or not at all.
int EnduranceLedger::write(int file, const EnduranceCounts& counts) const {
  std::byte record[EnduranceRecord::bytes];
  EnduranceRecord::encode(counts, record);
  if (::pwrite(file, record, sizeof(record), 0) != static_cast<ssize_t>(sizeof(record))) return EIO;
  struct stat directory {};
  if (::fstat(directory_fd_, &directory) != 0) return errno;
  if (const int error = share(file, directory); error != 0) return error;
  return ::fsync(file) == 0 ? 0 : errno;
}

// The first file, or one in place of a file that may not be written but replaced: it is never there
// unfinished.
int EnduranceLedger::create(const EnduranceCounts& counts) const {
  const std::string name = temporary_name();
  ::unlinkat(directory_fd_, name.c_str(), 0);  // of a job that was killed; the lock is ours
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const Descriptor file(::openat(directory_fd_, name.c_str(), flags, 0600));
  if (file.get() < 0) return errno;
  int error = write(file.get(), counts);
  if (error == 0 && ::renameat(directory_fd_, name.c_str(), directory_fd_, file_name) != 0) error = errno;
  if (error != 0) {
    ::unlinkat(directory_fd_, name.c_str(), 0);
    return error;
  }
  return ::fsync(directory_fd_) == 0 ? 0 : errno;
}

// Anybody may lock a directory that he can read: not for ever.
int EnduranceLedger::lock_directory() const {
  for (int tries = 0; tries < 200; ++tries) {
    if (::flock(directory_fd_, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno != EWOULDBLOCK && errno != EINTR) return errno;
    const timespec pause{0, 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return EAGAIN;
}

std::uint64_t EnduranceLedger::room(const EnduranceCounts& counts) const {
  std::uint64_t room = most_bytes - std::min(most_bytes, counts.total_bytes);
  if (per_day_bytes_ != 0)
    room = std::min(room, per_day_bytes_ - std::min(per_day_bytes_, counts.today_bytes));
  if (budget_bytes_ != 0) room = std::min(room, budget_bytes_ - std::min(budget_bytes_, counts.total_bytes));
  return room;
}

// What is charged ahead and not written is given back at the end, and on another day, which it was not
// charged to. `needed` is charged, or a step where there is room for one.
int EnduranceLedger::apply(std::uint64_t needed, bool gives_back, EnduranceCounts* counts,
                           std::uint64_t* charged) const {
  begin_day(counts);
  const bool is_new_day = counts->day != charge_day_;
  const std::uint64_t back = gives_back || is_new_day ? charged_bytes_ : 0;
  const std::uint64_t kept = charged_bytes_ - back;
  if (!is_new_day) counts->today_bytes -= std::min(back, counts->today_bytes);
  counts->total_bytes -= std::min(back, counts->total_bytes);
  counts->today_bytes = std::min(counts->today_bytes, counts->total_bytes);
  std::uint64_t charge = needed - std::min(needed, kept);
  const std::uint64_t room_bytes = room(*counts);
  if (charge > room_bytes) return EDQUOT;
  if (charge != 0) charge = std::min(std::max(charge, step_bytes), room_bytes);
  counts->today_bytes += charge;
  counts->total_bytes += charge;
  *charged = kept + charge;
  return 0;
}

// Reads, changes and writes the file.
int EnduranceLedger::update(std::uint64_t needed, bool gives_back) {
  if (const int error = lock_directory(); error != 0) return error;
  constexpr int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int writable = ::openat(directory_fd_, file_name, O_RDWR | flags);
  const bool is_ours_to_write = writable >= 0;
  const Descriptor file(is_ours_to_write ? writable : ::openat(directory_fd_, file_name, O_RDONLY | flags));
  EnduranceCounts counts;
  std::uint64_t charged = 0;
  int error = file.get() >= 0 ? read(file.get(), &counts) : errno;
  if (error == ELOOP) error = EBADMSG;
  if (error == ENOENT) error = 0;
  if (error == 0) error = apply(needed, gives_back, &counts, &charged);
  if (error == 0) error = is_ours_to_write ? write(file.get(), counts) : create(counts);
  ::flock(directory_fd_, LOCK_UN);
  if (error != 0) return error;
  charged_bytes_ = charged;
  charge_day_ = counts.day;
  counts_ = counts;
  return 0;
}

int EnduranceLedger::open(const std::string& directory, std::uint64_t per_day_bytes,
                          std::uint64_t total_bytes, std::string* reason) {
  per_day_bytes_ = per_day_bytes;
  budget_bytes_ = total_bytes;
  directory_fd_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = directory_fd_ < 0 ? errno : update(0, false);
  if (error == 0) return 0;
  const std::string path = directory + "/" + file_name;
  if (error == EBADMSG)
    *reason =
        path + " is damaged: it counts what was written to the drive. Remove it to begin at 0, or restore it";
  else
    *reason = path + " cannot be updated (" + std::strerror(error) +
              "): it counts what is written to the drive; " + remedy_for(error);
  if (directory_fd_ >= 0) ::close(directory_fd_);
  directory_fd_ = -1;
  return error;
}

// Of a file that is not ours and may not be replaced.
std::string EnduranceLedger::remedy_for(int error) const {
  struct stat status {};
  const bool may_not = error == EACCES || error == EPERM;
  if (may_not && directory_fd_ >= 0 && ::fstatat(directory_fd_, file_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
    return "its owner, user " + std::to_string(status.st_uid) +
           ", or root can let others write it (chmod a+rw) or remove it, or choose a directory of your own";
  return "choose a directory where this job may write";
}

void EnduranceLedger::close() {
  if (directory_fd_ < 0) return;
  if (charged_bytes_ != 0) update(0, true);
  ::close(directory_fd_);
  directory_fd_ = -1;
}

int EnduranceLedger::take(std::uint64_t bytes) {
  if (directory_fd_ < 0) return 0;
  if (charged_bytes_ < bytes || charge_day_ < today())
    if (const int error = update(bytes, false); error != 0) return error;
  charged_bytes_ -= bytes;
  return 0;
}

std::uint64_t EnduranceLedger::today_bytes() const {
  return counts_.today_bytes - std::min(charged_bytes_, counts_.today_bytes);
}
std::uint64_t EnduranceLedger::total_bytes() const {
  return counts_.total_bytes - std::min(charged_bytes_, counts_.total_bytes);
}

}  // namespace terrace::liballoc::offload
