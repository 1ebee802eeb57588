#include "daemon/planner/order/scheduled.h"

#include <algorithm>
#include <limits>

#include "daemon/planner/order/order.h"

namespace terrace::planner {
namespace {

constexpr std::uint32_t no_position = std::numeric_limits<std::uint32_t>::max();

std::string place_of(std::size_t position) { return "operations[" + std::to_string(position) + "]: "; }

std::string check_each_once(std::size_t ops, std::span<const std::uint32_t> operations) {
  std::vector<bool> stands(ops, false);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const std::uint32_t op = operations[i];
    if (op >= ops) return place_of(i) + "there is no operation " + std::to_string(op);
    if (stands[op]) return place_of(i) + "operation " + std::to_string(op) + " stands there twice";
    stands[op] = true;
  }
  if (operations.size() != ops)
    return "operations: " + std::to_string(operations.size()) + " stand there, and the step has " +
           std::to_string(ops) + "; each must stand once";
  return {};
}

}  // namespace

std::string check_operations(const wire::Trace& trace, std::span<const std::uint32_t> operations) {
  if (operations.empty()) return {};
  if (!trace.reads_known)
    return "operations: the trace does not say what its operations read, so they can only run as recorded; "
           "leave operations out";
  std::string wrong = check_each_once(trace.ops.size(), operations);
  if (!wrong.empty()) return wrong;
  const Dependencies graph = dependencies_of(trace);
  const std::vector<std::uint32_t> position = positions_of(operations);
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    for (const std::uint32_t first : graph.before[operations[i]]) {
      if (position[first] > i)
        return place_of(i) + "operation " + std::to_string(operations[i]) + " runs before operation " +
               std::to_string(first) + ", on which it depends";
    }
  }
  return {};
}

wire::Trace reorder(const wire::Trace& trace, const Order& order) {
  wire::Trace result{trace.name, trace.source, {}, trace.tensors, trace.reads_known};
  result.ops.reserve(order.size());
  for (const std::uint32_t op : order) result.ops.push_back(trace.ops[op]);
  return result;
}

wire::Trace in_order(const wire::Trace& trace, std::span<const std::uint32_t> operations) {
  return operations.empty() ? trace : reorder(trace, Order(operations.begin(), operations.end()));
}

std::vector<std::uint32_t> positions_of(std::span<const std::uint32_t> operations) {
  std::vector<std::uint32_t> positions(operations.size(), no_position);
  for (std::uint32_t i = 0; i < operations.size(); ++i) positions[operations[i]] = i;
  return positions;
}

std::vector<wire::VariantChoice> in_order(std::span<const wire::VariantChoice> choices,
                                          std::span<const std::uint32_t> operations) {
  std::vector<wire::VariantChoice> placed(choices.begin(), choices.end());
  if (operations.empty()) return placed;
  const std::vector<std::uint32_t> position = positions_of(operations);
  for (wire::VariantChoice& choice : placed) choice.op = position[choice.op];
  std::sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.op < b.op; });
  return placed;
}

std::uint32_t moved_operations(std::span<const std::uint32_t> operations) {
  std::uint32_t moved = 0;
  for (std::uint32_t i = 0; i < operations.size(); ++i) moved += operations[i] != i ? 1 : 0;
  return moved;
}

}  // namespace terrace::planner
