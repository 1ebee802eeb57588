// Numbers in what the daemon and the bench programs send, which may be of another version: what is absent or
// no number counts as 0. Any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace terrace::cli {

inline double number(const nlohmann::json& object, const std::string& name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

// 0 for what is negative or has a fraction, too.
inline std::uint64_t whole(const nlohmann::json& object, const std::string& name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (found == object.end() || !found->is_number_integer()) return 0;
  return found->is_number_unsigned() || found->get<std::int64_t>() >= 0 ? found->get<std::uint64_t>() : 0;
}

}  // namespace terrace::cli
