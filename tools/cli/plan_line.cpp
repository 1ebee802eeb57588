#include "tools/cli/plan_line.h"

#include <fmt/format.h>

#include "tools/cli/json_numbers.h"

namespace terrace::cli {

using nlohmann::json;

std::string plan_line(const json& row) {
  if (!row.contains("predicted_step_seconds")) return "";
  std::string text = fmt::format("plan    {}: predicted {:.3g} s", row.value("job", "?"),
                                 number(row, "predicted_step_seconds"));
  if (row.contains("measured_step_seconds"))
    text += fmt::format(", measured {:.3g} s", number(row, "measured_step_seconds"));
  return text + fmt::format(" a step ({}, {} moves)\n", row.value("policy", "?"), whole(row, "plan_entries"));
}

}  // namespace terrace::cli
