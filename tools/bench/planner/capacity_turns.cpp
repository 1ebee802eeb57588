#include "tools/bench/planner/capacity_turns.h"

#include <algorithm>

namespace terrace::bench {
namespace {

constexpr std::uint64_t first_nodes = std::uint64_t{1} << 14;  // some 50 ms for 200 buffers
constexpr std::uint64_t most_nodes = std::uint64_t{1} << 50;   // doubling ends before it wraps

}  // namespace

CapacityTurns::CapacityTurns(std::uint64_t bound_bytes, std::uint64_t granule_bytes,
                             std::uint64_t found_bytes)
    : granule_(granule_bytes),
      found_(found_bytes),
      open_(bound_bytes),
      step_down_(granule_bytes),
      step_up_(0),
      nodes_(first_nodes) {}

std::uint64_t CapacityTurns::capacity_of(Place place) const {
  const std::uint64_t room = found_ - open_;  // at least a granule
  std::uint64_t below = granule_;
  switch (place) {
    case Place::just_below:
      below = step_down_;
      break;
    case Place::eighth:
      below = room / 8;
      break;
    case Place::quarter:
      below = room / 4;
      break;
    case Place::half:
      below = room / 2;
      break;
    case Place::proof:
      return open_ + std::min(step_up_, room - granule_);
  }
  return found_ - std::clamp(below - below % granule_, granule_, room);
}

CapacityTurns::Turn CapacityTurns::next() const { return {capacity_of(place_), nodes_, seed_}; }

void CapacityTurns::found(std::uint64_t total_bytes) {
  step_down_ = place_ == Place::just_below ? step_down_ * 2 : granule_;
  found_ = total_bytes;
  step_up_ = 0;
  place_ = Place::just_below;
}

void CapacityTurns::infeasible() {
  const bool proof = place_ == Place::proof;
  open_ = capacity_of(place_) + granule_;
  step_up_ = proof ? std::max(granule_, step_up_ * 2) : 0;
  step_down_ = granule_;
  if (!proof) place_ = Place::just_below;
}

// A long step that did not succeed becomes a short one before the turn goes on.
void CapacityTurns::undecided() {
  if (place_ == Place::just_below && step_down_ > granule_) {
    step_down_ = granule_;
  } else if (place_ == Place::proof && step_up_ > 0) {
    step_up_ = 0;
  } else {
    go_on();
  }
}

// To the next place whose capacity had no turn in this round; behind the last one, to the next round.
void CapacityTurns::go_on() {
  const std::uint64_t had = capacity_of(place_);
  while (place_ != Place::proof) {
    place_ = static_cast<Place>(static_cast<std::uint8_t>(place_) + 1);
    if (capacity_of(place_) != had) return;
  }
  place_ = Place::just_below;
  nodes_ = std::min(nodes_ * 2, most_nodes);
  ++seed_;
}

}  // namespace terrace::bench
