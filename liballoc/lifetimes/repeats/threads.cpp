#include "liballoc/lifetimes/repeats/threads.h"

namespace terrace::liballoc {

std::uint32_t* FollowedThreads::short_memory(std::uint32_t place) const {
  return reinterpret_cast<std::uint32_t*>(memory_ + std::size_t{place} * History::short_events *
                                                        History::bytes_per_event);
}

std::uint32_t* FollowedThreads::long_memory(std::uint32_t n) const {
  return short_memory(most) +
         std::size_t{n} * History::long_events * History::bytes_per_event / sizeof(std::uint32_t);
}

void FollowedThreads::begin(std::uint32_t place, std::uint32_t thread) {
  for (std::uint32_t& owner : long_owner_) {
    if (owner == place) owner = none;
  }
  threads_[place] = FollowedThread{};
  threads_[place].thread = thread;
  threads_[place].history.use(short_memory(place), History::short_events);
}

std::uint32_t FollowedThreads::find(std::uint32_t thread, std::uint64_t event_number, bool* is_new) {
  *is_new = false;
  if (threads_[last_].thread == thread && threads_[last_].last_event != 0) return last_;
  std::uint32_t longest_idle = 0;
  for (std::uint32_t i = 0; i < most; ++i) {
    const FollowedThread& t = threads_[i];
    if (t.thread == thread && t.last_event != 0) return last_ = i;
    if (t.last_event < threads_[longest_idle].last_event) longest_idle = i;
  }
  const std::uint64_t last_event = threads_[longest_idle].last_event;
  if (last_event != 0 && event_number - last_event < idle_events) return none;
  begin(longest_idle, thread);
  *is_new = true;
  return last_ = longest_idle;
}

void FollowedThreads::make_room(std::uint32_t place, std::uint64_t event_number) {
  FollowedThread& t = threads_[place];
  if (t.has_long_memory || t.history.count() % History::short_events != 0 || t.history.count() == 0) return;
  for (std::uint32_t n = 0; n < most_long; ++n) {
    const std::uint32_t owner = long_owner_[n];
    if (owner != none && event_number - threads_[owner].last_event < History::long_events) continue;
    if (owner != none) begin(owner, threads_[owner].thread);
    long_owner_[n] = place;
    t.history.move_to(long_memory(n), History::long_events);
    t.has_long_memory = true;
    return;
  }
}

}  // namespace terrace::liballoc
