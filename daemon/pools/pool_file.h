// What is known of the file that a returning job brings along as its pool. It says nothing by itself: whoever
// promises space by it judges (pools.h).
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>

#include "daemon/base/unique_fd.h"

namespace terrace::daemon {

// The same file, whichever descriptor it comes by, as long as one is open.
struct FileId {
  std::uint64_t device = 0;                         // st_dev
  std::uint64_t inode = 0;                          // st_ino
  auto operator<=>(const FileId&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14's mistake
};

struct PoolFile {
  std::uint64_t allocated_bytes = 0;  // disk that it takes up
  FileId id;
  std::uint64_t names = 0;  // st_nlink
  std::uint32_t owner = 0;
  bool writable = false;  // this descriptor is
  // By which it came. Whoever has it last closes it, which takes any time unless it is of a file system of
  // ours.
  std::shared_ptr<UniqueFd> descriptor = nullptr;
};

// Nothing unless `fd` is a regular file. It asks the file's own file system, which may take any time.
std::optional<PoolFile> look_at_pool_file(int fd);

// What a file takes up on its disk; nothing if it cannot be asked.
std::optional<std::uint64_t> disk_bytes(int fd);

}  // namespace terrace::daemon
