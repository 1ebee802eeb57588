// Which capacity to search next, and for how long, when both are wanted: the smallest capacity for which
// there is a placement, and the largest for which there is none.
//
//      proven infeasible                                                          found
//      ───────┼──?─────────────────────────?───────────────?──────────?────────?───┼───
//             proof                       1/2             1/4        1/8      just below
//
// Time goes round by round. In a round each of these five capacities gets one turn of as many nodes, and the
// next round's turns are twice as long. Where a turn lowers what is found, the places begin anew, and a
// success just below doubles the step for the next turn there; where one raises what is proven, the next
// proof goes twice as far. How long a search takes differs by orders of magnitude from one capacity to its
// neighbour, and from one order of equal buffers to another (Gomes et al., "Heavy-Tailed Phenomena in
// Satisfiability", JAR 2000), so a capacity that was not decided comes again with another seed. Pure: no
// clock, no randomness of its own.
#pragma once

#include <cstdint>

namespace terrace::bench {

class CapacityTurns {
 public:
  struct Turn {
    std::uint64_t capacity_bytes = 0;
    std::uint64_t nodes = 0;  // search::SearchLimits
    std::uint64_t seed = 0;
  };

  // Heights are multiples of `granule_bytes` > 0; no placement is below `bound_bytes`, a multiple; there is
  // one of `found_bytes`, no less than the bound.
  CapacityTurns(std::uint64_t bound_bytes, std::uint64_t granule_bytes, std::uint64_t found_bytes);

  std::uint64_t found_bytes() const { return found_; }
  // No placement is this high or lower: the bound less a byte, or what was proven.
  std::uint64_t infeasible_bytes() const { return open_ - 1; }
  // Every capacity is decided.
  bool closed() const { return open_ >= found_; }

  // Of what is not closed: above infeasible_bytes(), below found_bytes(), a multiple of the granule. Answer
  // it by one of the three below before asking again.
  Turn next() const;
  // There is a placement of `total_bytes`, no more than the turn's capacity.
  void found(std::uint64_t total_bytes);
  void infeasible();
  void undecided();

 private:
  enum class Place : std::uint8_t { just_below, eighth, quarter, half, proof };

  std::uint64_t capacity_of(Place place) const;
  void go_on();

  std::uint64_t granule_;
  std::uint64_t found_;
  std::uint64_t open_;  // the smallest capacity that is not proven infeasible
  std::uint64_t step_down_;
  std::uint64_t step_up_;
  Place place_ = Place::just_below;
  std::uint64_t nodes_;
  std::uint64_t seed_ = 0;
};

}  // namespace terrace::bench
