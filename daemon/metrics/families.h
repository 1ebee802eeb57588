// The metrics that jobs and users have: which counter each is, and what a person is told of it.
// docs/metrics.md lists all families; its test holds the list to what the daemon says.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/metrics/exposition.h"
#include "liballoc/wire/segment.h"

namespace terrace::daemon {

// What sessions did, as Tallies sum it up.
struct DoneFamily {
  MetricFamily family;
  wire::Stat stat;           // in nanoseconds where the unit is seconds
  bool is_of_users = false;  // as well as of jobs
};

// What sessions hold now.
struct Held {
  std::uint64_t jobs = 0, sessions = 0, paused = 0;
  std::uint64_t budget_bytes = 0, granted_bytes = 0, resident_bytes = 0, live_bytes = 0, stored_bytes = 0;
  std::uint64_t pool_used_bytes = 0, compressed_bytes = 0, nvm_bytes = 0, gpu_held_bytes = 0;
};

struct HeldFamily {
  MetricFamily family;
  std::uint64_t Held::*value;
  bool is_of_jobs = true, is_of_users = false;
};

inline constexpr std::array done_families{
    DoneFamily{{"evicted_bytes", MetricType::counter, "bytes", "Data taken out from under its address."},
               wire::Stat::evicted_bytes,
               true},
    DoneFamily{{"restored_bytes", MetricType::counter, "bytes", "Data put back under its address."},
               wire::Stat::restored_bytes,
               true},
    DoneFamily{{"written_bytes", MetricType::counter, "bytes", "Written to the pool, after compression."},
               wire::Stat::written_bytes,
               true},
    DoneFamily{{"read_bytes", MetricType::counter, "bytes", "Read from the pool, as stored there."},
               wire::Stat::read_bytes,
               true},
    DoneFamily{{"refaulted_bytes", MetricType::counter, "bytes",
                "Part of what was read that was needed again at once."},
               wire::Stat::refaulted_bytes},
    DoneFamily{{"kept_bytes", MetricType::counter, "bytes",
                "Compressed data that stayed in DRAM instead of being written."},
               wire::Stat::kept_bytes},
    DoneFamily{{"fetched_bytes", MetricType::counter, "bytes", "Compressed data that came back from DRAM."},
               wire::Stat::fetched_bytes},
    DoneFamily{{"demoted_bytes", MetricType::counter, "bytes",
                "Part of what was written that had been kept in DRAM or on NVM."},
               wire::Stat::demoted_bytes},
    DoneFamily{{"nvm_written_bytes", MetricType::counter, "bytes", "Written to NVM."},
               wire::Stat::nvm_written_bytes},
    DoneFamily{{"nvm_read_bytes", MetricType::counter, "bytes", "Read from NVM."},
               wire::Stat::nvm_read_bytes},
    DoneFamily{
        {"kernel_swap_seconds", MetricType::counter, "seconds", "Time in which the kernel swapped instead."},
        wire::Stat::kernel_swap_ns},
    DoneFamily{{"faults", MetricType::counter, "", "Touches of a page that was not there."},
               wire::Stat::faults,
               true},
    DoneFamily{{"stall_seconds", MetricType::counter, "seconds",
                "Time in which runs were waited for, summed over runs."},
               wire::Stat::stall_ns,
               true},
    DoneFamily{{"prefetch_hits", MetricType::counter, "", "Runs that were in DRAM before their touch."},
               wire::Stat::prefetch_hits},
    DoneFamily{{"prefetch_wasted", MetricType::counter, "", "Runs that were read ahead for nothing."},
               wire::Stat::prefetch_wasted},
    DoneFamily{
        {"steps", MetricType::counter, "", "Periods that the program went through while memory was short."},
        wire::Stat::steps},
    DoneFamily{{"step_seconds", MetricType::counter, "seconds", "Time that these periods took."},
               wire::Stat::steps_ns},
    DoneFamily{
        {"step_stall_seconds", MetricType::counter, "seconds", "Time that threads waited in these periods."},
        wire::Stat::steps_stall_ns},
    DoneFamily{
        {"planned_steps", MetricType::counter, "", "Periods in which a schedule was followed to its end."},
        wire::Stat::planned_steps},
    DoneFamily{
        {"departures", MetricType::counter, "", "Times that the program left a period that was known."},
        wire::Stat::departures},
    DoneFamily{{"io_errors", MetricType::counter, "", "Reads and writes of a tier that failed."},
               wire::Stat::io_errors,
               true},
    DoneFamily{{"checksum_failures", MetricType::counter, "", "Stored data that came back damaged."},
               wire::Stat::checksum_failures,
               true},
    DoneFamily{
        {"lost_runs", MetricType::counter, "", "Runs whose data are gone."}, wire::Stat::lost_runs, true},
};

inline constexpr std::array held_families{
    HeldFamily{{"jobs", MetricType::gauge, "", "Jobs that run."}, &Held::jobs, false, true},
    HeldFamily{
        {"sessions", MetricType::gauge, "", "Processes, offload engines and GPU heaps that are connected."},
        &Held::sessions,
        true,
        true},
    HeldFamily{{"paused", MetricType::gauge, "", "Jobs that are paused."}, &Held::paused},
    HeldFamily{
        {"budget_bytes", MetricType::gauge, "bytes", "DRAM that jobs are due, without loans of idle memory."},
        &Held::budget_bytes,
        true,
        true},
    HeldFamily{{"granted_bytes", MetricType::gauge, "bytes", "DRAM that may be held at the moment."},
               &Held::granted_bytes,
               true,
               true},
    HeldFamily{
        {"resident_bytes", MetricType::gauge, "bytes", "DRAM in use."}, &Held::resident_bytes, true, true},
    HeldFamily{{"heap_live_bytes", MetricType::gauge, "bytes", "Allocated and not freed, wherever it lies."},
               &Held::live_bytes},
    HeldFamily{{"stored_bytes", MetricType::gauge, "bytes", "Data that lie in the pool only."},
               &Held::stored_bytes},
    HeldFamily{{"pool_used_bytes", MetricType::gauge, "bytes", "Space in use in the pool."},
               &Held::pool_used_bytes,
               true,
               true},
    HeldFamily{
        {"compressed_bytes", MetricType::gauge, "bytes", "Part of DRAM in use that holds compressed data."},
        &Held::compressed_bytes},
    HeldFamily{{"nvm_bytes", MetricType::gauge, "bytes", "Data that lie on NVM."}, &Held::nvm_bytes},
    HeldFamily{{"gpu_held_bytes", MetricType::gauge, "bytes", "Memory of GPUs that heaps hold."},
               &Held::gpu_held_bytes,
               true,
               true},
};

}  // namespace terrace::daemon
