// Machines known by name, from published descriptions: `terrace plan --machine a100-g10`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/planner/machine.h"

namespace terrace::planner {

std::vector<std::string> built_in_machine_names();
std::optional<Machine> built_in_machine(std::string_view name);

}  // namespace terrace::planner
