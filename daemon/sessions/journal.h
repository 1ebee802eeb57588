// The last few thousand things that happened, for `terrace events`: what jobs reported through their rings,
// and what the daemon itself did. A reader follows by asking again with the last number it has seen; a gap in
// the numbers says how much it missed.
//
// What one user's processes report is theirs to choose, so that it must not push out what others did: when
// the journal is full, the oldest entry of the user who has most makes room. Each of n users keeps the
// journal's nth part at least.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "liballoc/wire/segment.h"

namespace terrace::daemon {

struct JournalEntry {
  std::uint64_t number = 0;   // 1, 2, 3, ...
  std::uint64_t time_ns = 0;  // CLOCK_MONOTONIC
  std::uint64_t session = 0;  // 0: the daemon
  std::uint32_t uid = 0;      // whose session it is, or would have been
  std::shared_ptr<const std::string> job;
  std::string kind;  // an EventKind's name, or: joined, reattached, left, refused, budget, overdue,
                     // understated, overfull, spent, log
  std::string text;
  wire::Event event;  // kind none for the daemon's own entries
};

class Session;

class Journal {
 public:
  static constexpr std::size_t capacity = 4096;

  void add(JournalEntry entry);
  // The daemon's own, about a session.
  void note(const Session& session, const char* kind, std::string text, std::uint64_t now_ns);
  // Entries after number `since`, at most the last `limit` of them, oldest first.
  std::vector<const JournalEntry*> after(std::uint64_t since, std::size_t limit) const;
  std::uint64_t last_number() const { return last_; }

 private:
  void make_room();

  std::map<std::uint32_t, std::deque<JournalEntry>> entries_;  // by user, none empty
  std::size_t size_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace terrace::daemon
