// What the kernel counts of a drive: the bytes written to it, whoever wrote them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace terrace::daemon {

// Of the block device with the file system of `directory`, since the machine started. Nothing where that is
// on none (tmpfs, NFS), or on one that the kernel gives no number (btrfs, overlayfs). `root` is where /sys is
// looked for: "" on a real machine.
class DriveCounter {
 public:
  DriveCounter() = default;
  explicit DriveCounter(const std::string& directory, const std::string& root = "");
  std::optional<std::uint64_t> written_bytes() const;

 private:
  std::string path_;
};

// Out of the text of /sys/dev/block/MAJOR:MINOR/stat (Documentation/block/stat.rst): its seventh field, in
// sectors of 512 bytes.
std::optional<std::uint64_t> written_in_stat(const std::string& text);

}  // namespace terrace::daemon
