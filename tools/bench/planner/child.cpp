#include "tools/bench/planner/child.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tools/bench/measuring/measure.h"
#include "tools/cli/plan/plan_load.h"

namespace terrace::bench {
namespace {

std::optional<planner::ReusePolicy> find_policy(const std::string& name) {
  for (const planner::ReusePolicy& policy : planner::reuse_policies())
    if (name == policy.name) return policy;
  return std::nullopt;
}

// Of this program since exec(); getrusage() would count what the parent had.
std::uint64_t peak_rss_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

Json judged(const planner::Instance& instance, const Result<planner::Placement>& placement) {
  if (!placement) return {{"refused", placement.error}};
  const std::string wrong = planner::check_placement(instance, *placement);
  Json out{{"total_bytes", placement->total_bytes}, {"valid", wrong.empty()}};
  if (!wrong.empty()) out["wrong"] = wrong;
  return out;
}

Json measure(const planner::ReusePolicy& policy, const planner::Instance& instance, const ChildTask& task) {
  double first = 0;
  const double start = now_s();
  planner::SearchControl control;
  control.capacity_bytes = task.capacity_bytes;
  control.stop = [&] { return now_s() - start >= task.seconds; };
  control.progress = [&](std::uint64_t, std::uint64_t) {
    if (first == 0) first = now_s() - start;
  };
  const auto placement = policy.place(instance, control);
  const double seconds = now_s() - start;
  Json out = judged(instance, placement);
  out["buffers"] = instance.buffers.size();
  out["bound_bytes"] = planner::max_live_bytes(instance.buffers);
  out["seconds"] = seconds;
  if (first != 0) out["first_seconds"] = first;
  out["peak_rss_bytes"] = peak_rss_bytes();
  return out;
}

}  // namespace

Json run_in_child(const ChildTask& task) {
  const std::string output = run_captured({own_path(), "--child", task.policy, task.path,
                                           std::to_string(task.seconds), std::to_string(task.capacity_bytes)},
                                          {});
  return Json::parse(output);
}

int child_main(const std::vector<std::string>& words) {
  if (words.size() != 4) {
    std::fputs("bench: --child is for this program itself\n", stderr);
    return 2;
  }
  const ChildTask task{words[0], words[1], std::strtod(words[2].c_str(), nullptr),
                       std::strtoull(words[3].c_str(), nullptr, 10)};
  const auto policy = find_policy(task.policy);
  const auto input = cli::load_plan_input(task.path);
  if (!policy || !input.result) {
    std::fprintf(stderr, "bench: %s\n",
                 policy ? input.result.error.c_str() : ("no policy " + task.policy).c_str());
    return 1;
  }
  std::printf("%s\n", measure(*policy, input.result->instance, task).dump().c_str());
  return 0;
}

}  // namespace terrace::bench
