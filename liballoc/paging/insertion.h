// Where a run goes that came back from the tier: behind all others, as what is used last leaves last; or into
// a short queue that leaves first, so that the rest stays.
//
// What is asked for again only after more has come than memory holds would not be there by then, wherever it
// is put, and would only drive out what is. On a cycle that is longer than memory that is so for every run: a
// fixed part stays, the rest is streamed. What comes again sooner is kept, so what stays can change; and
// every so often one is kept anyway, so that what nobody uses any more goes. What returned but once is not on
// a cycle yet: an activation that the backward pass uses is read back, used several times and freed. Source:
// the inter-reference recency of Jiang and Zhang, "LIRS", SIGMETRICS 2002, section 2. Pure.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

class Insertion {
 public:
  static constexpr std::uint8_t returns_of_a_cycle = 2;

  // `distance`: how many runs have come since this one came last; `budget`: how many there is room for;
  // `returns`: how often it came back.
  bool streams(std::uint32_t distance, std::uint32_t budget, std::uint8_t returns) {
    constexpr std::uint32_t kept_anyway = 64;
    return returns >= returns_of_a_cycle && distance > budget && ++count_ % kept_anyway != 0;
  }

 private:
  std::uint32_t count_ = 0;
};

}  // namespace terrace::liballoc
