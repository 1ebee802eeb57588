// See record_file.h.
#include "daemon/promises/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "daemon/unique_fd.h"

namespace terrace::daemon {
namespace {

constexpr const char* boot_path = "/proc/sys/kernel/random/boot_id";

// "" or what is not as the daemon leaves it.
std::string judge(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return "it is no regular file";
  if (status.st_uid != ::geteuid()) return fmt::format("it is user {}'s", status.st_uid);
  if ((status.st_mode & 077) != 0) return "others may read or write it";
  if (status.st_nlink != 1) return "it has a second name";
  if (static_cast<std::uint64_t>(status.st_size) > most_record_bytes()) return "it is too long";
  return {};
}

DecodedPromises read_record(const std::string& path, const std::string& boot) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return {{}, std::strerror(errno)};
  struct stat status;
  if (::fstat(file.get(), &status) != 0) return {{}, std::strerror(errno)};
  if (auto problem = judge(status); !problem.empty()) return {{}, std::move(problem)};
  std::string bytes(most_record_bytes() + 1, '\0');
  const ssize_t got = ::read(file.get(), bytes.data(), bytes.size());
  if (got < 0) return {{}, std::strerror(errno)};
  bytes.resize(static_cast<std::size_t>(got));
  return decode_promises(bytes, boot);
}

// 0 or errno.
int write_new(const std::string& path, const std::string& bytes) {
  ::unlink(path.c_str());  // of a daemon that was killed while it wrote
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return errno;
  const ssize_t put = ::write(file.get(), bytes.data(), bytes.size());
  if (put == static_cast<ssize_t>(bytes.size())) return 0;
  return put < 0 ? errno : ENOSPC;
}

}  // namespace

Promises RecordFile::open(std::string path) {
  path_ = std::move(path);
  std::getline(std::ifstream(boot_path), boot_);
  DecodedPromises decoded = read_record(path_, boot_);
  if (!decoded.problem.empty())
    spdlog::info("no record of promises in {}: {}; jobs that come back are treated as new", path_,
                 decoded.problem);
  return std::move(decoded.promises);
}

void RecordFile::keep(const Promises& promises, std::uint64_t now_ns) {
  if (!is_due(now_ns) || (is_written_ && promises == written_)) return;
  next_ns_ = now_ns + pause_ns;
  write(promises);
}

void RecordFile::finish(const Promises& promises) {
  if (path_.empty()) return;
  if (!promises.empty()) return write(promises);
  ::unlink(path_.c_str());
}

void RecordFile::write(const Promises& promises) {
  const std::string fresh = path_ + ".new";
  int error = write_new(fresh, encode_promises(promises, boot_));
  if (error == 0 && ::rename(fresh.c_str(), path_.c_str()) != 0) error = errno;
  if (error == 0) {
    written_ = promises;
    is_written_ = true;
    has_failed_ = false;
    return;
  }
  ::unlink(fresh.c_str());
  if (!has_failed_)
    spdlog::warn(
        "cannot write {}: {}; after a restart jobs that come back may be treated as new; let terraced write "
        "there, or "
        "choose another [daemon] socket",
        path_, std::strerror(error));
  has_failed_ = true;
}

}  // namespace terrace::daemon
