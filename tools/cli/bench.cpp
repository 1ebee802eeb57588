// `terrace bench NAME …` hands over to the benchmark itself: a program beside this one (terrace-bench-NAME)
// or a Python script of the share directory (bench/…). What is installed is what is listed.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <set>
#include <utility>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/install_layout.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/run/supervise.h"

namespace terrace::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* program_prefix = "terrace-bench-";
// Scripts of the share directory that are benchmarks; the others there are their parts. One script serves
// several.
struct Script {
  const char* name;
  const char* file;
  bool wants_name = false;     // as its first word
  const char* word = nullptr;  // before all others
};
constexpr Script scripts[] = {{"alignment", "bench/patterns/patterns.py", true},
                              {"argsort", "bench/patterns/patterns.py", true},
                              {"arrays", "bench/patterns/patterns.py", true},
                              {"embedding", "bench/patterns/patterns.py", true},
                              {"encryption", "bench/encryption.py"},
                              {"fft", "bench/patterns/patterns.py", true},
                              {"first-touch", "bench/patterns/patterns.py", true},
                              {"gpu", "bench/gpu/bench.py"},
                              {"gups", "bench/patterns/patterns.py", true},
                              {"inference", "bench/patterns/patterns.py", true},
                              {"join", "bench/patterns/patterns.py", true},
                              {"matmul", "bench/patterns/patterns.py", true},
                              {"merge", "bench/patterns/patterns.py", true},
                              {"optimizer", "bench/optimizer.py"},
                              {"pause", "bench/pause.py"},
                              {"phases", "bench/training.py", false, "--phases"},
                              {"plan", "bench/segment_plans.py"},
                              {"shares", "bench/shares.py"},
                              {"sparse", "bench/patterns/patterns.py", true},
                              {"tiers", "bench/training.py", false, "--tiers"},
                              {"training", "bench/training.py"},
                              {"transpose", "bench/patterns/patterns.py", true}};

// Debian's interpreter, which has Debian's torch, whatever comes first in PATH; TERRACE_PYTHON names another
// one, such as the one whose PyTorch sees the GPU.
const char* python() {
  const char* named = std::getenv("TERRACE_PYTHON");
  return named == nullptr || *named == '\0' ? "/usr/bin/python3" : named;
}

std::set<std::string> available(const InstallLayout& layout) {
  std::set<std::string> names;
  for (const Script& script : scripts)
    if (layout.share(script.file)) names.insert(script.name);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(layout.bin(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(program_prefix)) names.insert(name.substr(std::strlen(program_prefix)));
  }
  return names;
}

constexpr std::pair<const char*, const char*> about[] = {
    {"advisor", "the advisor's predictions and choices, beside what is measured"},
    {"alignment",
     "a table that begins as zeroes, filled by rows under a limit, beside stock and kernel swap"},
    {"argsort", "words sorted by an index of them under a limit, beside stock and kernel swap"},
    {"arrays", "single lines of many arrays under a limit, beside stock and kernel swap"},
    {"compression", "codecs, beside copies of memory, lz4, zstd and blosc"},
    {"embedding", "random rows of a large table under a limit, beside stock and kernel swap"},
    {"encryption", "pools that are encrypted on the drive, beside the same ones in plain text"},
    {"fft", "rows and then columns of a matrix under a limit, beside stock and kernel swap"},
    {"first-touch", "fresh memory in several threads, beside stock; fork and malloc meanwhile"},
    {"gpu", "offloading of activations, beside other ways; emulated where no GPU is"},
    {"gpu-compression", "the codecs' kernels on a GPU"},
    {"gpu-heap", "the GPU heap on recorded requests, beside PyTorch's allocator's rules"},
    {"gups", "random updates with a hot part under a limit, beside stock and kernel swap"},
    {"inference", "weights read again and again under a limit, beside stock and kernel swap"},
    {"join", "keys looked for and summed under a limit, beside stock and kernel swap"},
    {"malloc", "allocations, beside glibc, jemalloc, mimalloc and tcmalloc"},
    {"matmul", "one large product under a limit, beside stock and kernel swap"},
    {"merge", "sorted runs merged under a limit, beside stock and kernel swap"},
    {"offload", "storing and fetching of CPU tensors, beside memcpy"},
    {"optimizer", "AdamW with its states off the device, beside PyTorch's and memory's speed"},
    {"pager", "eviction, refill and faults, beside fio"},
    {"pause", "a job out of memory and back, beside plain direct I/O"},
    {"phases", "training, evaluation and a last batch in turn, planned for, beside stock and kernel swap"},
    {"plan", "models planned by segments, predicted and measured, beside checkpoints and offload alone"},
    {"planner", "placements and simulated steps, beside published ones"},
    {"policies", "all policies that move tensors, on simulated steps, beside what no plan can beat"},
    {"shares", "two jobs under one budget, beside each with its share alone"},
    {"sparse", "a large array of which little is touched, beside stock"},
    {"tiers", "a ReLU network with compressed DRAM or NVM before the drive, beside the drive alone"},
    {"timeline", "what a recorded job costs to make sense of, and how soon its page is open"},
    {"training", "training steps under a limit, planned for and not, beside stock and kernel swap"},
    {"transpose", "a matrix made into its transpose under a limit, beside stock and kernel swap"}};

int list(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    const auto* known = std::find_if(std::begin(about), std::end(about),
                                     [&](const auto& entry) { return name == entry.first; });
    std::cout << fmt::format("{:<16} {}\n", name, known == std::end(about) ? "" : known->second);
  }
  return names.empty() ? complain(exit_not_found, "no benchmark is installed beside this program")
                       : int{exit_ok};
}

std::vector<std::string> command_for(const InstallLayout& layout, const std::vector<std::string>& words) {
  std::vector<std::string> command{(layout.bin() / (program_prefix + words.front())).string()};
  for (const Script& script : scripts) {
    if (script.name != words.front()) continue;
    command = {python(), *layout.share(script.file)};
    if (script.wants_name) command.emplace_back(script.name);
    if (script.word != nullptr) command.emplace_back(script.word);
  }
  command.insert(command.end(), words.begin() + 1, words.end());
  return command;
}

}  // namespace

int bench(const BenchOptions& options) {
  const InstallLayout layout = InstallLayout::of_this_program();
  const auto names = available(layout);
  if (options.words.empty()) return list(names);
  const std::string& name = options.words.front();
  if (!names.contains(name))
    return complain(exit_not_found,
                    fmt::format("no benchmark '{}'; there are: {}", name, fmt::join(names, ", ")));
  const auto command = command_for(layout, options.words);
  // The scripts start `terrace run` themselves, with this very binary.
  setenv("TERRACE_COMMAND", (layout.bin() / "terrace").c_str(), 1);
  return complain(exit_failure,
                  fmt::format("cannot start {}: {}", command.front(), std::strerror(execute(command))));
}

}  // namespace terrace::cli
