// MINCOSTFLOW: which tensor follows which in one object, as a flow of least cost.
//
//            cost 0        growth of j to i        cost 0
//        S ---------> j ----------------------> i' -------> T      every arc carries at most 1
//        S ------------------------------------> i' -------> T      cost: size of i, a new object
//
// n units flow, one into every i'. A unit that comes through j says that i takes over the object of j. The
// cost is an upper bound of the total: an object that shrank and grew again pays twice.
//
// Source: LiteRT, memory_management/min_cost_flow_assignment.cc, which augments along shortest paths found by
// the "shortest path faster algorithm". Which of the flows of least cost comes out depends on the order of
// arcs and on the queue (two queues, one per round, a vertex enters a round's queue once), so both are kept.
// Costs are 64 bits wide; TFLite's int overflows from 2 GiB on.
#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "daemon/planner/reuse/tflite/chains.h"

namespace terrace::planner::tflite {
namespace {

constexpr std::size_t max_exact_records = 256;
constexpr std::uint64_t max_pairs = 6'000'000;

class FlowGraph {
 public:
  FlowGraph(Records records, const Finished& finished)
      : n_(static_cast<std::uint32_t>(records.size())), arcs_from_(std::size_t{2} * n_ + 2) {
    for (std::uint32_t i = 0; i < n_; ++i) {
      add(source(), i, 0);
      add(n_ + i, sink(), 0);
      add(source(), n_ + i, static_cast<std::int64_t>(records[i].size));
      for (std::uint32_t k = 0; k < finished.count_of[i]; ++k) {
        const std::uint32_t j = finished.ended[k];
        add(j, n_ + i, growth(records[j], records[i]));
      }
    }
  }

  void solve() {
    while (find_path()) augment();
  }

  std::vector<std::uint32_t> successors() const {
    std::vector<std::uint32_t> successor(n_, unassigned);
    for (std::uint32_t j = 0; j < n_; ++j) {
      for (const std::uint32_t a : arcs_from_[j])
        if (arcs_[a].capacity == 0 && arcs_[a].to >= n_ && arcs_[a].to < 2 * n_)
          successor[j] = arcs_[a].to - n_;
    }
    return successor;
  }

 private:
  static constexpr std::int64_t infinite = std::numeric_limits<std::int64_t>::max();

  struct Arc {
    std::uint32_t to;
    std::int32_t capacity;
    std::int64_t cost;
  };

  std::uint32_t source() const { return 2 * n_; }
  std::uint32_t sink() const { return 2 * n_ + 1; }

  // An arc and, at its index with the last bit flipped, its reverse.
  void add(std::uint32_t from, std::uint32_t to, std::int64_t cost) {
    arcs_from_[from].push_back(static_cast<std::uint32_t>(arcs_.size()));
    arcs_.push_back({to, 1, cost});
    arcs_from_[to].push_back(static_cast<std::uint32_t>(arcs_.size()));
    arcs_.push_back({from, 0, -cost});
  }

  bool find_path() {
    distance_.assign(arcs_from_.size(), infinite);
    arc_to_.resize(arcs_from_.size());
    round_of_.assign(arcs_from_.size(), 0);
    distance_[source()] = 0;
    std::vector<std::uint32_t> queue{source()};
    std::vector<std::uint32_t> next;
    for (std::uint32_t round = 1; !queue.empty(); ++round) {
      next.clear();
      for (const std::uint32_t v : queue) relax(v, round, &next);
      queue.swap(next);
    }
    return distance_[sink()] != infinite;
  }

  void relax(std::uint32_t v, std::uint32_t round, std::vector<std::uint32_t>* next) {
    for (const std::uint32_t a : arcs_from_[v]) {
      const Arc& arc = arcs_[a];
      if (arc.capacity == 0 || distance_[v] + arc.cost >= distance_[arc.to]) continue;
      distance_[arc.to] = distance_[v] + arc.cost;
      arc_to_[arc.to] = a;
      if (round_of_[arc.to] == round) continue;
      round_of_[arc.to] = round;
      next->push_back(arc.to);
    }
  }

  void augment() {
    for (std::uint32_t v = sink(); v != source();) {
      const std::uint32_t a = arc_to_[v];
      --arcs_[a].capacity;
      ++arcs_[a ^ 1U].capacity;
      v = arcs_[a ^ 1U].to;
    }
  }

  std::uint32_t n_;
  std::vector<Arc> arcs_;
  std::vector<std::vector<std::uint32_t>> arcs_from_;
  std::vector<std::int64_t> distance_;
  std::vector<std::uint32_t> arc_to_;    // the last arc of the path to each vertex
  std::vector<std::uint32_t> round_of_;  // in which each vertex entered a queue last
};

}  // namespace

Objects objects_of_chains(Records records, const std::vector<std::uint32_t>& successor) {
  Objects objects;
  objects.object_of.assign(records.size(), unassigned);
  for (std::uint32_t first = 0; first < records.size(); ++first) {
    if (objects.object_of[first] != unassigned) continue;  // records come after those they follow
    const auto object = static_cast<std::uint32_t>(objects.object_bytes.size());
    objects.object_bytes.push_back(0);
    for (std::uint32_t r = first; r != unassigned; r = successor[r]) {
      objects.object_of[r] = object;
      objects.object_bytes[object] = std::max(objects.object_bytes[object], records[r].size);
    }
  }
  return objects;
}

Objects shortest_path_flow(Records records, const Finished& finished) {
  FlowGraph graph(records, finished);
  graph.solve();
  return objects_of_chains(records, graph.successors());
}

Result<Objects> min_cost_flow(Records records, const Stop& stop) {
  const Finished finished = finished_before(records);
  std::uint64_t pairs = 0;
  for (const std::uint32_t count : finished.count_of) pairs += count;
  if (pairs > max_pairs) {
    return refused<Objects>(
        "the flow would have " + std::to_string(pairs) +
        " arcs, one for each pair of buffers that could share memory, and the limit is 6000000");
  }
  if (stop && stop()) return refused<Objects>("stopped before the flow was built");
  if (records.size() <= max_exact_records) return ok(shortest_path_flow(records, finished));
  if (std::optional<Objects> objects = network_simplex_flow(records, finished))
    return ok(std::move(*objects));
  return refused<Objects>("the network simplex found no optimum");
}

}  // namespace terrace::planner::tflite
