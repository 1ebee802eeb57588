#include "tools/bench/measuring/targets.h"

#include <cstdio>

namespace terrace::bench {

using Json = nlohmann::ordered_json;

Json at_least(const std::string& name, double value, double target) {
  return {{"name", name}, {"value", value}, {"target", target}, {"at_most", false}, {"met", value >= target}};
}

Json at_most(const std::string& name, double value, double target) {
  return {{"name", name}, {"value", value}, {"target", target}, {"at_most", true}, {"met", value <= target}};
}

void print_targets(const Json& targets) {
  std::printf("\n%-58s %9s %9s\n", "Targets", "value", "target");
  for (const Json& t : targets)
    std::printf("  %-56s %9.4g %2s %6.5g  %s\n", t["name"].get<std::string>().c_str(),
                t["value"].get<double>(), t["at_most"].get<bool>() ? "<=" : ">=", t["target"].get<double>(),
                t["met"].get<bool>() ? "met" : "MISSED");
}

}  // namespace terrace::bench
