// Other orders of a step's operations, in which the first tier lacks less.
//
// What a plan has to do, whatever it is, grows with the bytes that live beyond the first tier and with how
// long they do. So an order promises something if the sum over time of the bytes that are missing is
// some percent below that of the recorded one:
//
//     live bytes    ▁▂▄▆█▇▅▃▁
//     tier 0        ─────────    the sum is what stands above the line
//
// Asked are the order that frees early and the one of least peak, with a bounded effort, and breadth first
// and reverse depth first where they lower the peak (planner/order/order.h). Pure.
#pragma once

#include <vector>

#include "daemon/planner/machine.h"
#include "daemon/planner/order/order.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner::joint {

// Sum over the operations of time and of the bytes beyond the first tier, persistent ones included.
double missing_byte_us(const wire::Trace& trace, const Machine& machine, const Order& order);

// Those that promise something, what promises most first; two at most. None where the recorded order
// lacks nothing, where reads are not known, and of steps with more than 100,000 operations.
std::vector<Order> promising_orders(const wire::Trace& trace, const Machine& machine);

}  // namespace terrace::planner::joint
