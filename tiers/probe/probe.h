// Measures what a directory's file system gives to a pool file there: for `terrace
// doctor` and the planner's model.
//
// An unnamed file is written twice and read once, in 1 MiB transfers at queue depth 8 through the NVMe
// tier itself (so what is measured is what the pager gets), then read in 4 KiB pieces at random, one at
// a time. The first pass writes blocks that were never written (the file system must record each), the
// second overwrites. Work is bounded in bytes and in time; a pass cut short reports the speed of what
// it did. The page cache is not involved where O_DIRECT works; where it does not, direct is false and
// reads are as fast as memory.
#pragma once

#include <cstdint>

#include "tiers/nvme_tier.h"

namespace terrace::tiers {

struct ProbeOptions {
  std::uint64_t file_bytes = std::uint64_t{256} << 20;  // 1 MiB to 16 GiB; rounded down to MiB
  std::uint64_t random_reads = 1000;                    // 1 to 4096
  std::uint64_t max_ns = 10'000'000'000;                // all passes together
  NvmeTier::Io io = NvmeTier::Io::automatic;
};

struct ProbeResult {
  bool direct = false;
  const char* io = "";  // static
  std::uint64_t file_bytes = 0;
  double fresh_write_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  double read_bytes_per_second = 0;
  std::uint64_t random_reads = 0;
  std::uint64_t read_latency_p50_ns = 0;
  std::uint64_t read_latency_p99_ns = 0;
};

// 0 or errno: EINVAL for options out of range, ENOSPC, EACCES and others of opening a file there, ETIMEDOUT
// when max_ns was over before every pass had moved something. *out is untouched on failure.
int probe_directory(const char* directory, const ProbeOptions& options, ProbeResult* out) noexcept;

// The same of a file for NVM (memory/nvm_file.h), through the NVM tier: one transfer after the other, as the
// processor makes them. Closes `fd`, and on failure as well.
int probe_nvm(int fd, const ProbeOptions& options, ProbeResult* out) noexcept;

}  // namespace terrace::tiers
