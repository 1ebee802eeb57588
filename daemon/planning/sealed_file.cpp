#include "daemon/planning/sealed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "liballoc/wire/period/period.h"

namespace terrace::daemon {
namespace {

constexpr int needed_seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;

// F_GET_SEALS is known of memory files only, and answered without asking the file's owner anything.
std::string problem_of(int fd, std::uint64_t image_bytes) {
  const int seals = fd < 0 ? -1 : ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return "without a memfd";
  if ((seals & needed_seals) != needed_seals)
    return "in a memfd that is not sealed against writing, shrinking and growing";
  struct stat status;
  if (::fstat(fd, &status) != 0) return "in a memfd without a size";
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes < image_bytes) return "in a memfd that is shorter than it says";
  return bytes > wire::most_period_bytes ? "in a memfd that is larger than any period" : "";
}

}  // namespace

PeriodFile look_at_period_file(UniqueFd* descriptor, std::uint64_t image_bytes) {
  PeriodFile file{problem_of(descriptor->get(), image_bytes), image_bytes, {}};
  if (file.problem.empty()) file.descriptor = std::move(*descriptor);
  return file;
}

// Read and not mapped: a hole, or a page that cannot be had, is an error here and no signal.
std::vector<std::byte> read_file(const PeriodFile& file) {
  std::vector<std::byte> bytes(file.image_bytes);
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::pread(file.descriptor.get(), bytes.data() + filled, bytes.size() - filled,
                                static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

Result<UniqueFd> make_sealed_file(std::string_view content) {
  const auto failed = [](const char* what) {
    return refused<UniqueFd>(fmt::format("the daemon cannot {} a memfd: {}", what, std::strerror(errno)));
  };
  UniqueFd fd(::memfd_create("terrace-schedule", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return failed("make");
  std::size_t written = 0;
  while (written < content.size()) {
    const ssize_t put = ::write(fd.get(), content.data() + written, content.size() - written);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return failed("fill");
    written += static_cast<std::size_t>(put);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, needed_seals | F_SEAL_SEAL) != 0) return failed("seal");
  return ok(std::move(fd));
}

}  // namespace terrace::daemon
