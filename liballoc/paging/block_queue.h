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

enum class BlockChange : std::uint8_t { allocated, freed, grown };

struct BlockEvent {
  std::uint64_t call_site = 0;
  std::uint64_t time_ns = 0;  // when it was noted, CLOCK_MONOTONIC, while times are wanted; else 0
  std::uint32_t block = 0;    // id
  std::uint32_t first = 0;    // granules that came or went: of a block that grew, those that joined it
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
  // Whether so much has changed since the last time that the agent should look.
  bool is_worth_a_look(std::uint32_t least_granules) {
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
  BlockEvent* ring_ = nullptr;
  std::uint32_t granules_ = 0;  // the producer's
  std::atomic<std::uint32_t> written_{0};
  std::atomic<std::uint32_t> read_{0};
  std::atomic<bool> wants_times_{false};  // the consumer's
};

}  // namespace terrace::liballoc
