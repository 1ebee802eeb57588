// Where a run goes that came back from the tier: behind all others, as what is used last leaves last; or into
// a short queue that leaves first, so that the rest stays.
//
// What is asked for again only after more has come than memory holds would not be there by then, wherever it
// is put, and would only drive out what is. On a cycle that is longer than memory that is so for every run: a
// fixed part stays, the rest is streamed. The fixed part is spread over the cycle, so that the device reads
// at all times, not only while the program is where nothing stays. What comes again sooner is kept, so what
// stays can change; and every so often one is kept anyway, so that what nobody uses any more goes. Where new
// data comes, too, what returned but once is not on a cycle yet: an activation that the backward pass uses is
// read back, used several times and freed. Source: the inter-reference recency of Jiang and Zhang, "LIRS",
// SIGMETRICS 2002, section 2. Pure.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

class Insertion {
 public:
  // How often a run has come back, or that it is known to be on a cycle.
  static constexpr std::uint8_t on_a_cycle = 3;

  // One more run has come back; `arrivals`: how many have come in all, new ones included, ever.
  void note_return(std::uint32_t arrivals) {
    constexpr std::uint32_t sample = 64;
    if (++returned_ < sample) return;
    hardly_any_is_new_ = arrivals - arrivals_ <= sample + sample / 4;
    arrivals_ = arrivals;
    returned_ = 0;
  }
  // `distance`: how many runs have come since this one came last; `room`: how many may stay; `returns`: of
  // this one, which is counted.
  bool streams(std::uint32_t distance, std::uint32_t room, std::uint8_t& returns) {
    constexpr std::uint32_t kept_anyway = 64;
    if (returns == on_a_cycle) return distance > room && ++count_ % kept_anyway != 0;
    if (++returns < (hardly_any_is_new_ ? 1 : 2)) return false;
    returns = on_a_cycle;
    if (distance <= room) return false;
    credit_ += room;  // of every `distance` runs so many stay, evenly
    if (credit_ < distance) return true;
    credit_ -= distance;
    return false;
  }

 private:
  std::uint32_t count_ = 0;
  std::uint64_t credit_ = 0;
  std::uint32_t returned_ = 0;  // of the present sample
  std::uint32_t arrivals_ = 0;  // when it began
  bool hardly_any_is_new_ = false;
};

}  // namespace terrace::liballoc
