// What a job did for some seconds, as its daemon tells it: what happened to its memory, and how much of it
// was where.
//
// The daemon keeps the last few thousand events of all jobs, so that they are fetched several times a second;
// a job that outruns this is recorded with gaps, and `missed` says how many events they had.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "liballoc/wire/segment.h"
#include "tools/cli/change/found_job.h"
#include "tools/cli/daemon/planned_step.h"

namespace terrace::cli {

struct JobEvent {
  std::uint64_t time_ns = 0;  // CLOCK_MONOTONIC
  std::uint64_t address = 0;  // of the allocation, or of the run of pages
  std::uint64_t bytes = 0;
  std::uint64_t call_site = 0;
  std::uint64_t session = 0;  // of which process
  wire::EventKind kind = wire::EventKind::none;
};

// Sums over the job's processes.
struct MemorySample {
  std::uint64_t time_ns = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t resident_bytes = 0;    // in DRAM as it is
  std::uint64_t compressed_bytes = 0;  // of DRAM, holding frames
  std::uint64_t stored_bytes = 0;      // in the pool alone
  std::uint64_t budget_bytes = 0;
  std::uint64_t read_bytes = 0;  // since the job began, as the following
  std::uint64_t written_bytes = 0;
  std::uint64_t stall_ns = 0;
  std::uint64_t planned_in_bytes = 0;  // likewise, brought back and taken out by a plan
  std::uint64_t planned_out_bytes = 0;
};

// From when on the job's step had this plan, or none for that reason.
struct PlanBegin {
  std::uint64_t time_ns = 0;
  PlannedStep plan;
};

// Some events of this time were missed.
struct MissedSpan {
  std::uint64_t from_ns = 0, to_ns = 0;
};

struct Recording {
  std::string job;
  std::string program;  // of its first process
  std::uint64_t begin_ns = 0, end_ns = 0;
  std::uint64_t missed = 0;
  std::vector<MissedSpan> missed_spans;  // within which those were, if any
  bool has_ended = false;                // the job, before its time was over
  bool hides_addresses = false;          // another user's: what happened to which memory is not told
  std::vector<JobEvent> events;          // in the order in which they were told: by process in time's order
  std::vector<MemorySample> samples;
  std::vector<PlanBegin> plans;  // in the order of time; empty: the daemon tells of none
};

// Records until so many seconds have passed, the job has ended, or `goes_on` says no. Several times a second.
Result<Recording> record(FoundJob& job, double seconds, const std::function<bool()>& goes_on);

}  // namespace terrace::cli
