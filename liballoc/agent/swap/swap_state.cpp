#include "liballoc/agent/swap/swap_state.h"

#include <algorithm>

#include "liballoc/base/kernel_files.h"
#include "liballoc/base/kernel_text.h"
#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t any_bytes = ~0ULL;

// False: there is no such file.
bool read_file_at(int directory, const char* path, char* out, std::size_t capacity) {
  const int fd = open_kernel_file(directory, path);
  const bool has_text = read_kernel_file(fd, out, capacity);
  if (fd >= 0) os::close_fd(fd);
  return has_text;
}

// "max" is any number of bytes.
bool read_bytes_at(int directory, const char* path, std::uint64_t* value) {
  char text[64];
  if (!read_file_at(directory, path, text, sizeof(text))) return false;
  if (!parse_number(text, value)) *value = any_bytes;
  return true;
}

std::uint64_t read_kib(int fd, const char* key) {
  char text[8192];
  std::uint64_t bytes = 0;
  return read_kernel_file(fd, text, sizeof(text)) && find_kib(text, key, &bytes) ? bytes : 0;
}

std::uint64_t minus(std::uint64_t from, std::uint64_t bytes) { return from - std::min(from, bytes); }

}  // namespace

int SwapState::open(const char* cgroup_directory, const char* proc) {
  directory_fd_ = keep_descriptor(open_kernel_file(AT_FDCWD, cgroup_directory, O_DIRECTORY));
  if (directory_fd_ < 0) return errno;
  proc_fd_ = keep_descriptor(open_kernel_file(AT_FDCWD, proc, O_DIRECTORY));
  machine_fd_ = keep_descriptor(open_kernel_file(proc_fd_, "meminfo"));
  process_fd_ = keep_descriptor(open_kernel_file(proc_fd_, "self/status"));
  std::uint64_t ignored = 0;
  is_v2_ = read_bytes_at(directory_fd_, "memory.current", &ignored);
  return 0;
}

void SwapState::close() {
  for (int* fd : {&directory_fd_, &proc_fd_, &machine_fd_, &process_fd_}) {
    close_kept(*fd);
    *fd = -1;
  }
}

std::uint64_t SwapState::free_bytes() const {
  if (!is_open() || is_unwanted()) return 0;
  const std::uint64_t of_machine = read_kib(machine_fd_, "SwapFree");
  return of_machine == 0 ? 0 : std::min(of_machine, is_v2_ ? free_of_cgroups() : free_of_cgroup_v1());
}

bool SwapState::is_unwanted() const {
  std::uint64_t value = 0;
  return (read_bytes_at(directory_fd_, "memory.swappiness", &value) ||
          read_bytes_at(proc_fd_, "sys/vm/swappiness", &value)) &&
         value == 0;
}

std::uint64_t SwapState::swapped_bytes() const { return read_kib(process_fd_, "VmSwap"); }

std::uint64_t SwapState::resident_bytes() const { return read_kib(process_fd_, "RssAnon"); }

// From the cgroup itself up to the root, which has no such files.
std::uint64_t SwapState::free_of_cgroups() const {
  constexpr unsigned most_levels = 32;
  std::uint64_t least = any_bytes;
  int level = open_kernel_file(directory_fd_, ".", O_DIRECTORY);
  for (unsigned depth = 0; level >= 0 && depth < most_levels; ++depth) {
    std::uint64_t most = any_bytes;
    std::uint64_t used = 0;
    if (!read_bytes_at(level, "memory.swap.max", &most)) break;
    read_bytes_at(level, "memory.swap.current", &used);
    if (most != any_bytes) least = std::min(least, minus(most, used));
    const int above = open_kernel_file(level, "..", O_DIRECTORY);
    os::close_fd(level);
    level = above;
  }
  if (level >= 0) os::close_fd(level);
  return least;
}

std::uint64_t SwapState::free_of_cgroup_v1() const {
  char text[8192];
  std::uint64_t most = 0;  // of memory and swap together
  if (!read_file_at(directory_fd_, "memory.stat", text, sizeof(text)) ||
      !find_field(text, "hierarchical_memsw_limit", &most))
    return any_bytes;  // swap is not accounted for
  std::uint64_t memory_limit = 0;
  std::uint64_t swapped = 0;
  find_field(text, "hierarchical_memory_limit", &memory_limit);
  find_field(text, "swap", &swapped);
  return minus(minus(most, memory_limit), swapped);
}

}  // namespace terrace::liballoc
