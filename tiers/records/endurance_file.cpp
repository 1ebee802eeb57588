// See endurance_file.h.
#include "tiers/records/endurance_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tiers/records/state_directory.h"

namespace terrace::records {
namespace {

constexpr std::uint64_t lock_pause_ns = 5'000'000;
constexpr std::uint64_t open_patience_ns = 2'000'000'000;

}  // namespace

int EnduranceFile::open(const std::string& state, const std::string& pool_directory, std::uint64_t now_day,
                        Outlives outlives, std::string* reason) {
  close();
  outlives_ = outlives;
  path_ = state + "/" + drive_name(pool_directory);
  int error = drive_name(pool_directory).empty() ? ENOENT : make_state_directory(state);
  if (error == 0) {
    directory_fd_ = ::open(state.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    error = directory_fd_ < 0 ? errno : 0;
  }
  if (error == 0) error = update(now_day, open_patience_ns, [](Endurance*) { return 0; });
  if (error == 0) return 0;
  *reason = reason_of(error);
  close();
  return error;
}

void EnduranceFile::close() {
  if (directory_fd_ >= 0) ::close(directory_fd_);
  directory_fd_ = -1;
}

std::string EnduranceFile::reason_of(int error) const {
  if (error == EBADMSG)
    return path_ +
           " is damaged, or none of ours: it counts what was written to the drive. Remove it to begin at 0, "
           "or restore it";
  return path_ + " cannot be kept (" + std::strerror(error) +
         "): it counts what is written to the drive; let XDG_STATE_HOME name a directory of your own "
         "that nobody else may write to";
}

// A program that was stopped may hold the lock for ever.
int EnduranceFile::lock(std::uint64_t patience_ns) const {
  for (std::uint64_t waited_ns = 0;; waited_ns += lock_pause_ns) {
    if (::flock(directory_fd_, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno != EWOULDBLOCK && errno != EINTR) return errno;
    if (waited_ns >= patience_ns) return EAGAIN;
    const timespec pause{0, static_cast<long>(lock_pause_ns)};
    ::nanosleep(&pause, nullptr);
  }
}

int EnduranceFile::update(std::uint64_t now_day, std::uint64_t patience_ns, const Change& change) {
  if (!is_open()) return EBADF;
  if (const int error = lock(patience_ns); error != 0) return error;
  const int error = change_locked(now_day, change);
  ::flock(directory_fd_, LOCK_UN);
  return error;
}

int EnduranceFile::change_locked(std::uint64_t now_day, const Change& change) {
  const PrivateFile file = read_private_file(path_, most_endurance_bytes());
  if (!file.problem.empty() && file.error != ENOENT) return file.error;
  // An empty one says nothing: nobody wrote a record.
  const std::optional<Endurance> record =
      file.bytes.empty() ? std::optional(Endurance()) : decode_endurance(file.bytes);
  if (!record) return EBADMSG;
  Endurance written = *record;
  written.begin_day(now_day);
  if (const int error = change(&written); error != 0) return error;
  return written == *record && !file.bytes.empty()
             ? 0
             : replace_private_file(path_, encode_endurance(written), outlives_);
}

}  // namespace terrace::records
