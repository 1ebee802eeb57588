// Can pages be taken out from under an address and given back, and do huge pages survive it?
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sstream>

#include "tools/cli/base/files.h"
#include "tools/cli/doctor/checks.h"

namespace terrace::cli {

namespace {

// Newer than Debian 12's headers (uapi/linux/userfaultfd.h of Linux 6.8).
constexpr std::uint64_t feature_poison = std::uint64_t{1} << 14;
constexpr std::uint64_t feature_wp_async = std::uint64_t{1} << 15;
constexpr std::uint64_t feature_move = std::uint64_t{1} << 16;
constexpr int user_mode_only = 1;
struct MoveRequest {
  std::uint64_t dst, src, len, mode;
  std::int64_t moved;
};
constexpr unsigned long ioctl_move = _IOWR(UFFDIO, 0x05, MoveRequest);
constexpr unsigned long ioctl_new = _IO(UFFDIO, 0x00);

constexpr std::size_t huge_bytes = std::size_t{2} << 20;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// One huge page's worth of anonymous memory, aligned so that it can be one.
class HugeRange {
 public:
  HugeRange() : base_(mmap(nullptr, 2 * huge_bytes, PROT_READ | PROT_WRITE, flags, -1, 0)) {}
  HugeRange(const HugeRange&) = delete;
  HugeRange& operator=(const HugeRange&) = delete;
  ~HugeRange() { munmap(base_, 2 * huge_bytes); }
  unsigned char* bytes() const {
    return reinterpret_cast<unsigned char*>((reinterpret_cast<std::uintptr_t>(base_) + huge_bytes - 1) &
                                            ~(huge_bytes - 1));
  }
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(bytes()); }

 private:
  static constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* base_;
};

enum class Access { full, user_mode, none };

int open_device(int flags) {
  const Fd device(open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  return device.get() < 0 ? -1 : ioctl(device.get(), ioctl_new, flags);
}

// As the library tries them: whatever serves the kernel's own accesses first.
int open_userfaultfd(Access* access) {
  constexpr int flags = O_CLOEXEC | O_NONBLOCK;
  *access = Access::full;
  int fd = static_cast<int>(syscall(SYS_userfaultfd, flags));
  if (fd < 0) fd = open_device(flags);
  if (fd >= 0) return fd;
  *access = Access::user_mode;
  fd = static_cast<int>(syscall(SYS_userfaultfd, flags | user_mode_only));
  if (fd < 0) *access = Access::none;
  return fd;
}

std::uint64_t features_of(int fd) {
  uffdio_api api{};
  api.api = UFFD_API;
  return ioctl(fd, UFFDIO_API, &api) == 0 ? api.features : 0;
}

Finding userfaultfd_finding(Access access) {
  Finding finding{"paging", "userfaultfd",       Health::good, "yes, accesses by the kernel included",
                  "",       {{"access", "full"}}};
  // The library does without it then: read() into an evicted page would fail with EFAULT.
  if (access == Access::user_mode)
    finding = {
        "paging",
        "userfaultfd",
        Health::missing,
        "only for accesses by the program itself, which is not enough",
        "nothing is evicted: run terraced as root (it hands jobs what they need), give the job's group "
        "access to /dev/userfaultfd (chgrp terrace, chmod 660), or sysctl vm.unprivileged_userfaultfd=1",
        {{"access", "user-mode-only"}}};
  if (access == Access::none)
    finding = {
        "paging",
        "userfaultfd",
        Health::missing,
        fmt::format("no: {}", std::strerror(errno)),
        "programs run unchanged but nothing is evicted: allow the system call (a container's seccomp profile "
        "may forbid it) or give access to /dev/userfaultfd",
        {{"access", "none"}}};
  return finding;
}

Finding features_finding(std::uint64_t features) {
  const bool move = (features & feature_move) != 0;
  const bool poison = (features & feature_poison) != 0;
  const bool wp_async = (features & feature_wp_async) != 0;
  return {
      "paging",
      "userfaultfd_features",
      move ? Health::good : Health::degraded,
      fmt::format("move {}, poison {}, async write-protect {}", move ? "yes" : "no", poison ? "yes" : "no",
                  wp_async ? "yes" : "no"),
      move
          ? ""
          : "pages are moved by mremap instead, which is slower with many threads: Linux 6.8 or newer has it",
      {{"move", move}, {"poison", poison}, {"wp_async", wp_async}, {"mask", features}}};
}

bool huge_page_at(std::uint64_t address) {
  std::istringstream lines(read_text("/proc/self/smaps").value_or(""));
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    unsigned long start = 0, end = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &start, &end) == 2) inside = start <= address && address < end;
    if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu", &kib) == 1) return kib >= huge_bytes / 1024;
  }
  return false;
}

