// The parts of check_timeline(): none of them shares code with the simulator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

// Whether the order has every operation once, and each one reads and writes the contents that it does in the
// trace's order.
std::string check_order(const wire::Trace& trace, const std::vector<std::uint32_t>& order);

// Queues, latencies, bandwidths, link totals: transfers alone, without what they carry.
std::string check_transfers(const wire::Trace& trace, const Machine& machine, const SimulationReport& report);

// Order, durations and sums of everything that the computation did.
std::string check_work(const wire::Trace& trace, const SimulationReport& report);

// That what ran again gave what it gave before.
std::string check_recomputations(const wire::Trace& trace, const SimulationReport& report);

// Content and memory, instant by instant.
std::string check_memory(const wire::Trace& trace, const Machine& machine, const SimulationReport& report);

// Whether a <= b, but for rounding.
inline bool at_most(double a, double b) {
  const double scale = (a < 0 ? -a : a) + (b < 0 ? -b : b);
  return a <= b + 1e-6 + 1e-9 * scale;
}
inline bool same(double a, double b) { return at_most(a, b) && at_most(b, a); }

}  // namespace terrace::planner
