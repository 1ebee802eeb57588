// What a benchmark's figures are held against: entries of a report, each with its value, whether that is
// enough, and a line for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace terrace::bench {

nlohmann::ordered_json at_least(const std::string& name, double value, double target);
nlohmann::ordered_json at_most(const std::string& name, double value, double target);
void print_targets(const nlohmann::ordered_json& targets);

}  // namespace terrace::bench
