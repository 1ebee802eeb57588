// MINCOSTFLOW's flow by LEMON's network simplex, for more tensors than shortest paths can augment: n = 3,000
// is 4.4 million arcs, one second. This is the only file that sees LEMON.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false under sanitizers, in LEMON's bool vectors
#endif
#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

#include "daemon/planner/reuse/tflite/chains.h"

namespace terrace::planner::tflite {
namespace {

using Graph = lemon::SmartDigraph;

// The sink is left out: instead every i' demands one unit.
class Network {
 public:
  Network(Records records, const Finished& finished)
      : costs_(graph_), capacities_(graph_), supplies_(graph_) {
    const auto n = static_cast<int>(records.size());
    for (int v = 0; v < 2 * n + 1; ++v) supplies_[graph_.addNode()] = 0;
    supplies_[node(2 * n)] = n;
    for (int i = 0; i < n; ++i) {
      supplies_[node(n + i)] = -1;
      add(2 * n, i, 0);
      add(2 * n, n + i, static_cast<std::int64_t>(records[static_cast<std::size_t>(i)].size));
      for (std::uint32_t k = 0; k < finished.count_of[static_cast<std::size_t>(i)]; ++k) {
        const std::uint32_t j = finished.ended[k];
        add(static_cast<int>(j), n + i, growth(records[j], records[static_cast<std::size_t>(i)]));
      }
    }
  }

  // The chains, or nothing if there is no optimum.
  std::optional<std::vector<std::uint32_t>> successors(std::uint32_t n) {
    lemon::NetworkSimplex<Graph, std::int64_t, std::int64_t> solver(graph_);
    solver.upperMap(capacities_).costMap(costs_).supplyMap(supplies_);
    if (solver.run() != solver.OPTIMAL) return std::nullopt;
    std::vector<std::uint32_t> successor(n, unassigned);
    for (Graph::ArcIt a(graph_); a != lemon::INVALID; ++a) {
      const auto from = static_cast<std::uint32_t>(graph_.id(graph_.source(a)));
      const auto to = static_cast<std::uint32_t>(graph_.id(graph_.target(a)));
      if (from < n && to >= n && solver.flow(a) == 1) successor[from] = to - n;
    }
    return successor;
  }

 private:
  static Graph::Node node(int id) { return Graph::nodeFromId(id); }

  void add(int from, int to, std::int64_t cost) {
    const Graph::Arc arc = graph_.addArc(node(from), node(to));
    costs_[arc] = cost;
    capacities_[arc] = 1;
  }

  Graph graph_;
  Graph::ArcMap<std::int64_t> costs_;
  Graph::ArcMap<std::int64_t> capacities_;
  Graph::NodeMap<std::int64_t> supplies_;
};

}  // namespace

std::optional<Objects> network_simplex_flow(Records records, const Finished& finished) {
  Network network(records, finished);
  const auto successor = network.successors(static_cast<std::uint32_t>(records.size()));
  if (!successor) return std::nullopt;
  return objects_of_chains(records, *successor);
}

}  // namespace terrace::planner::tflite
