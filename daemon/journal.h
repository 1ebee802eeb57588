// The last few thousand things that happened, for `terrace events`: what jobs reported through their rings,
// and what the daemon itself did. A reader follows by asking again with the last number it has seen; a gap in
// the numbers says how much it missed.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "liballoc/wire/segment.h"

namespace terrace::daemon {

struct JournalEntry {
  std::uint64_t number = 0;   // 1, 2, 3, ...
  std::uint64_t time_ns = 0;  // CLOCK_MONOTONIC
  std::uint64_t session = 0;  // 0: the daemon
  std::shared_ptr<const std::string> job;
  std::string kind;  // an EventKind's name, or: joined, reattached, left, refused, budget, log
  std::string text;
  wire::Event event;  // kind none for the daemon's own entries
};

class Journal {
 public:
  static constexpr std::size_t capacity = 4096;

  void add(JournalEntry entry);
  // Entries after number `since`, at most the last `limit` of them, oldest first.
  std::vector<const JournalEntry*> after(std::uint64_t since, std::size_t limit) const;
  std::uint64_t last_number() const { return last_; }

 private:
  std::deque<JournalEntry> entries_;
  std::uint64_t last_ = 0;
};

}  // namespace terrace::daemon
