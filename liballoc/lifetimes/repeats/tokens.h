// An event as a number of 28 bits: equal for events that look alike. What is freed looks like what was
// allocated, so that the size that a program freed need not be told.
//
// The thread is no part of it: each thread has a history of its own (history.h). The call site is none
// either: all tensors of PyTorch on the CPU have the same.
#pragma once

#include <cstdint>

#include "liballoc/lifetimes/repeats/clock_event.h"

namespace terrace::liballoc {

inline constexpr unsigned token_bits = 28;
inline constexpr std::uint32_t mark_token = 1;  // no event's: the program's own word that a step begins

// The finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
// 2014, figure 16).
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

inline std::uint32_t token_of(std::uint64_t kind, std::uint64_t what) {
  const auto token =
      static_cast<std::uint32_t>(mixed(what * 4 + kind + 0x9E3779B97F4A7C15ULL) >> (64 - token_bits));
  return token == mark_token ? mark_token + 1 : token;
}

// What the program calls a point of its step; the number is not 0.
inline std::uint32_t token_of_mark(std::uint64_t name) { return token_of(3, name); }

inline std::uint32_t token_of(const ClockEvent& event) {
  return token_of(static_cast<std::uint64_t>(event.kind), (event.bytes << 6U) | (event.alignment_log2 & 63U));
}

}  // namespace terrace::liballoc
