#include "daemon/planner/recompute/dtr/evicted_classes.h"

namespace terrace::planner::recompute {

std::uint32_t EvictedClasses::root_of(std::uint32_t node) {
  std::uint32_t root = node;
  while (nodes_[root].parent != nothing) root = nodes_[root].parent;
  while (nodes_[node].parent != nothing) {
    const std::uint32_t next = nodes_[node].parent;
    nodes_[node].parent = root;
    node = next;
  }
  return root;
}

template <class Visit>
void EvictedClasses::evicted_neighbours(std::uint32_t storage, Visit visit) {
  const auto look = [&](std::uint32_t s) {
    if (r_.evicted(s)) visit(s);
  };
  r_.parents(storage, look);
  r_.children(storage, look);
}

void EvictedClasses::evicted(std::uint32_t storage) {
  const auto own = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({nothing, r_.cost_ns(storage), 0});
  node_[storage] = own;
  evicted_neighbours(storage, [&](std::uint32_t s) {
    const std::uint32_t other = root_of(node_[s]);
    const std::uint32_t mine = root_of(own);
    if (other == mine) return;
    nodes_[other].parent = mine;
    nodes_[mine].sum_ns += nodes_[other].sum_ns;
  });
}

void EvictedClasses::came_back(std::uint32_t storage) {
  nodes_[root_of(node_[storage])].sum_ns -= r_.cost_ns(storage);
  node_[storage] = nothing;
}

std::int64_t EvictedClasses::cost_around_ns(std::uint32_t storage) {
  ++looks_;
  std::int64_t sum = 0;
  evicted_neighbours(storage, [&](std::uint32_t s) {
    Node& root = nodes_[root_of(node_[s])];
    if (root.seen == looks_) return;
    root.seen = looks_;
    sum += root.sum_ns;
  });
  return sum;
}

}  // namespace terrace::planner::recompute
