// The journal's entries in a file that outlives the daemon: "<socket>.events" (kept_file.h). After a kill or
// a restart `terrace events` shows what was before.
//
// The file is mapped, so that keeping an entry takes no system call. Each entry has a place and a checksum of
// its own: a kill costs at most the entry that was being written. What another start of the machine left
// counts as nothing. docs/formats/journal.md has the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/kept_file.h"
#include "daemon/sessions/journal_entry.h"

namespace terrace::daemon {

// Not thread-safe. While it is not open, keep() does nothing.
class JournalFile {
 public:
  // Bytes of an entry's text; a longer one ends with "…" in the file.
  static constexpr std::size_t most_text = 352;

  // What an earlier daemon left in `places` places, by growing numbers. They lie in the places 0, 1, 2, … of
  // the new file. A file that cannot be read or made is said once.
  std::vector<JournalEntry> open(KeptFile file, std::uint32_t places);
  void keep(std::uint32_t place, const JournalEntry& entry);

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* data) const;
  };

  int map(std::size_t bytes);

  KeptFile file_;
  std::unique_ptr<std::byte, Unmap> data_;  // null: not open
};

}  // namespace terrace::daemon
