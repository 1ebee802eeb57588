// Puts a phase together: one turn of the thread whose repeat was found, its lead, and what other threads did
// meanwhile, if they do the same in each turn.
//
// Threads take turns in another order in each step. So the others are not taken by the clock but by their own
// sequence: the last L events of a thread belong to the step if they equal the L before them, where L is
// about what the thread did in the lead's turn and in the turn before. A thread for which there is no such L
// is noise, as is one whose L events are a short loop: it has no place in the step, however often it comes
// by.
//
// Ordinal 0 is a mark of the program's, or where the lead's repeat began: there the program entered its loop.
#pragma once

#include <cstdint>

#include "liballoc/lifetimes/known_phase.h"
#include "liballoc/lifetimes/repeats/repeats.h"
#include "liballoc/lifetimes/repeats/threads.h"

namespace terrace::liballoc {

struct Assembled {
  std::uint32_t places[most_members] = {};    // of the members among the threads
  std::uint32_t expected[most_members] = {};  // each member's next ordinal
  std::uint32_t start = 0;                    // position of the lead's event with ordinal 0
};

// Fills `phase`, which has its id. False: it is longer than phases may be.
bool assemble(const FollowedThreads& threads, std::uint32_t lead, const Repeat& repeat,
              std::uint32_t position, KnownPhase* phase, Assembled* out);

}  // namespace terrace::liballoc
