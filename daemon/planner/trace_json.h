// The trace format, `terrace-trace` version 1, as JSON: docs/formats/trace.md.
//
// What comes in is hostile: sizes, counts, times and references are checked, and the message names the first
// place that is wrong. Fields that are not known are ignored, versions that are not known refused.
#pragma once

#include <string>
#include <string_view>

#include "liballoc/wire/result.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

// `text` is the JSON itself, already unpacked.
Result<wire::Trace> parse_trace(std::string_view text);
std::string trace_json(const wire::Trace& trace);

}  // namespace terrace::planner
