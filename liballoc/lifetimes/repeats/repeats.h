// Distances at which one thread's sequence of events repeats itself.
//
// The last eight tokens have a rolling hash (Karp, Rabin, "Efficient randomized pattern-matching algorithms",
// IBM J. Res. Dev. 31, 1987). A table says where the same eight came last; that distance is a candidate, and
// from then on each event is compared with the one so far before it. A candidate is judged by its run: how
// many events in a row equal those before them. What came before the candidate was found counts, so an outer
// loop is known as soon as its second turn has gone a quarter beyond its first.
//
//     I I I I O I I I I O I         I: an inner loop, distance |I|, ends at each O
//             |       |             O is where the outer distance |IIIIO| shows, and its run reaches back to
//             +-------+             the first I
//
// Comparing at several distances at a time is how the dynamic periodicity detector of Freitag, Corbalan and
// Labarta (IPDPS 2001, section 3) finds a parallel program's outer loop. It compares at all distances up to
// its window; the table makes four enough.
//
// Where sizes are few, the same eight come many times in a step. So 64 in a row are looked up, too, one time
// in four, as their hash decides.
//
// Single events more, fewer or other than before are edits: a run goes on over them if 16 events behind them
// are as before, and the caller asks more of a run that has some.
#pragma once

#include <cstdint>

#include "liballoc/lifetimes/repeats/history.h"

namespace terrace::liballoc {

// A rolling hash of the last so many tokens (Karp and Rabin), modulo 2^64 and mixed.
template <std::uint32_t length>
class RollingHash {
 public:
  static constexpr std::uint32_t tokens = length;
  // `leaving`: the token that came `tokens` before; 0 if there was none.
  void push(std::uint32_t token, std::uint32_t leaving) {
    value_ = value_ * base + token - std::uint64_t{leaving} * base_to_the_length();
  }
  std::uint64_t value() const { return mixed(value_) | 1U; }

 private:
  static constexpr std::uint64_t base = 0x9E3779B97F4A7C15ULL;
  static constexpr std::uint64_t base_to_the_length() {
    std::uint64_t power = 1;
    for (std::uint32_t i = 0; i < length; ++i) power *= base;
    return power;
  }
  std::uint64_t value_ = 0;
};
using GramHash = RollingHash<8>;

// Where tokens in a row came last, by their hash and thread. Entries of others with the same place are
// overwritten.
class RecentGrams {
 public:
  static constexpr std::uint32_t slots = 1U << 16;
  static constexpr std::size_t bytes = std::size_t{slots} * 8;
  void use(void* memory) { entries_ = static_cast<Entry*>(memory); }

  // Remembers `index` (> 0) and returns what was remembered before: 0 if nothing.
  std::uint32_t exchange(std::uint64_t gram, std::uint32_t index) {
    Entry& e = entries_[gram & (slots - 1)];
    const auto tag = static_cast<std::uint32_t>(gram >> 32U);
    const std::uint32_t before = e.tag == tag ? e.index : 0;
    e = {tag, index};
    return before;
  }

 private:
  struct Entry {
    std::uint32_t tag;
    std::uint32_t index;
  };
  Entry* entries_ = nullptr;
};

struct Repeat {
  std::uint32_t lag = 0;  // 0: none
  std::uint32_t run = 0;  // events in a row that equal those `lag` before them
  std::uint32_t edits = 0;
  std::uint32_t misses = 0;  // in a row
  std::uint32_t retry = 0;   // the run from which on it is looked at again
};

class RepeatFinder {
 public:
  static constexpr std::uint32_t longest_lag = 1U << 16;
  static constexpr std::uint32_t candidates = 4;

  void forget() { *this = RepeatFinder{}; }
  // After each push. `salt` tells threads apart.
  void on_event(const History& history, RecentGrams& recent, std::uint64_t salt);
  // The hash of the last eight tokens; 0 before there are eight.
  std::uint64_t last_gram() const { return last_gram_; }
  Repeat& operator[](std::uint32_t n) { return repeats_[n]; }
  // A distance that the program itself has named.
  void suggest(const History& history, std::uint32_t lag);

 private:
  void roll(const History& history);
  void look_up(const History& history, RecentGrams& recent, std::uint64_t gram);
  void compare(const History& history);

  Repeat repeats_[candidates];
  GramHash rolling_;
  RollingHash<64> rolling_long_;
  std::uint64_t last_gram_ = 0;
  std::uint32_t last_mark_ = 0;
};

// How far back the last events equal those `lag` before them, with edits.
Repeat repeat_behind(const History& history, std::uint32_t lag);

}  // namespace terrace::liballoc
