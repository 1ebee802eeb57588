// One competitor's side of `terrace bench malloc`: times the malloc family of the process that it runs in.
#pragma once

#include <nlohmann/json.hpp>

namespace terrace::bench {

// Nanoseconds by name of the operation, in the order of measurement.
nlohmann::ordered_json measure_malloc();

}  // namespace terrace::bench
