// See process_memory.h.
#include "daemon/sessions/process/process_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>

namespace terrace::daemon {
namespace {

// "Groups:" alone may be long.
constexpr std::size_t most_text = std::size_t{32} * 1024;

bool has_ended(int process_fd) {
  pollfd watched{process_fd, POLLIN, 0};
  return ::poll(&watched, 1, 0) != 0;
}

// `label` with the line feed before it: a program's name, which comes first, has none (the kernel writes it
// as \n).
std::optional<std::uint64_t> kib_of(std::string_view status, std::string_view label) {
  const auto found = status.find(label);
  if (found == std::string_view::npos) return std::nullopt;
  const auto digits = status.find_first_not_of(" \t", found + label.size());
  if (digits == std::string_view::npos) return std::nullopt;
  std::uint64_t kib = 0;
  const auto [end, error] = std::from_chars(status.data() + digits, status.data() + status.size(), kib);
  const std::string_view rest(end, static_cast<std::size_t>(status.data() + status.size() - end));
  constexpr std::uint64_t most_kib = ~std::uint64_t{0} / 4096;
  if (error != std::errc() || !rest.starts_with(" kB\n") || kib > most_kib) return std::nullopt;
  return kib;
}

}  // namespace

std::optional<std::uint64_t> resident_in_status(std::string_view status) {
  const auto anonymous = kib_of(status, "\nRssAnon:");
  const auto shared = kib_of(status, "\nRssShmem:");
  if (!anonymous || !shared) return std::nullopt;
  return (*anonymous + *shared) * 1024;
}

// As long as the process has not ended its number is nobody else's: who is alive after the file was opened
// was so before, and it is his file.
ProcessMemory::ProcessMemory(pid_t pid, int process_fd) {
  if (pid <= 0 || process_fd < 0) return;
  status_.reset(::open(("/proc/" + std::to_string(pid) + "/status").c_str(), O_RDONLY | O_CLOEXEC));
  if (has_ended(process_fd)) status_.reset();
}

std::optional<std::uint64_t> ProcessMemory::resident_bytes() const {
  if (!status_) return std::nullopt;
  std::array<char, most_text> text;
  const ssize_t got = ::pread(status_.get(), text.data(), text.size(), 0);
  if (got <= 0) return std::nullopt;
  return resident_in_status({text.data(), static_cast<std::size_t>(got)});
}

}  // namespace terrace::daemon
