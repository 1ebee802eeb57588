// Which blocks a run is to be taken out of, and when: not before the program has come to a position. And what
// probing may take in a period: a share of what the period took last time.
//
// Pure, constant memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::liballoc {

class ProbeQueue {
 public:
  static constexpr std::uint32_t most = 256;

  // A period begins that may take so long for probing; 0: nothing is probed.
  void begin_period(std::uint64_t allowed_ns) {
    allowed_ns_ = allowed_ns;
    spent_ns_ = 0;
  }
  void spend(std::uint64_t ns) { spent_ns_ += ns; }
  bool may_spend() const { return spent_ns_ < allowed_ns_; }

  // False: there is no room, or no time is left.
  bool add(std::uint32_t block, std::uint64_t not_before) {
    if (count_ == most || !may_spend()) return false;
    entries_[count_++] = {not_before, block};
    if (not_before < earliest_) earliest_ = not_before;
    return true;
  }
  std::uint32_t size() const { return count_; }
  // No entry is due before it; UINT64_MAX: there is none.
  std::uint64_t earliest() const { return count_ > 0 ? earliest_ : UINT64_MAX; }
  bool has_room() const { return count_ < most / 2; }
  // Takes one whose time has come. False: none.
  bool take_due(std::uint64_t now, std::uint32_t* block) {
    if (now < earliest_) return false;
    earliest_ = UINT64_MAX;
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (entries_[i].not_before <= now) {
        *block = entries_[i].block;
        entries_[i] = entries_[--count_];
        earliest_ = 0;  // there may be more
        return true;
      }
      if (entries_[i].not_before < earliest_) earliest_ = entries_[i].not_before;
    }
    return false;
  }
  // Takes any. False: there is none.
  bool take_any(std::uint32_t* block) {
    if (count_ == 0) return false;
    *block = entries_[--count_].block;
    return true;
  }
  void remove(std::uint32_t block) {
    for (std::uint32_t i = count_; i-- > 0;)
      if (entries_[i].block == block) entries_[i] = entries_[--count_];
  }
  void clear() {
    count_ = 0;
    earliest_ = UINT64_MAX;
  }

 private:
  struct Entry {
    std::uint64_t not_before;
    std::uint32_t block;
  };

  Entry entries_[most] = {};
  std::uint32_t count_ = 0;
  std::uint64_t earliest_ = UINT64_MAX;  // no entry is due before it
  std::uint64_t allowed_ns_ = 0;
  std::uint64_t spent_ns_ = 0;
};

}  // namespace terrace::liballoc
