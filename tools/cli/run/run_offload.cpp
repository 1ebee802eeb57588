#include "tools/cli/run/run_offload.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tools/cli/base/format.h"
#include "tools/cli/base/json_numbers.h"

namespace terrace::cli {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 20;

constexpr std::array summed{"stored",
                            "stored_bytes",
                            "fetched",
                            "fetched_bytes",
                            "dropped",
                            "handed_back",
                            "nvme_written_bytes",
                            "nvme_read_bytes",
                            "compressed_bytes",
                            "frame_bytes",
                            "compress_ns",
                            "decompress_ns",
                            "host_wait_ns",
                            "read_ahead_hits",
                            "read_ahead_wasted",
                            "checksum_failures",
                            "io_errors"};
constexpr std::array largest{"dram_peak_bytes", "nvme_peak_bytes"};

std::uint64_t sum(std::uint64_t a, std::uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

void count(json* totals, const char* name) { (*totals)[name] = sum(whole(*totals, name), 1); }

void add_line(std::string_view line, json* totals) {
  if (totals->is_null()) *totals = json::object();
  const json row = json::parse(line, nullptr, false);
  if (!row.is_object()) return count(totals, "damaged_lines");
  count(totals, "processes");
  for (const char* name : summed) (*totals)[name] = sum(whole(*totals, name), whole(row, name));
  for (const char* name : largest) (*totals)[name] = std::max(whole(*totals, name), whole(row, name));
}

}  // namespace

json sum_offload_lines(std::string_view lines) {
  json totals;
  while (!lines.empty()) {
    const std::size_t length = std::min(lines.find('\n'), lines.size());
    if (length != 0) add_line(lines.substr(0, length), &totals);
    lines.remove_prefix(std::min(length + 1, lines.size()));
  }
  return totals;
}

Result<OffloadFile> OffloadFile::create() {
  std::error_code ignored;
  const fs::path directory = fs::temp_directory_path(ignored);
  OffloadFile made;
  made.path_ = (directory / "terrace-offload-XXXXXX").string();
  made.file_ = mkostemp(made.path_.data(), O_CLOEXEC);
  if (made.file_ >= 0) return ok(std::move(made));
  const std::string problem = fmt::format("cannot make a file in {} for what is offloaded: {}",
                                          directory.string(), std::strerror(errno));
  made.path_.clear();
  return refused<OffloadFile>(problem);
}

OffloadFile::OffloadFile(OffloadFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)), path_(std::exchange(other.path_, {})) {}

OffloadFile& OffloadFile::operator=(OffloadFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  return *this;
}

OffloadFile::~OffloadFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(path_.c_str());
}

json OffloadFile::totals() const {
  std::string text(most_bytes, '\0');
  std::size_t filled = 0;
  for (ssize_t got = 1; got > 0 && filled < text.size();
       filled += static_cast<std::size_t>(std::max<ssize_t>(got, 0)))
    got = pread(file_, text.data() + filled, text.size() - filled, static_cast<off_t>(filled));
  return sum_offload_lines(std::string_view(text).substr(0, filled));
}

std::string offload_text(const json& totals) {
  if (!totals.is_object() || whole(totals, "processes") == 0)
    return "  offload  nothing is known: no process of the job trained with PyTorch, or none came to its "
           "end\n";
  std::string text = fmt::format(
      "  offload  {} stored in {} tensors, {} to NVMe, waited {}\n",
      bytes_text(whole(totals, "stored_bytes")), count_text(static_cast<double>(whole(totals, "stored"))),
      bytes_text(whole(totals, "nvme_written_bytes")), duration_text(whole(totals, "host_wait_ns")));
  const std::uint64_t lost = whole(totals, "checksum_failures");
  const std::uint64_t errors = whole(totals, "io_errors");
  if (lost + errors != 0)
    text +=
        fmt::format("  DAMAGE   {} offloaded tensors failed their checksum, {} I/O errors: check the drive\n",
                    lost, errors);
  return text;
}

}  // namespace terrace::cli
