// Transfers in flight, as fluids: each takes the fair share of the links on its way.
//
// A lane is one direction of one route and carries one transfer at a time; those of far routes come last.
// After its latency a transfer moves at the max-min fair rate (progressive filling: the scarcest link is
// divided equally among its transfers, what those leave unused elsewhere goes to the others). Rates change
// only when a transfer begins to move or ends, so the whole is a handful of lanes with an end time each; a
// lane whose rate stays the same is not touched, which keeps its end exact. What a transfer goes through
// alone (a codec) limits its own rate.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "daemon/planner/machine.h"
#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

class Network {
 public:
  explicit Network(const Machine& machine);

  std::uint32_t lanes() const { return static_cast<std::uint32_t>(lanes_.size()); }
  // Far routes are numbered on from the others.
  static std::uint32_t lane(std::uint32_t route, bool in) { return route * 2 + (in ? 1 : 0); }
  static bool is_in(std::uint32_t lane) { return lane % 2 == 1; }
  bool busy(std::uint32_t lane) const { return lanes_[lane].phase != Phase::idle; }
  double now_us() const { return now_us_; }

  // The lane must not be busy. It moves no more than `most_bytes_per_us`.
  void start(std::uint32_t lane, std::uint64_t bytes,
             double most_bytes_per_us = std::numeric_limits<double>::infinity());
  void abort(std::uint32_t lane);

  // When something happens next; infinite if nothing is under way.
  double next_us() const;
  // Moves time to `time_us`, which is not after next_us(); the lanes whose transfers end there are appended.
  void advance(double time_us, std::vector<std::uint32_t>* ended);

  const std::vector<LinkUse>& use() const { return use_; }
  void reset_use();

 private:
  enum class Phase : std::uint8_t { idle, latency, moving };
  struct Lane {
    std::vector<std::uint32_t> gates;  // link × 2 + direction, and one of its own
    double latency_us = 0;
    Phase phase = Phase::idle;
    double due_us = 0;      // end of the latency or, moving, of the transfer
    double left_bytes = 0;  // at anchor_us
    double anchor_us = 0;
    double rate = 0;  // bytes per µs
  };
  struct Gate {
    double bytes_per_us = 0;
    double load = 0;  // sum of the rates through it
  };

  void add_lanes(const Machine& machine, const std::vector<std::uint32_t>& links);
  void share();
  void set_rate(Lane* lane, double rate);
  void account(double elapsed_us);

  std::vector<Lane> lanes_;
  std::vector<Gate> gates_;
  std::vector<LinkUse> use_;
  std::vector<double> free_, rates_;  // scratch of share()
  std::vector<std::uint32_t> users_;
  double now_us_ = 0;
};

}  // namespace terrace::planner
