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

#include "liballoc/checksum.h"

namespace terrace::liballoc::offload {
namespace {

// "TREL" in memory; version; then day, today's bytes, all bytes; zeros; XXH3 of the 56 bytes before.
constexpr std::uint32_t magic = 0x4c455254;
constexpr std::uint32_t version = 1;
constexpr std::size_t sum_at = 56;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62;  // more no drive has taken: the file lies
constexpr const char* temporary_name = ".terrace-endurance.new";

std::uint64_t today() { return static_cast<std::uint64_t>(::time(nullptr)) / 86400; }

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

// Counts of another day; a clock that goes back does not make today's bytes disappear.
void begin_day(EnduranceCounts* counts) {
  const std::uint64_t now = today();
  if (now <= counts->day) return;
  counts->day = now;
  counts->today_bytes = 0;
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

int EnduranceLedger::read(EnduranceCounts* out) const {
  const Descriptor file(::openat(directory_fd_, file_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) return errno;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EBADMSG;
  std::byte record[EnduranceRecord::bytes + 1];
  const ssize_t size = ::pread(file.get(), record, sizeof(record), 0);
  if (size < 0) return errno;
  return EnduranceRecord::decode(record, static_cast<std::size_t>(size), out) ? 0 : EBADMSG;
}

int EnduranceLedger::write(const EnduranceCounts& counts) const {
  std::byte record[EnduranceRecord::bytes];
  EnduranceRecord::encode(counts, record);
  ::unlinkat(directory_fd_, temporary_name, 0);  // of a job that was killed; the lock is ours
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const Descriptor file(::openat(directory_fd_, temporary_name, flags, 0644));
  if (file.get() < 0) return errno;
  if (::write(file.get(), record, sizeof(record)) != static_cast<ssize_t>(sizeof(record))) return EIO;
  if (::fsync(file.get()) != 0) return errno;
  if (::renameat(directory_fd_, temporary_name, directory_fd_, file_name) != 0) return errno;
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

// Reads, changes and replaces the file. `charge` is what is needed; a step is taken where there is room.
int EnduranceLedger::update(std::uint64_t charge, std::uint64_t give_back) {
  if (const int error = lock_directory(); error != 0) return error;
  EnduranceCounts counts;
  int error = read(&counts);
  if (error == ENOENT) error = 0;
  if (error == 0) {
    begin_day(&counts);
    counts.today_bytes -= std::min(give_back, counts.today_bytes);
    counts.total_bytes -= std::min(give_back, counts.total_bytes);
    const std::uint64_t room_bytes = room(counts);
    if (charge > room_bytes) error = EDQUOT;
    if (charge != 0) charge = std::min(std::max(charge, step_bytes), room_bytes);
    counts.today_bytes += charge;
    counts.total_bytes += charge;
  }
  if (error == 0) error = write(counts);
  ::flock(directory_fd_, LOCK_UN);
  if (error != 0) return error;
  charged_bytes_ = charged_bytes_ - give_back + charge;
  counts_ = counts;
  return 0;
}

int EnduranceLedger::open(const std::string& directory, std::uint64_t per_day_bytes,
                          std::uint64_t total_bytes, std::string* reason) {
  per_day_bytes_ = per_day_bytes;
  budget_bytes_ = total_bytes;
  directory_fd_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = directory_fd_ < 0 ? errno : update(0, 0);
  if (error == 0) return 0;
  const std::string path = directory + "/" + file_name;
  *reason =
      error == EBADMSG
          ? path +
                " is damaged: it counts what was written to the drive. Remove it to begin at 0, or restore it"
          : path + " cannot be updated (" + std::strerror(error) +
                "): it counts what is written to the drive; choose a directory where this job may write";
  if (directory_fd_ >= 0) ::close(directory_fd_);
  directory_fd_ = -1;
  return error;
}

void EnduranceLedger::close() {
  if (directory_fd_ < 0) return;
  if (charged_bytes_ != 0) update(0, charged_bytes_);
  ::close(directory_fd_);
  directory_fd_ = -1;
}

int EnduranceLedger::take(std::uint64_t bytes) {
  if (directory_fd_ < 0) return 0;
  if (charged_bytes_ < bytes)
    if (const int error = update(bytes - charged_bytes_, 0); error != 0) return error;
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
