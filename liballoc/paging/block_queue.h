// What the program's threads tell the agent: which blocks came and went, in order.
//
// The writing end belongs to who holds the heap's lock, so there is one producer at a time; the reading end
// to who holds the gate (gate.h). Neither waits for the other but when the ring is full, which a producer
// asks before it changes anything. What a thread wrote here before it touched a page is here when the agent
// hears of that touch, so the agent reads all of it before it serves a fault.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "liballoc/base/os.h"

namespace terrace::liballoc {

// What a note tells. `marked` is of no block: the program's own word where it is.
enum class BlockChange : std::uint8_t { allocated, freed, grown, marked };

struct BlockEvent {
  std::uint64_t call_site = 0;  // of what is marked: its name as a number; 0: a step begins
  std::uint64_t time_ns = 0;    // when it was noted, CLOCK_MONOTONIC, while times are wanted; else 0
  std::uint32_t block = 0;      // id
  std::uint32_t first = 0;      // granules that came or went: of a block that grew, those that joined it
  std::uint32_t granules = 0;
  std::uint32_t thread = 0;  // who did it: any number that is its own while it lives
  BlockChange change = BlockChange::allocated;
  std::uint8_t hints = 0;
  bool zeroed = false;  // whole runs of it that are empty must read as zeroes
};

class BlockQueue {
 public:
  static constexpr std::uint32_t capacity = 1U << 14;

  int initialise() {
    ring_ =
        static_cast<BlockEvent*>(os::map_anonymous(capacity * sizeof(BlockEvent), PROT_READ | PROT_WRITE));
    return ring_ == nullptr ? ENOMEM : 0;
  }

  // ---- the producer
  bool has_room() const { return written_.load(std::memory_order_relaxed) - read_.load() < capacity; }
  void push(const BlockEvent& event) {
    const std::uint32_t next = written_.load(std::memory_order_relaxed);
    ring_[next % capacity] = event;
    if (wants_times_.load(std::memory_order_relaxed)) ring_[next % capacity].time_ns = os::now_ns();
    written_.store(next + 1);
    granules_ += event.granules;
  }
  // Whether so much has changed since the last time that the agent should look, or the mark is reached.
  bool is_worth_a_look(std::uint32_t least_granules) {
    if (reaches_mark()) return true;
    const std::uint32_t waiting = written_.load(std::memory_order_relaxed) - read_.load();
    if (granules_ < least_granules && waiting < capacity / 2) return false;
    granules_ = 0;
    return true;
  }

  // ---- the consumer
  bool pop(BlockEvent* out) {
    const std::uint32_t next = read_.load(std::memory_order_relaxed);
    if (next == written_.load()) return false;
    *out = ring_[next % capacity];
    read_.store(next + 1);
    return true;
  }
  // So many were not read yet.
  std::uint32_t waiting() const { return written_.load() - read_.load(std::memory_order_relaxed); }
  // Whether notes are to say when they were made, which costs their thread a look at the clock.
  void want_times(bool wanted) { wants_times_.store(wanted, std::memory_order_relaxed); }
  // The producer is to wake the agent when so many events more than those read have been written, once; 0:
  // not for that. True: they have been already.
  bool wake_after(std::uint32_t events) {
    mark_.store(events == 0 ? unmarked : marked | (read_.load(std::memory_order_relaxed) + events));
    return events != 0 && static_cast<std::int32_t>(written_.load() - (read_.load() + events)) >= 0;
  }
  // Times that the producer reached a mark.
  std::uint32_t marks_reached() const { return marks_reached_.load(std::memory_order_relaxed); }
  bool is_empty() const { return read_.load(std::memory_order_relaxed) == written_.load(); }
  // Whether something that was not read yet happened to any of [from, from + length).
  bool mentions(std::uint32_t from, std::uint32_t length) const {
    const std::uint32_t end = written_.load();
    for (std::uint32_t next = read_.load(std::memory_order_relaxed); next != end; ++next) {
      const BlockEvent& e = ring_[next % capacity];
      if (e.first < from + length && from < e.first + e.granules) return true;
    }
    return false;
  }

 private:
  static constexpr std::uint64_t unmarked = 0;
  static constexpr std::uint64_t marked = std::uint64_t{1} << 32;

  bool reaches_mark() {
    std::uint64_t mark = mark_.load();
    if (mark == unmarked) return false;
    const std::uint32_t written = written_.load(std::memory_order_relaxed);
    if (static_cast<std::int32_t>(written - static_cast<std::uint32_t>(mark)) < 0) return false;
    if (!mark_.compare_exchange_strong(mark, unmarked)) return false;  // another one was set meanwhile
    marks_reached_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  BlockEvent* ring_ = nullptr;
  std::uint32_t granules_ = 0;  // the producer's
  std::atomic<std::uint32_t> written_{0};
  std::atomic<std::uint32_t> read_{0};
  std::atomic<bool> wants_times_{false};       // the consumer's
  std::atomic<std::uint64_t> mark_{unmarked};  // or `marked` and a number of events written
  std::atomic<std::uint32_t> marks_reached_{0};
};

}  // namespace terrace::liballoc
