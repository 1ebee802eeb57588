// The last events of one thread, as tokens, with what else is asked of them later: when they came among those
// of all threads, how much of the thread's own allocations was live then, and which phase claimed them.
//
// A ring, in memory that the kernel gives when it is written. A thread begins with a short one; a thread that
// does more is given one of the few long ones (threads.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "liballoc/lifetimes/repeats/tokens.h"

namespace terrace::liballoc {

class History {
 public:
  static constexpr std::uint32_t short_events = 1U << 12;
  static constexpr std::uint32_t long_events = 1U << 17;
  static constexpr std::size_t bytes_per_event = 3 * sizeof(std::uint32_t);

  // `memory`: of events * bytes_per_event, the caller's.
  void use(std::uint32_t* memory, std::uint32_t events) {
    tokens_ = memory;
    positions_ = memory + events;
    live_ = memory + std::size_t{2} * events;
    mask_ = events - 1;
    begin_ = count_ = 0;
  }
  // All it has goes to the longer memory.
  void move_to(std::uint32_t* memory, std::uint32_t events) {
    const History old = *this;
    use(memory, events);
    begin_ = old.count_ - old.held();
    count_ = old.count_;
    for (std::uint32_t i = begin_; i != count_; ++i) {
      tokens_[i & mask_] = old.tokens_[i & old.mask_];
      positions_[i & mask_] = old.positions_[i & old.mask_];
      live_[i & mask_] = old.live_[i & old.mask_];
    }
  }

  void push(std::uint32_t token, std::uint32_t position, std::uint32_t live_kib, std::uint32_t cover) {
    const std::uint32_t at = count_++ & mask_;
    tokens_[at] = (token << cover_bits) | cover;
    positions_[at] = position;
    live_[at] = live_kib;
  }

  // Events are numbered from 0, modulo 2^32. Only [count() - held(), count()) are there.
  std::uint32_t count() const { return count_; }
  std::uint32_t held() const { return std::min(count_ - begin_, mask_ + 1); }
  std::uint32_t capacity() const { return mask_ + 1; }

  std::uint32_t token(std::uint32_t i) const { return tokens_[i & mask_] >> cover_bits; }
  bool equal(std::uint32_t i, std::uint32_t j) const { return token(i) == token(j); }
  std::uint32_t position(std::uint32_t i) const { return positions_[i & mask_]; }
  std::uint32_t live_kib(std::uint32_t i) const { return live_[i & mask_]; }
  // 0: nothing claimed the event; else 1 + the number of the phase's place among those known.
  std::uint32_t cover(std::uint32_t i) const { return tokens_[i & mask_] & ((1U << cover_bits) - 1); }
  void set_cover(std::uint32_t from, std::uint32_t to, std::uint32_t cover) {
    for (std::uint32_t i = from; i != to; ++i)
      tokens_[i & mask_] = (tokens_[i & mask_] & ~((1U << cover_bits) - 1)) | cover;
  }

 private:
  static constexpr unsigned cover_bits = 32 - token_bits;

  std::uint32_t* tokens_ = nullptr;
  std::uint32_t* positions_ = nullptr;
  std::uint32_t* live_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t begin_ = 0;  // the first event that was ever in this memory
  std::uint32_t count_ = 0;
};

// Whether [end - length, end) equals what lies `lag` before it, but for one event in 32.
inline bool repeats(const History& h, std::uint32_t end, std::uint32_t length, std::uint32_t lag) {
  std::uint32_t left = length / 32;
  for (std::uint32_t i = end - length; i != end; ++i) {
    if (!h.equal(i, i - lag) && left-- == 0) return false;
  }
  return true;
}

// The least divisor of `length` that is a period of the last `length` events: `length` itself if nothing in
// it repeats.
std::uint32_t least_period(const History& h, std::uint32_t length);
// The number of different tokens among the last `length` events, counted up to `most` (<= 64).
std::uint32_t distinct_tokens(const History& h, std::uint32_t length, std::uint32_t most);

}  // namespace terrace::liballoc
