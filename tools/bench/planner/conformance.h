// Counting what is reproduced of what other projects' tests and implementations say.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/planner/parts.h"

namespace terrace::bench {

class Reproduced {
 public:
  Reproduced(std::string source, std::string what) : source_(std::move(source)), what_(std::move(what)) {}
  void expect(bool as_expected, const std::string& name) {
    ++expectations_;
    if (as_expected)
      ++reproduced_;
    else if (first_miss_.empty())
      first_miss_ = name;
  }
  Json row() const {
    return {{"source", source_},
            {"what", what_},
            {"expectations", expectations_},
            {"reproduced", reproduced_},
            {"met", expectations_ > 0 && reproduced_ == expectations_},
            {"miss", first_miss_.empty() ? Json() : Json("first: " + first_miss_)}};
  }

 private:
  std::string source_, what_;
  long expectations_ = 0, reproduced_ = 0;
  std::string first_miss_;
};

// Rows for tvm_usmp_vectors.json.
std::vector<Json> tvm_conformance(const nlohmann::json& vectors, const nlohmann::json& subgraphs);

}  // namespace terrace::bench
