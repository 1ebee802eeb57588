// A recording as one page of HTML that needs nothing else, and as a trace for ui.perfetto.dev. Pure.
#pragma once

#include <string>

#include "tools/cli/timeline/history.h"
#include "tools/cli/timeline/recording.h"

namespace terrace::cli {

// The page's numbers are columns (base64 of little-endian numbers), so that a million events open at once.
std::string html_of(const Recording& recording, const History& history);

// Chrome's trace event format (JSON): memory and traffic as counters, waits and absences as slices, one track
// for each process. Times are microseconds since the recording began.
std::string perfetto_of(const Recording& recording, const History& history);

}  // namespace terrace::cli
