// TFLite's test vectors as values.
#pragma once

#include <nlohmann/json.hpp>

#include "daemon/planner/reuse/tflite/strategies.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner::tflite::test {

inline nlohmann::json vectors() {
  return nlohmann::json::parse(planner::test::fixture("tflite_vectors.json"));
}

template <class Size = std::uint64_t>
std::vector<UsageRecord<Size>> records_in(const nlohmann::json& list) {
  std::vector<UsageRecord<Size>> records;
  for (const auto& r : list) {
    records.push_back(
        {r["size"].get<Size>(), r["first_task"].get<std::uint32_t>(), r["last_task"].get<std::uint32_t>()});
  }
  return records;
}

// The same records as buffers: a closed interval ends one later.
inline Instance instance_in(const nlohmann::json& list, std::uint64_t alignment) {
  Instance instance;
  for (const Record& r : records_in(list))
    instance.buffers.push_back({r.size, r.first_task, r.last_task + 1, alignment, no_tensor});
  return instance;
}

}  // namespace terrace::planner::tflite::test
