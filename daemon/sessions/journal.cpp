// See journal.h.
#include "daemon/sessions/journal.h"

#include <algorithm>
#include <utility>

#include "daemon/sessions/session.h"

namespace terrace::daemon {

void Journal::keep_in(KeptFile file) {
  for (JournalEntry& entry : file_.open(std::move(file), places)) {
    last_ = entry.number - 1;
    add(std::move(entry));
  }
}

std::uint32_t Journal::take_place() {
  if (free_places_.empty()) return used_places_++;
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  return place;
}

void Journal::add(JournalEntry entry) {
  entry.number = ++last_;
  entry.place = take_place();
  file_.keep(entry.place, entry);
  const std::uint32_t uid = entry.uid;
  entries_[uid].push_back(std::move(entry));
  if (++size_ > capacity) make_room();
}

void Journal::note(const Session& session, const char* kind, std::string text, std::uint64_t now_ns) {
  add({0, now_ns, session.id(), session.peer().uid, session.job_name(), kind, std::move(text), {}, 0});
}

void Journal::make_room() {
  const auto most = std::max_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  free_places_.push_back(most->second.front().place);
  most->second.pop_front();
  if (most->second.empty()) entries_.erase(most);
  --size_;
}

std::vector<const JournalEntry*> Journal::after(std::uint64_t since, std::size_t limit) const {
  std::vector<const JournalEntry*> found;
  for (const auto& [uid, entries] : entries_) {
    const std::size_t before = found.size();
    for (auto entry = entries.rbegin(); entry != entries.rend() && entry->number > since; ++entry) {
      if (found.size() - before == limit) break;
      found.push_back(&*entry);
    }
  }
  std::sort(found.begin(), found.end(), [](const auto* a, const auto* b) { return a->number < b->number; });
  if (found.size() > limit) found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(limit));
  return found;
}

}  // namespace terrace::daemon
