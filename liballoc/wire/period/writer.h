// Writes the image of a period (period.h) into memory of the caller's, which knows the counts beforehand.
//
//     PeriodWriter writer(memory, {events, objects, uses});   memory: bytes_for() of these, zeroes
//     writer.header().phase = …; writer.events()[k] = …       each array as long as was said
//     writer.finish();                                        what the form itself demands, and the checksum
//
// It neither allocates nor throws. Any thread, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "liballoc/wire/period/period.h"

namespace terrace::wire {

struct PeriodCounts {
  std::uint32_t events = 0, objects = 0, uses = 0;

  bool are_within_limits() const noexcept {
    return events > 0 && events <= most_period_events && objects <= most_period_objects &&
           uses <= most_period_uses;
  }
};

class PeriodWriter {
 public:
  static std::size_t bytes_for(const PeriodCounts& counts) noexcept;

  // `memory` is 8 bytes aligned and outlives the writer; counts.are_within_limits().
  PeriodWriter(std::span<std::byte> memory, const PeriodCounts& counts) noexcept;

  PeriodHeader& header() noexcept { return *header_; }
  std::span<PeriodEvent> events() noexcept { return events_; }
  std::span<PeriodObject> objects() noexcept { return objects_; }
  std::span<PeriodUse> uses() noexcept { return uses_; }
  // The last step.
  void finish() noexcept;

 private:
  PeriodHeader* header_;
  std::span<PeriodEvent> events_;
  std::span<PeriodObject> objects_;
  std::span<PeriodUse> uses_;
  std::size_t bytes_;
};

}  // namespace terrace::wire
