// The parts of `terrace bench advisor`: how near predictions come, and what decisions cost against an
// oracle's.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "tools/bench/advisor/run.h"

namespace terrace::bench {

// Predicted against measured times of every own codec over sizes up to `largest_bytes` and sparsities 0 to
// 0.98. Prints the median relative error for each size; returns the same.
nlohmann::json measure_codec_predictions(std::size_t largest_bytes);

// The same for a file's reads and writes, up to `largest_bytes`; `link` gets the rates that were measured.
nlohmann::json measure_link_predictions(FileLink& file, std::size_t largest_bytes, FixedLink& link);

// Decisions on traces of training, for each link and schedule, against the best of every tensor's measured
// times. Prints and returns the regret and the time against raw; explains the last decisions where asked.
nlohmann::json measure_regret(const std::vector<FixedLink>& links, std::size_t tensor_bytes, bool explain);

// What the parts of a report that are there are held against.
nlohmann::ordered_json judge_advisor(const nlohmann::json& report);

// A table of the candidates of one decision.
void print_decision(const compression::Decision& decision);

}  // namespace terrace::bench
