#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "tools/bench/planner/parts.h"
#include "tools/cli/plan/plan_load.h"

namespace terrace::bench {

namespace fs = std::filesystem;

bool take_flag(const char* option, std::vector<char*>* words) {
  return std::erase_if(*words, [&](const char* word) { return std::strcmp(word, option) == 0; }) != 0;
}

std::string default_data() {
  const char* chosen = std::getenv("TERRACE_REFERENCE_DATA");
  return chosen != nullptr && *chosen != '\0' ? chosen : TERRACE_REFERENCE_DATA;
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');) words.push_back(word);
  return words;
}

std::string wrong_data(const std::string& named) {
  if (named.empty() || fs::is_directory(named)) return "";
  return "--data " + named +
         " is not a directory; name the reference data's (CONTRIBUTING.md), or leave it out: what needs them "
         "is "
         "skipped";
}

void note_missing(const std::string& data) {
  if (fs::is_directory(data)) return;
  std::fprintf(stderr,
               "bench: no reference data at %s: what needs them is skipped; CONTRIBUTING.md says where they "
               "come from, --data or TERRACE_REFERENCE_DATA names them\n",
               data.c_str());
}

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
