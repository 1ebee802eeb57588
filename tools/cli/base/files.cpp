#include "tools/cli/base/files.h"

#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <sstream>

namespace terrace::cli {

namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 20;

std::optional<std::uint64_t> number_at(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t:");
  if (start == std::string_view::npos) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + start, text.data() + text.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

// Whole-word match: "oom" must not find "oom_kill".
bool has_key(std::string_view line, std::string_view key) {
  return line.starts_with(key) && line.size() > key.size() &&
         (line[key.size()] == ' ' || line[key.size()] == ':');
}

}  // namespace

std::optional<std::string> read_text(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string text;
  std::array<char, 4096> piece;
  ssize_t got = 0;
  while (text.size() < most_bytes && (got = read(fd, piece.data(), piece.size())) > 0)
    text.append(piece.data(), static_cast<std::size_t>(got));
  close(fd);
  return got < 0 ? std::nullopt : std::optional(std::move(text));
}

std::optional<std::uint64_t> read_number(const std::filesystem::path& path) {
  const auto text = read_text(path);
  return text ? number_at(*text) : std::nullopt;
}

std::optional<std::uint64_t> read_keyed_number(const std::filesystem::path& path, std::string_view key) {
  const auto text = read_text(path);
  if (!text) return std::nullopt;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);)
    if (has_key(line, key)) return number_at(std::string_view(line).substr(key.size()));
  return std::nullopt;
}

int write_text(const std::filesystem::path& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const ssize_t written = write(fd, text.data(), text.size());
  const int error = written < 0 ? errno : 0;
  close(fd);
  return error;
}

bool lies_in_memory(const std::filesystem::path& directory) {
  constexpr long tmpfs_magic = 0x01021994, ramfs_magic = 0x858458f6;
  struct statfs found {};
  if (statfs(directory.c_str(), &found) != 0) return false;
  return found.f_type == tmpfs_magic || found.f_type == ramfs_magic;
}

std::string trimmed(std::string text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  text.erase(end == std::string::npos ? 0 : end + 1);
  return text;
}

}  // namespace terrace::cli
