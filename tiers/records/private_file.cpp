// See private_file.h.
#include "tiers/records/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tiers/records/descriptor.h"

namespace terrace::records {
namespace {

// "" or what is not as a program of ours leaves it.
std::string problem_of(const struct stat& status, std::size_t most_bytes) {
  if (!S_ISREG(status.st_mode)) return "it is no regular file";
  if (status.st_uid != ::geteuid()) return "it is user " + std::to_string(status.st_uid) + "'s";
  if ((status.st_mode & 077) != 0) return "others may read or write it";
  if (status.st_nlink > 1) return "it has a second name";
  if (static_cast<std::uint64_t>(status.st_size) > most_bytes) return "it is too long";
  return {};
}

PrivateFile failed(int error) { return {{}, error, std::strerror(error)}; }

int write_new(const std::string& path, std::string_view bytes, Outlives outlives) {
  ::unlink(path.c_str());  // of a writer that was killed
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return errno;
  const ssize_t put = ::write(file.get(), bytes.data(), bytes.size());
  if (put != static_cast<ssize_t>(bytes.size())) return put < 0 ? errno : ENOSPC;
  return outlives == Outlives::machine && ::fsync(file.get()) != 0 ? errno : 0;
}

}  // namespace

PrivateFile read_private_file(const std::string& path, std::size_t most_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0 && errno == ELOOP) return {{}, EBADMSG, "it is a symbolic link"};
  if (file.get() < 0) return failed(errno);
  return read_private_file(file.get(), most_bytes);
}

PrivateFile read_private_file(int descriptor, std::size_t most_bytes) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return failed(errno);
  if (std::string problem = problem_of(status, most_bytes); !problem.empty())
    return {{}, EBADMSG, std::move(problem)};
  PrivateFile found;
  found.bytes.resize(most_bytes + 1);
  const ssize_t got = ::pread(descriptor, found.bytes.data(), found.bytes.size(), 0);
  if (got < 0) return failed(errno);
  found.bytes.resize(static_cast<std::size_t>(got));
  return found;
}

int replace_private_file(const std::string& path, std::string_view bytes, Outlives outlives) {
  const std::string fresh = path + ".new";
  int error = write_new(fresh, bytes, outlives);
  if (error == 0 && ::rename(fresh.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(fresh.c_str());
  return error;
}

}  // namespace terrace::records
