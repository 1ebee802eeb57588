// What a repeat must show before it is called the period of the program.
//
// Sequences that no program's step made repeat, too. Each rule below is against one kind of them:
//   * a quarter of a third turn: the sequence of Thue and Morse has two equal turns of any length side by
//   side,
//     and never a single event more (Thue 1912: it is overlap-free);
//   * 64 events at least: sizes drawn from a few, or a walk among them, have short repeats by accident; at
//   one bit an
//     allocation the odds are 2^-32;
//   * where there are fewer than eight different tokens, 8192 events over the square of their number: a
//   decoder that
//     grows each of its caches in turn does the same alternation hundreds of times;
//   * it gives back what it takes: a pass over equal layers repeats, and each turn of it keeps its
//   activations. The
//     step ends with as much as it began with.
#pragma once

#include <cstdint>

#include "liballoc/lifetimes/repeats/history.h"
#include "liballoc/lifetimes/repeats/repeats.h"

namespace terrace::liballoc {

// The run that is enough for this distance; `has_mark`: the program itself says where its steps begin.
std::uint32_t run_needed(const History& history, const Repeat& repeat, bool has_mark);

struct LoopTurn {
  std::uint64_t allocated_kib = 0;
  bool is_balanced = false;
  bool has_mark = false;
};
// The thread's last `length` events.
LoopTurn turn_of(const History& history, std::uint32_t length);

}  // namespace terrace::liballoc
