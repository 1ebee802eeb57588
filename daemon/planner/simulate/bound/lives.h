// What a bound has to know of a trace: instants, and where in them each content rests unused.
//
// An instant is the end of an operation, while everything that it names still lies in tier 0; the step's
// begin may be one, too. A version is the content of a tensor from one write to the next; a gap is a stretch
// of instants strictly between two operations that name it, the later of which reads it: there the content
// must exist, but not in tier 0. Where the next operation writes the tensor whole, nothing need exist before
// it.
//
//     ops      w . . r . . . . r          w writes, r reads
//     gaps      [   ]  [     ]            both of one version: what was copied in the first one
//                                         needs no second copy
//
// Of a step that repeats, instants are counted on into the next step: instant i of n comes back as i + n.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "liballoc/wire/trace.h"

namespace terrace::planner {

inline constexpr double never_again = std::numeric_limits<double>::infinity();

struct Stretch {
  std::uint32_t first = 0, last = 0;  // instants, both included
  bool returns = true;                // read after `last`; false: after the step's end, or never
};

struct Version {
  std::uint32_t born = 0;  // instant that ends the first window in which it can be copied
  bool copied = false;     // it is from before the step: a copy may lie outside from the start
  double bytes = 0;
  double least_share = 1;                  // of its bytes, that tier 0 must have to hold it
  double again_us_per_byte = never_again;  // recomputing takes at least this
  std::vector<Stretch> gaps;
};

struct Instant {
  double window_us = 0;    // computing since the instant before
  double named_bytes = 0;  // in use by the operation that ends here
};

struct Lives {
  std::vector<Instant> instants;
  std::vector<Version> versions;  // alike ones are one
};

struct LivesOptions {
  bool repeats = false;                   // the step begins as it ends
  std::uint32_t most_instants = 128;      // two more at most; of each equal share of the step its fullest one
  std::vector<double> least_shares = {};  // per tensor, of its bytes while it rests; empty: all
  // Likewise while an operation reads its signs alone.
  std::vector<double> least_read_shares = {};
};

Lives lives_of(const wire::Trace& trace, const LivesOptions& options);

}  // namespace terrace::planner
