// JSON on one line. What is not UTF-8, as names from outside may be, is replaced.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace terrace::planner {

inline std::string json_line(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace terrace::planner
