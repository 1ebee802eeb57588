// The files of a pool until tiers own them: made in each directory, and how many bytes each may take.
//
// The pool is divided in equal parts, since the slowest of equal drives sets the pace; a file system with
// less room than its part gives what it has, and the others share the rest.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "liballoc/base/pool_directories.h"

namespace terrace::liballoc {

class PoolFiles {
 public:
  struct File {
    int fd = -1;
    const char* directory = "";
    std::uint64_t bytes = 0;  // its part of the pool, in whole runs; 0: there is none for it
    std::uint64_t free_bytes = 0;
    dev_t device = 0;
  };

  PoolFiles() = default;
  PoolFiles(const PoolFiles&) = delete;
  PoolFiles& operator=(const PoolFiles&) = delete;
  // Closes what is still in `fd`.
  ~PoolFiles();

  // One file in each directory, whose names stay the caller's. 0, or errno and in which directory.
  int make(const PoolDirectories& directories, const char** failed);
  // One file that exists already, for so many bytes.
  void adopt(int fd, std::uint64_t bytes);
  // How many bytes the pool has in all; 0: 80% of what is free, 64 GiB at most.
  void divide(std::uint64_t pool_bytes);

  std::span<File> files() { return {files_, count_}; }
  // The first file on whose file system an earlier one lies, or nullptr.
  const File* first_twin() const;

 private:
  void look_at_room();

  File files_[PoolDirectories::most];
  std::size_t count_ = 0;
};

// Divides `whole` into one part for each room: equal ones, as far as the rooms go. What exceeds all rooms
// together is added to the part of the largest.
void divide_evenly(std::uint64_t whole, std::span<const std::uint64_t> rooms, std::span<std::uint64_t> parts);

}  // namespace terrace::liballoc
