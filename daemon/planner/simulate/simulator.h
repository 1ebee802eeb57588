// What a step takes on a machine under a schedule: time, stalls by cause, bytes per link, memory per tier.
//
// Event-driven. Operations run one after the other; one starts when everything that it names lies in tier 0
// and its outputs and workspace have room there. Each route has one FIFO queue per direction; routes that
// share a link share its bandwidth fairly; a transfer costs latency + stored bytes / rate. Codecs and
// recomputation take compute time. What the schedule leaves open is decided by `victims`: with none, an
// operation whose memory does not come free by scheduled transfers is an error (the plan does not fit); with
// a rule, victims are evicted and missing tensors fetched on demand, as a pager would. Pure: no clock, no
// I/O, deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/planner/machine.h"
#include "liballoc/wire/result.h"
#include "liballoc/wire/schedule.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

enum class Victims : std::uint8_t {
  none,   // the schedule decides everything
  lru,    // least recently named by an operation
  fifo,   // least recently arrived (what G10's artifact calls LRU)
  belady  // named again last
};

enum class StallRule : std::uint8_t {
  strict,     // an operation starts when its data has arrived, and then takes its time
  overlapped  // it ends at max(arrival, start + time): G10's rule, MODEL.md 3.4
};

struct SimulationOptions {
  Victims victims = Victims::none;
  StallRule stall_rule = StallRule::strict;
  std::uint32_t steps = 1;       // the last one is reported, starting from the state that the one before left
  bool record_timeline = false;  // fills ops, transfers and memory below
};

struct Stalls {
  double late_prefetch_us = 0;  // a scheduled prefetch was under way
  double fetch_us = 0;          // nothing had been scheduled: fetched on demand
  double room_us = 0;           // memory was full; an eviction had to end first
  double total_us() const { return late_prefetch_us + fetch_us + room_us; }
};

struct LinkUse {
  double in_bytes = 0, out_bytes = 0;
  double in_busy_us = 0, out_busy_us = 0;
};

struct LowerBounds {
  std::uint64_t max_live_bytes = 0;    // no placement in one memory is smaller
  std::uint64_t largest_op_bytes = 0;  // tier 0 cannot be smaller, whatever moves
  double compute_us = 0;               // sum of the operations' times
  double transfer_us = 0;              // what exceeds tier 0 must leave and return over its links
  double critical_path_us = 0;         // longest chain of dependent operations
};

struct OpTiming {
  double ready_us = 0, start_us = 0, end_us = 0;  // ready: the operation before it ended
  Stalls stalls;
};

struct Transfer {
  std::uint32_t tensor = 0;
  std::uint32_t tier = 0;  // the far end
  bool in = false;         // towards tier 0
  bool on_demand = false;
  std::uint64_t stored_bytes = 0;
  double queued_us = 0, start_us = 0, end_us = 0;
};

struct MemorySample {
  double time_us = 0;
  std::vector<std::uint64_t> tier_bytes;
};

struct SimulationReport {
  double total_us = 0;
  double compute_us = 0, recompute_us = 0, codec_us = 0;
  Stalls stalls;
  std::vector<LinkUse> links;                  // as Machine::links
  std::vector<std::uint64_t> tier_peak_bytes;  // as Machine::tiers
  LowerBounds bounds;
  std::vector<OpTiming> ops;
  std::vector<Transfer> transfers;
  std::vector<MemorySample> memory;
};

LowerBounds lower_bounds(const wire::Trace& trace, const Machine& machine);

// The report, or which entry of the schedule or which operation cannot be carried out, and why.
Result<SimulationReport> simulate(const wire::Trace& trace, const Machine& machine,
                                  const wire::Schedule& schedule, const SimulationOptions& options = {});

// What is wrong with a schedule, empty if nothing. Independent of simulate(): it looks at a report's timeline
// alone, and checks that every operation had its inputs, each instant's memory, one transfer at a time per
// queue, bandwidths, and that content was written before it was read.
std::string check_timeline(const wire::Trace& trace, const Machine& machine, const SimulationReport& report);

// A published way to decide what moves when. `victims` says what the simulator does beside the schedule.
struct SwapPolicy {
  const char* name;
  const char* family;
  const char* source;
  Victims victims;
  Result<wire::Schedule> (*plan)(const wire::Trace&, const Machine&);
};

std::vector<SwapPolicy> swap_policies();

}  // namespace terrace::planner
