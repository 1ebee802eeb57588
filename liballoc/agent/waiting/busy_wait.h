// Whether the agent stays awake for what comes soon: to fall asleep and be woken takes as long.
//
// A thread that waited for a page touches the next one soon, and the piece that it waits for comes soon where
// the drive is fast. The processor is the one that the waiting thread does not use. So the agent waits for a
// piece as long as pieces take twice, and sleeps at once where they take too long for that (the kernel's
// hybrid polling does the same: Le Moal, "I/O latency optimization with polling", Vault 2017). Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::liballoc {

class BusyWait {
 public:
  // A touch was taken in.
  void note_fault(std::uint64_t now_ns) { since_ns_ = now_ns; }
  // The last piece that was under way has come.
  void note_served(std::uint64_t now_ns) {
    constexpr std::uint64_t weight = 8;
    const std::uint64_t took_ns = std::min(now_ns - std::min(now_ns, since_ns_), weight * longest_ns);
    typical_ns_ = ((weight - 1) * typical_ns_ + took_ns) / weight;
    since_ns_ = now_ns;
  }
  bool goes_on(std::uint64_t now_ns, bool awaits_piece) const {
    constexpr std::uint64_t next_touch_ns = 60'000;
    const bool is_worth_it = awaits_piece && typical_ns_ <= longest_ns;
    return now_ns - since_ns_ < (is_worth_it ? std::max(next_touch_ns, 2 * typical_ns_) : next_touch_ns);
  }

 private:
  static constexpr std::uint64_t longest_ns = 200'000;

  std::uint64_t since_ns_ = 0;                 // when something happened last
  std::uint64_t typical_ns_ = longest_ns / 2;  // from a touch to its piece
};

}  // namespace terrace::liballoc
