#include "daemon/planner/order/order.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "daemon/planner/order/search.h"

namespace terrace::planner {
namespace {

std::vector<std::size_t> waits_of(const Dependencies& graph) {
  std::vector<std::size_t> waits;
  waits.reserve(graph.before.size());
  for (const auto& before : graph.before) waits.push_back(before.size());
  return waits;
}

// Where a depth-first walk stands: an operation, and how many of its successors have been walked.
struct Visit {
  std::uint32_t op;
  std::size_t next;
};

// Walks everything that can be reached from `root` and has not been seen; appends in post-order. Successors
// are walked last recorded first, so that the reversed result has the first recorded one first.
void walk(const Dependencies& graph, std::uint32_t root, std::vector<bool>& seen, Order& left) {
  std::vector<Visit> stack{{root, 0}};
  seen[root] = true;
  while (!stack.empty()) {
    Visit& top = stack.back();
    const std::vector<std::uint32_t>& after = graph.after[top.op];
    if (top.next == after.size()) {
      left.push_back(top.op);
      stack.pop_back();
      continue;
    }
    const std::uint32_t successor = after[after.size() - ++top.next];
    if (seen[successor]) continue;
    seen[successor] = true;
    stack.push_back({successor, 0});
  }
}

std::uint32_t affordable_width(const OrderModel& model, const OrderEffort& effort) {
  const std::uint64_t ops = std::max(model.ops(), 1U);
  const std::uint64_t affordable = effort.beam_work / (ops * (ops + model.tensors()));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(effort.beam_width, affordable));
}

}  // namespace

Order breadth_first(const wire::Trace& trace) {
  const Dependencies graph = dependencies_of(trace);
  std::vector<std::size_t> waits = waits_of(graph);
  std::deque<std::uint32_t> ready;
  for (std::uint32_t op = 0; op < waits.size(); ++op) {
    if (waits[op] == 0) ready.push_back(op);
  }
  Order order;
  for (; !ready.empty(); ready.pop_front()) {
    order.push_back(ready.front());
    for (const std::uint32_t op : graph.after[ready.front()]) {
      if (--waits[op] == 0) ready.push_back(op);
    }
  }
  return order;
}

Order reverse_depth_first(const wire::Trace& trace) {
  const Dependencies graph = dependencies_of(trace);
  const auto count = static_cast<std::uint32_t>(trace.ops.size());
  std::vector<bool> seen(count, false);
  Order order;
  for (std::uint32_t op = count; op-- > 0;) {
    if (graph.before[op].empty()) walk(graph, op, seen, order);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

Order memory_minimising(const wire::Trace& trace, const OrderEffort& effort) {
  const Dependencies graph = dependencies_of(trace);
  const Dependencies backwards = reversed(graph);
  const OrderModel model(trace);
  Order best(trace.ops.size());
  std::iota(best.begin(), best.end(), 0U);
  std::uint64_t least = peak_of(model, best);
  const auto consider = [&](Order candidate) {
    const std::uint64_t peak = peak_of(model, candidate);
    if (peak < least) {
      least = peak;
      best = std::move(candidate);
    }
  };
  const auto both_ways = [&](auto&& construct) {
    consider(construct(graph));
    Order turned = construct(backwards);
    std::reverse(turned.begin(), turned.end());
    consider(std::move(turned));
  };
  consider(breadth_first(trace));
  consider(reverse_depth_first(trace));
  both_ways([&](const Dependencies& g) { return greedy_order(model, g); });
  const std::uint32_t width = affordable_width(model, effort);
  if (width > 0) both_ways([&](const Dependencies& g) { return beam_order(model, g, width); });
  consider(sunk(model, graph, best));
  return polished(model, graph, std::move(best), effort.window_ops, effort.window_rounds);
}

bool is_topological(const Dependencies& graph, const Order& order) {
  std::vector<bool> done(graph.before.size(), false);
  if (order.size() != done.size()) return false;
  for (const std::uint32_t op : order) {
    if (op >= done.size() || done[op]) return false;
    for (const std::uint32_t first : graph.before[op]) {
      if (!done[first]) return false;
    }
    done[op] = true;
  }
  return true;
}

std::uint64_t peak_bytes(const wire::Trace& trace, const Order& order) {
  const OrderModel model(trace);
  return model.persistent_bytes() + peak_of(model, order);
}

}  // namespace terrace::planner
