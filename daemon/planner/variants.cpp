#include "daemon/planner/variants.h"

#include <algorithm>
#include <tuple>

namespace terrace::planner {

using wire::OpVariant;
using wire::TraceOp;
using wire::VariantChoice;

bool has_variants(const wire::Trace& trace) {
  return std::any_of(trace.ops.begin(), trace.ops.end(),
                     [](const TraceOp& op) { return !op.variants.empty(); });
}

std::string check_variants(const wire::Trace& trace, std::span<const VariantChoice> choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const VariantChoice& c = choices[i];
    const std::string name = "variants[" + std::to_string(i) + "]: ";
    if (c.op >= trace.ops.size()) return name + "there is no operation " + std::to_string(c.op);
    if (i > 0 && c.op <= choices[i - 1].op)
      return name + "operation " + std::to_string(c.op) + " does not stand after the one before it";
    if (c.variant == 0 || c.variant > trace.ops[c.op].variants.size())
      return name + "operation " + std::to_string(c.op) + " has " +
             std::to_string(trace.ops[c.op].variants.size()) + " variants, not one of number " +
             std::to_string(c.variant);
  }
  return {};
}

wire::Trace with_variants(const wire::Trace& trace, std::span<const VariantChoice> choices) {
  wire::Trace plain = trace;
  for (const VariantChoice& c : choices) {
    plain.ops[c.op].time_us = time_us(trace.ops[c.op], c.variant);
    plain.ops[c.op].workspace_bytes = workspace_bytes(trace.ops[c.op], c.variant);
  }
  for (TraceOp& op : plain.ops) op.variants.clear();
  return plain;
}

wire::Trace least_costs(const wire::Trace& trace) {
  wire::Trace least = trace;
  for (TraceOp& op : least.ops) {
    for (const OpVariant& v : op.variants) {
      op.time_us = std::min(op.time_us, v.time_us);
      op.workspace_bytes = std::min(op.workspace_bytes, v.workspace_bytes);
    }
    op.variants.clear();
  }
  return least;
}

double time_us(const TraceOp& op, std::uint32_t variant) {
  return variant == 0 ? op.time_us : op.variants[variant - 1].time_us;
}

std::uint64_t workspace_bytes(const TraceOp& op, std::uint32_t variant) {
  return variant == 0 ? op.workspace_bytes : op.variants[variant - 1].workspace_bytes;
}

std::uint32_t fastest_within(const TraceOp& op, std::uint64_t bytes) {
  const auto rank = [&](std::uint32_t v) {
    const std::uint64_t workspace = workspace_bytes(op, v);
    const bool fits = workspace <= bytes;
    // What fits goes by time, the rest, behind it, by workspace.
    return std::tuple(!fits, fits ? time_us(op, v) : 0.0, workspace, fits ? 0.0 : time_us(op, v));
  };
  std::uint32_t best = 0;
  for (std::uint32_t v = 1; v <= op.variants.size(); ++v)
    if (rank(v) < rank(best)) best = v;
  return best;
}

std::vector<VariantChoice> choices_of(std::span<const std::uint32_t> variant_of_op) {
  std::vector<VariantChoice> choices;
  for (std::uint32_t op = 0; op < variant_of_op.size(); ++op)
    if (variant_of_op[op] != 0) choices.push_back({op, variant_of_op[op]});
  return choices;
}

}  // namespace terrace::planner
