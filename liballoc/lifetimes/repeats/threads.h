// The threads whose events are followed: a few, each with a history, a finder of repeats and the sum of what
// lives of its own allocations. A thread that is new takes a place that is free or whose thread has long been
// idle; where there is none its events are counted and not followed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/lifetimes/repeats/history.h"
#include "liballoc/lifetimes/repeats/repeats.h"

namespace terrace::liballoc {

struct FollowedThread {
  History history;
  RepeatFinder repeats;
  std::uint64_t last_event = 0;  // its number among all; 0: the place is free
  std::uint32_t thread = 0;
  std::uint32_t live_kib = 0;  // of what it allocated itself, modulo 2^32: only differences are of use
  bool has_long_memory = false;
};

class FollowedThreads {
 public:
  static constexpr std::uint32_t most = 8;
  static constexpr std::uint32_t most_long = 2;
  static constexpr std::uint64_t idle_events = 1U << 14;  // of all threads, without one of its own
  static constexpr std::size_t bytes =
      (std::size_t{most} * History::short_events + std::size_t{most_long} * History::long_events) *
      History::bytes_per_event;
  static constexpr std::uint32_t none = UINT32_MAX;

  void use(std::byte* memory) { memory_ = memory; }
  // The thread's place; `is_new`: whatever was there is forgotten. none: there is no room.
  std::uint32_t find(std::uint32_t thread, std::uint64_t event_number, bool* is_new);
  // Before a push: more memory for a thread that has filled its own, as long as there is some.
  void make_room(std::uint32_t place, std::uint64_t event_number);

  FollowedThread& operator[](std::uint32_t place) { return threads_[place]; }
  const FollowedThread& operator[](std::uint32_t place) const { return threads_[place]; }

 private:
  std::uint32_t* short_memory(std::uint32_t place) const;
  std::uint32_t* long_memory(std::uint32_t n) const;
  void begin(std::uint32_t place, std::uint32_t thread);

  std::byte* memory_ = nullptr;
  FollowedThread threads_[most];
  std::uint32_t long_owner_[most_long] = {none, none};
  std::uint32_t last_ = 0;
};

}  // namespace terrace::liballoc
