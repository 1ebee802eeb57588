// Recordings that tests make up.
#pragma once

#include <vector>

#include "liballoc/heap/space/block.h"
#include "tools/cli/timeline/recording.h"

namespace terrace::cli::test {

inline constexpr std::uint64_t run = liballoc::run_bytes;
inline constexpr std::uint64_t here = 64 * run, there = 128 * run;  // addresses

constexpr std::uint64_t ms(std::uint64_t milliseconds) { return 1'000'000'000 + milliseconds * 1'000'000; }

inline JobEvent at(std::uint64_t milliseconds, wire::EventKind kind, std::uint64_t address,
                   std::uint64_t bytes, std::uint64_t session = 1) {
  return {.time_ns = ms(milliseconds),
          .address = address,
          .bytes = bytes,
          .call_site = 7,
          .session = session,
          .kind = kind};
}

inline Recording recorded(std::vector<JobEvent> events, std::uint64_t end_milliseconds = 1000) {
  Recording recording;
  recording.job = "job";
  recording.begin_ns = ms(0);
  recording.end_ns = ms(end_milliseconds);
  recording.events = std::move(events);
  return recording;
}

}  // namespace terrace::cli::test
