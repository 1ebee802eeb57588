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
#include <string>
#include <vector>

#include "daemon/sessions/journal_entry.h"
#include "daemon/sessions/journal_file.h"

namespace terrace::daemon {

class Session;

class Journal {
 public:
  static constexpr std::size_t capacity = 4096;

  // What an earlier daemon kept in the file comes first, under its numbers; what comes from now on is kept
  // there, too. Before the first entry.
  void keep_in(KeptFile file);
  void add(JournalEntry entry);
  // The daemon's own, about a session.
  void note(const Session& session, const char* kind, std::string text, std::uint64_t now_ns);
  // Entries after number `since`, at most the last `limit` of them, oldest first.
  std::vector<const JournalEntry*> after(std::uint64_t since, std::size_t limit) const;
  std::uint64_t last_number() const { return last_; }

 private:
  // As large as the journal is before make_room().
  static constexpr std::uint32_t places = capacity + 1;

  std::uint32_t take_place();
  void make_room();

  JournalFile file_;
  std::vector<std::uint32_t> free_places_;                     // of those that were in use
  std::uint32_t used_places_ = 0;                              // those after them never were
  std::map<std::uint32_t, std::deque<JournalEntry>> entries_;  // by user, none empty
  std::size_t size_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace terrace::daemon
