// One thing that happened, as the journal (journal.h) has it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "liballoc/wire/segment.h"

namespace terrace::daemon {

struct JournalEntry {
  std::uint64_t number = 0;   // 1, 2, 3, ...
  std::uint64_t time_ns = 0;  // CLOCK_MONOTONIC
  std::uint64_t session = 0;  // 0: the daemon
  std::uint32_t uid = 0;      // whose session it is, or would have been
  std::shared_ptr<const std::string> job;
  std::string kind;  // an EventKind's name, or: joined, reattached, left, refused, budget, overdue,
                     // understated, overfull, spent, log
  std::string text;
  wire::Event event;        // kind none for the daemon's own entries
  std::uint32_t place = 0;  // in the journal's file; the journal gives it
};

}  // namespace terrace::daemon
