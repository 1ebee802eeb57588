// The page-level simulator of G10 (MICRO'23, section 6), rebuilt from a description of what its artifact
// computes.
//
// GPU memory, host memory and an SSD hold pages of 4 KiB. Every 13 us the link moves a batch of pages, under
// budgets per direction and source; a kernel whose pages are missing faults, and its end is the later of the
// last page's arrival and a modelled stall before its execution. It obeys any schedule (page_schedule.h has
// those of the paper's policies, and makes one of every other's). Figures compare with the published ones,
// which this project's own simulator (simulate/simulator.h) does not aim at: it starts a kernel only when its
// data lie there.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/planner/g10/page_schedule.h"
#include "liballoc/wire/result.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

// The defaults are the artifact's: an A100 of 40 GiB, 128 GiB of host memory, PCIe 3 x16, one SSD. GB = 1e9.
struct G10Machine {
  std::uint64_t gpu_bytes = std::uint64_t{40} << 30U;
  std::uint64_t host_bytes = std::uint64_t{128} << 30U;
  double link_gb_per_second = 15.754;  // per direction, shared by the host and the SSD
  double ssd_gb_per_second = 3.2;      // per direction
  double gpu_ghz = 1.2;
  std::uint32_t page_bytes = 4096;
  std::uint32_t pages_per_tick = 50;  // of the link; sets the length of a tick
  double malloc_us_per_byte = 8.14e-7;
  double ssd_latency_us = 20;
  double system_latency_us = 45;
  double plan_margin = 0.5;        // of the movement time, added to both movements before an interval is used
  double plan_loosening = 1;       // of the residency that the plan aims at
  std::uint32_t deepum_ahead = 8;  // kernels
};

// Profiled times of one operation under page faults, in whole seconds (the artifact divides as integers);
// only operations with at least one second under faults need one, all others take their execution time.
struct G10FaultTimes {
  std::uint32_t op = 0;
  std::uint32_t all_seconds = 0;    // everything faults
  std::uint32_t input_seconds = 0;  // only the inputs are present; at most all_seconds
};

// Those of one trace from lines "trace,operation,all seconds,input seconds"; lines of other names are left
// alone, the heading among them. The error names the first line that is malformed.
Result<std::vector<G10FaultTimes>> parse_g10_fault_times(std::string_view csv, std::string_view trace);

struct G10Traffic {  // bytes over the link
  std::uint64_t ssd_to_gpu = 0;
  std::uint64_t host_to_gpu = 0;
  std::uint64_t gpu_to_ssd = 0;
  std::uint64_t gpu_to_host = 0;
};

struct G10Iteration {
  std::uint64_t cycles = 0;  // from the end of the iteration before
  G10Traffic traffic;
  std::vector<std::uint64_t> op_ends;  // cycles since the start of the simulation, per operation
};

struct G10Report {
  std::uint64_t ideal_cycles = 0;          // sum of the execution times
  std::array<G10Iteration, 2> iterations;  // the second starts from what the first left
  std::uint32_t reported = 0;              // the faster one: what the paper's scripts report
  double percent_of_ideal = 0;             // 100 × ideal / reported time
};

// Two iterations of a schedule. Refuses traces that cannot run: an operation that needs more than the GPU
// holds, times that are not positive, sizes beyond 2^32 pages, fault times of operations that the trace
// lacks; and schedules that are not sorted or name what the trace lacks. Pure, any thread.
Result<G10Report> simulate_g10(const wire::Trace& trace, const G10Machine& machine,
                               const PageSchedule& schedule, std::span<const G10FaultTimes> fault_times = {});

}  // namespace terrace::planner
