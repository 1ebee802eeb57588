// The parts of memory_minimising(); order.cpp puts them together.
#pragma once

#include <cstdint>

#include "daemon/planner/order/order.h"
#include "daemon/planner/order/profile.h"

namespace terrace::planner {

// The most bytes alive during any operation, without the persistent ones.
std::uint64_t peak_of(const OrderModel& model, const Order& order);

// List scheduling: of the operations that are ready, the one that leaves the least memory behind, then the
// one that needs the least while it runs, then the first recorded. O((V + E) log V).
Order greedy_order(const OrderModel& model, const Dependencies& graph);

// The same graph with every edge turned round; an order of one, reversed, is an order of the other, with the
// same peak: a tensor's life is the same interval read backwards.
Dependencies reversed(const Dependencies& graph);

// Each operation that leaves more memory behind than before goes as late as the first one that waits for it
// allows. Another order to choose from, never checked against the one given.
Order sunk(const OrderModel& model, const Dependencies& graph, const Order& order);

// The `width` best partial orders, one operation longer at each step, by peak, then by what is alive.
// States that have run the same operations are one. O(steps × width × (V + tensors)).
Order beam_order(const OrderModel& model, const Dependencies& graph, std::uint32_t width);

// Exact reordering of windows of consecutive operations around the peak until none gets better.
Order polished(const OrderModel& model, const Dependencies& graph, Order order, std::uint32_t window_ops,
               std::uint32_t rounds);

}  // namespace terrace::planner
