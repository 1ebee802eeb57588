// Schedules that run a step's operations in an order of their own (wire::Schedule::operations).
//
// A step in another order is a step like any other: who simulates, judges or bounds has no second way. What a
// schedule and its report count by positions (ordinals, births, what is made again) counts in that order;
// variants name operations of the trace.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "liballoc/wire/schedule/schedule.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

// What is wrong with the order, empty if nothing: each operation once, and none before one that it depends on
// (dependencies.h). Of a trace whose reads are not known nobody can tell, and no order is right. O(n log n).
std::string check_operations(const wire::Trace& trace, std::span<const std::uint32_t> operations);

// The step as a schedule of that order runs it; an empty one is the trace's own. It must have passed the
// check.
wire::Trace in_order(const wire::Trace& trace, std::span<const std::uint32_t> operations);

// By operation of the trace, its position.
std::vector<std::uint32_t> positions_of(std::span<const std::uint32_t> operations);

// The same choices, of the operations' positions.
std::vector<wire::VariantChoice> in_order(std::span<const wire::VariantChoice> choices,
                                          std::span<const std::uint32_t> operations);

// How many operations stand elsewhere than in the trace.
std::uint32_t moved_operations(std::span<const std::uint32_t> operations);

}  // namespace terrace::planner
