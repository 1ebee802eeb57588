// See journal.h.
#include "daemon/journal.h"

#include <algorithm>

namespace terrace::daemon {

void Journal::add(JournalEntry entry) {
  entry.number = ++last_;
  entries_.push_back(std::move(entry));
  if (entries_.size() > capacity) entries_.pop_front();
}

std::vector<const JournalEntry*> Journal::after(std::uint64_t since, std::size_t limit) const {
  std::vector<const JournalEntry*> found;
  for (const JournalEntry& entry : entries_) {
    if (entry.number > since) found.push_back(&entry);
  }
  if (found.size() > limit) found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(limit));
  return found;
}

}  // namespace terrace::daemon
