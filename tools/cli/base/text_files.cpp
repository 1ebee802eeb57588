#include "tools/cli/base/text_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tools/cli/base/budget.h"
#include "tools/cli/base/exit_code.h"
#include "tools/import/gunzip.h"

namespace terrace::cli {

namespace {

constexpr std::uint64_t most_file_bytes = std::uint64_t{512} << 20;
constexpr std::uint64_t most_unpacked_bytes = std::uint64_t{2} << 30;

Loaded<std::string> not_read(int exit_code, std::string why) {
  return {refused<std::string>(std::move(why)), exit_code};
}

int exit_code_of(int error) {
  if (error == ENOENT || error == ENOTDIR) return exit_not_found;
  return error == EACCES || error == EPERM ? exit_permission : exit_failure;
}

// 0 or an errno value; EFBIG for what is larger than is read.
int read_all(int fd, std::string* text) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  for (;;) {
    const std::size_t have = text->size();
    text->resize(have + piece);
    const ssize_t got = read(fd, text->data() + have, piece);
    const int error = errno;
    text->resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return 0;
    if (got < 0 && error != EINTR) return error;
    if (text->size() > most_file_bytes) return EFBIG;
  }
}

Loaded<std::string> read_packed(const std::string& path) {
  const bool standard_input = path == "-";
  const int fd = standard_input ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return not_read(exit_code_of(errno), fmt::format("{}: {}", path, std::strerror(errno)));
  std::string text;
  const int error = read_all(fd, &text);
  if (!standard_input) close(fd);
  if (error == EFBIG)
    return not_read(exit_failure, fmt::format("{}: larger than {}, which is more than a trace takes", path,
                                              exact_size(most_file_bytes)));
  if (error != 0) return not_read(exit_code_of(error), fmt::format("{}: {}", path, std::strerror(error)));
  return {ok(std::move(text)), exit_ok};
}

bool write_packed(const std::string& path, const std::string& content) {
  gzFile file = gzopen(path.c_str(), "wbe");
  if (file == nullptr) return false;
  const bool written = content.empty() || gzfwrite(content.data(), 1, content.size(), file) == content.size();
  return gzclose(file) == Z_OK && written;
}

bool write_plain(const std::string& path, const std::string& content) {
  FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return false;
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  return std::fclose(file) == 0 && written;
}

}  // namespace

Loaded<std::string> load_text(const std::string& path) {
  Loaded<std::string> packed = read_packed(path);
  if (!packed.result || !import::is_gzip(*packed.result)) return packed;
  auto text = import::gunzip(*packed.result, most_unpacked_bytes);
  if (!text) return not_read(exit_failure, fmt::format("{}: {}", path, text.error));
  return {std::move(text), exit_ok};
}

std::string write_whole(const std::string& path, const std::string& content) {
  const std::string part = fmt::format("{}.{}.part", path, getpid());
  errno = 0;
  const bool written = path.ends_with(".gz") ? write_packed(part, content) : write_plain(part, content);
  if (written && std::rename(part.c_str(), path.c_str()) == 0) return "";
  const int error = errno;
  std::remove(part.c_str());
  return fmt::format("{} cannot be written: {}", path, std::strerror(error != 0 ? error : EIO));
}

}  // namespace terrace::cli
