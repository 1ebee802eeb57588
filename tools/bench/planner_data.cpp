#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tools/bench/planner_parts.h"
#include "tools/cli/plan_load.h"

namespace terrace::bench {

namespace fs = std::filesystem;

std::optional<std::string> data_file(const PlannerOptions& options, const std::string& name) {
  const fs::path path = fs::path(options.data) / name;
  if (!fs::exists(path)) return std::nullopt;
  auto text = cli::load_text(path.string());
  if (text.result) return std::move(text.result.value);
  std::fprintf(stderr, "bench: %s\n", text.result.error.c_str());
  std::exit(1);
}

std::vector<std::string> data_files(const PlannerOptions& options, const std::string& folder,
                                    const std::string& suffix) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(fs::path(options.data) / folder, missing)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(suffix)) names.push_back(fmt::format("{}/{}", folder, name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace terrace::bench
