// What is alive at each task, and what follows from it.
#include <algorithm>
#include <functional>
#include <numeric>

#include "daemon/planner/reuse/tflite/strategies.h"

namespace terrace::planner::tflite {
namespace {

// The records by a key, ties to the smaller index.
template <class Key>
std::vector<std::uint32_t> sorted_by(Records records, Key key) {
  std::vector<std::uint32_t> order(records.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key(records[a]) < key(records[b]); });
  return order;
}

// Marks what can be reached from `start`, itself only through a cycle, and counts each once.
void count_reached(const UsageGraph& graph, std::uint32_t start, std::vector<std::uint32_t>* counts) {
  std::vector<char> seen(graph.size(), 0);
  std::vector<std::uint32_t> open{start};
  seen[start] = 1;
  while (!open.empty()) {
    const std::uint32_t from = open.back();
    open.pop_back();
    for (const std::uint32_t to : graph[from]) {
      if (seen[to] != 0) continue;
      seen[to] = 1;
      ++(*counts)[to];
      open.push_back(to);
    }
  }
}

}  // namespace

std::vector<std::vector<std::uint32_t>> task_profiles(Records records) {
  std::vector<std::vector<std::uint32_t>> profiles;
  for (std::uint32_t r = 0; r < records.size(); ++r) {
    if (profiles.size() <= records[r].last_task) profiles.resize(records[r].last_task + std::size_t{1});
    for (std::uint32_t t = records[r].first_task; t <= records[r].last_task; ++t) profiles[t].push_back(r);
  }
  for (std::vector<std::uint32_t>& profile : profiles) {
    std::stable_sort(profile.begin(), profile.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return records[a].size > records[b].size; });
  }
  return profiles;
}

// A sorted list of live sizes is swept through time. What begins at one task is inserted one by one; every
// list in between is part of the task's own, so its j-th largest is never larger, and only positions from the
// insertion on change.
std::vector<std::uint64_t> positional_maxima(Records records) {
  const auto begins = sorted_by(records, [](const Record& r) { return r.first_task; });
  const auto ends = sorted_by(records, [](const Record& r) { return r.last_task; });
  std::vector<std::uint64_t> maxima;
  std::vector<std::uint64_t> live;  // descending
  std::size_t ended = 0;
  for (const std::uint32_t r : begins) {
    for (; records[ends[ended]].last_task < records[r].first_task; ++ended)
      live.erase(std::lower_bound(live.begin(), live.end(), records[ends[ended]].size, std::greater<>()));
    const auto at = live.insert(std::upper_bound(live.begin(), live.end(), records[r].size, std::greater<>()),
                                records[r].size);
    maxima.resize(std::max(maxima.size(), live.size()), 0);
    for (auto j = static_cast<std::size_t>(at - live.begin()); j < live.size(); ++j)
      maxima[j] = std::max(maxima[j], live[j]);
  }
  return maxima;
}

UsageGraph reallocation_graph(const UsageGraph& dependencies) {
  UsageGraph graph(dependencies.size());
  for (std::uint32_t root = 0; root < dependencies.size(); ++root) {
    const std::vector<std::uint32_t>& children = dependencies[root];
    if (children.empty()) continue;  // used by nobody: nothing says when it is free
    std::vector<std::uint32_t> counts(dependencies.size(), 0);
    for (const std::uint32_t child : children) count_reached(dependencies, child, &counts);
    for (std::uint32_t v = 0; v < counts.size(); ++v) {
      if (counts[v] != children.size()) continue;
      graph[root].push_back(v);
      graph[v].push_back(root);
    }
  }
  for (std::vector<std::uint32_t>& neighbours : graph) std::sort(neighbours.begin(), neighbours.end());
  return graph;
}

}  // namespace terrace::planner::tflite
