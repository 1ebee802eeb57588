// Whether the processor of a thread that waits for pages is kept from halting meanwhile.
//
// A thread that waits for a page leaves its processor without work. In a virtual machine it halts, and takes
// 10 to 30 us to run again, half as long as a fast drive needs for the page; deep sleep states cost as much
// elsewhere. Guests of KVM can poll before they halt (Linux, Documentation/virt/guest-halt-polling.rst),
// where root says so. Here a thread of ours does it (halt_poller.h), and that takes processor time. So it is
// tried: some touches with it, some without, in turn. It goes on where those come faster by a twentieth in
// three pairs of looks of four, and is tried anew now and then: the sooner, the less often it was found to
// gain nothing.
//
//   look    0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15      then, for a rest of so many touches
//   polls      x  x     x        x  x        x     x  x         as it was found
//
// Touches that are far apart count for nothing: what the program does in between outweighs the waiting. Only
// where one thread waits: of several, another has work for the processor. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace terrace::liballoc {

class HaltPolling {
 public:
  static constexpr unsigned touches_of_look = 32;
  static constexpr unsigned looks = 16;
  static constexpr unsigned least_rest = 1024;
  static constexpr unsigned most_rest = 16'384;
  static constexpr std::uint64_t longest_ns = 500'000;  // from one touch to the next; after that it rests

  // A touch of `thread` was taken in.
  void note_fault(std::uint32_t thread, std::uint64_t now_ns) {
    const std::uint64_t took_ns = now_ns - std::min(now_ns, since_ns_);
    const bool is_others = thread != thread_;
    since_ns_ = now_ns;
    thread_ = thread;
    if (took_ns >= longest_ns) return;
    if (is_decided_) return count_down();
    others_ += is_others ? 1 : 0;
    // The first touch of a look has begun in the one before.
    if (touches_++ > 0) took_ns_ += took_ns;
    if (touches_ == touches_of_look) end_look();
  }
  // Until `longest_ns` after the last touch.
  bool polls() const { return is_decided_ ? pays_ : polls_in(look_); }

 private:
  // The Thue-Morse sequence, by pairs: a drive that gets slower meanwhile favours neither.
  static constexpr bool polls_in(unsigned look) { return (0b0110'1001'1001'0110U >> look & 1U) != 0; }

  void end_look() {
    const std::uint64_t looked_ns = std::exchange(took_ns_, 0);
    const bool is_second = look_ % 2 == 1;
    if (is_second) compare(polls_in(look_), looked_ns);
    before_ns_ = looked_ns;
    touches_ = 0;
    const bool is_lone = std::exchange(others_, 0) <= touches_of_look / 8;
    if (is_lone && ++look_ < looks) return;
    is_decided_ = true;
    pays_ = is_lone && wins_ >= looks / 2 * 3 / 4;
    left_ = pays_ ? most_rest : next_rest_;
    next_rest_ = pays_ ? least_rest : std::min(2 * next_rest_, most_rest);
  }
  // A look and the one before, of which one polls: so close together, both find the machine in the same
  // state.
  void compare(bool polled_last, std::uint64_t last_ns) {
    const std::uint64_t with_ns = polled_last ? last_ns : before_ns_;
    const std::uint64_t without_ns = polled_last ? before_ns_ : last_ns;
    wins_ += with_ns < without_ns / 20 * 19 ? 1 : 0;
  }
  void count_down() {
    if (--left_ > 0) return;
    is_decided_ = false;
    look_ = wins_ = 0;
  }

  std::uint64_t since_ns_ = 0;
  std::uint64_t took_ns_ = 0;    // in this look
  std::uint64_t before_ns_ = 0;  // in the one before
  std::uint32_t thread_ = 0;
  unsigned look_ = 0;
  unsigned touches_ = 0;             // of this look
  unsigned wins_ = 0;                // pairs of looks of which the one that polls was faster
  unsigned others_ = 0;              // that another thread made than the one before
  unsigned left_ = 0;                // touches until it is tried anew
  unsigned next_rest_ = least_rest;  // where it gains nothing again
  bool is_decided_ = false;
  bool pays_ = false;
};

}  // namespace terrace::liballoc