void fill(unsigned char* bytes) {
  madvise(bytes, huge_bytes, MADV_HUGEPAGE);
  for (std::size_t i = 0; i < huge_bytes; ++i) bytes[i] = static_cast<unsigned char>(i * 131 >> 7);
}

bool holds_pattern(const unsigned char* bytes) {
  for (std::size_t i = 0; i < huge_bytes; ++i)
    if (bytes[i] != static_cast<unsigned char>(i * 131 >> 7)) return false;
  return true;
}

// "" when one 2 MiB page was moved and kept its bytes, else what went wrong.
std::string try_move(int fd, bool* huge) {
  const HugeRange from, to;
  fill(from.bytes());
  uffdio_register registration{};
  registration.range = {to.address(), huge_bytes};
  registration.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (ioctl(fd, UFFDIO_REGISTER, &registration) != 0)
    return fmt::format("register: {}", std::strerror(errno));
  MoveRequest request{to.address(), from.address(), huge_bytes, 0, 0};
  if (ioctl(fd, ioctl_move, &request) != 0) return std::strerror(errno);
  *huge = huge_page_at(to.address());
  return holds_pattern(to.bytes()) ? "" : "the page arrived with other bytes";
}

std::string try_mremap(bool* huge) {
  const HugeRange from, to;
  fill(from.bytes());
  void* moved = mremap(from.bytes(), huge_bytes, huge_bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                       to.bytes());
  if (moved == MAP_FAILED) return std::strerror(errno);
  *huge = huge_page_at(to.address());
  if (from.bytes()[1] != 0) return "the page was copied, not moved";
  return holds_pattern(to.bytes()) ? "" : "the page arrived with other bytes";
}

Finding mover_finding(const char* name, const std::string& problem, bool huge, const char* remedy) {
  const bool works = problem.empty();
  return {"paging",
          name,
          works ? Health::good : Health::degraded,
          works ? (huge ? "works, 2 MiB page moved whole" : "works, in 4 KiB pages") : "no: " + problem,
          works ? "" : remedy,
          {{"works", works}, {"huge_page_kept", huge}}};
}

void check_movers(Findings* out) {
  Access access{};
  const Fd fd(open_userfaultfd(&access));
  bool huge = false;
  std::string problem = "no userfaultfd";
  if (fd.get() >= 0 && features_of(fd.get()) != 0) problem = try_move(fd.get(), &huge);
  out->push_back(
      mover_finding("UFFDIO_MOVE", problem, huge, "mremap is used instead; Linux 6.8 or newer has it"));
  huge = false;
  problem = try_mremap(&huge);
  out->push_back(mover_finding("MREMAP_DONTUNMAP", problem, huge,
                               "only needed where UFFDIO_MOVE is missing; Linux 5.7"));
}

// The kernel brackets the setting in force: "always [madvise] never".
std::string chosen(const char* path) {
  const std::string text = read_text(path).value_or("");
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']');
  return open == std::string::npos || close == std::string::npos ? ""
                                                                 : text.substr(open + 1, close - open - 1);
}

Finding huge_page_finding() {
  const std::string enabled = chosen("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::string defrag = chosen("/sys/kernel/mm/transparent_hugepage/defrag");
  const bool usable = enabled == "always" || enabled == "madvise";
  return {
      "paging",
      "transparent_huge_pages",
      usable ? Health::good : Health::degraded,
      enabled.empty() ? "not in this kernel" : fmt::format("{}, defrag {}", enabled, defrag),
      usable
          ? ""
          : "moving 4 KiB pages costs far more: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
      {{"enabled", enabled}, {"defrag", defrag}}};
}

}  // namespace

void check_paging(Findings* out) {
  Access access{};
  const Fd fd(open_userfaultfd(&access));
  out->push_back(userfaultfd_finding(access));
  if (fd.get() >= 0) out->push_back(features_finding(features_of(fd.get())));
  check_movers(out);
  out->push_back(huge_page_finding());
}

}  // namespace terrace::cli
