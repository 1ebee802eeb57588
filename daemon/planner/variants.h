// Steps whose operations have variants (wire::OpVariant), and schedules that choose among them.
//
// A choice changes what an operation costs, not what it reads and writes. So a step in which every operation
// has the cost of its variant is a step like any other: who simulates, judges or bounds has no second way.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "liballoc/wire/schedule/schedule.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

bool has_variants(const wire::Trace& trace);

// What is wrong with the choices, empty if nothing: each operation once and in order, variants that it has.
std::string check_variants(const wire::Trace& trace, std::span<const wire::VariantChoice> choices);

// The step as the choices have it, with no variants left. They must have passed the check.
wire::Trace with_variants(const wire::Trace& trace, std::span<const wire::VariantChoice> choices);

// Each operation with its least time and its least workspace, be they of one variant or not: what is a bound
// for this step is one for every choice.
wire::Trace least_costs(const wire::Trace& trace);

// The fastest way to run the operation whose workspace is at most `bytes`, of equally fast ones the smaller;
// where none is, the one with the smallest workspace. 0: its own, else 1 + index of the variant.
std::uint32_t fastest_within(const wire::TraceOp& op, std::uint64_t bytes);
double time_us(const wire::TraceOp& op, std::uint32_t variant);
std::uint64_t workspace_bytes(const wire::TraceOp& op, std::uint32_t variant);

// By operation, 0 for its own way, to what a schedule carries.
std::vector<wire::VariantChoice> choices_of(std::span<const std::uint32_t> variant_of_op);

}  // namespace terrace::planner
