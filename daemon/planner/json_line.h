// JSON as text. What is not UTF-8, as names from outside may be, is replaced.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace terrace::planner {

inline std::string json_line(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

inline std::string json_lines(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace terrace::planner
