// TVM's cases (tvm_usmp_vectors.json) as buffers, for the tests and for the benchmark's table of agreement.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "daemon/planner/reuse/tvm/usmp.h"

namespace terrace::bench {

// Buffers in the order of the JSON object, which is that of their names.
inline std::vector<planner::tvm::PoolBuffer> buffers_in(const nlohmann::json& c,
                                                        const std::vector<std::uint32_t>& pools) {
  std::map<std::string, std::uint32_t> index;
  for (const auto& [name, bytes] : c["sizes"].items())
    index.emplace(name, static_cast<std::uint32_t>(index.size()));
  std::vector<planner::tvm::PoolBuffer> buffers;
  for (const auto& [name, bytes] : c["sizes"].items()) {
    planner::tvm::PoolBuffer buffer{
        name, bytes.get<std::uint64_t>(), c.value("alignment", std::uint64_t{1}), {}, pools};
    for (const auto& other : c["conflicts"][name])
      buffer.conflicts.push_back(index.at(other.get<std::string>()));
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

}  // namespace terrace::bench
