// The benchmark's results for people, and what they are held against.
#pragma once

#include <nlohmann/json.hpp>

namespace terrace::bench {

// What the library was built to reach, each with its value here and whether that is enough; from the other
// sections of the report.
nlohmann::ordered_json judge(const nlohmann::ordered_json& report);

void print_heading(const nlohmann::ordered_json& report);
void print_speed(const nlohmann::ordered_json& speed);  // one kind of data
void print_in_caches(const nlohmann::ordered_json& rows);
void print_all_cores(const nlohmann::ordered_json& cores);
void print_ratios(const nlohmann::ordered_json& rows);
void print_exponent_ratios(const nlohmann::ordered_json& rows);
void print_captured(const nlohmann::ordered_json& groups);

}  // namespace terrace::bench
