#include "daemon/planner/trace_limits.h"

#include <algorithm>
#include <array>

#include "daemon/planner/json_line.h"
#include "daemon/planner/json_stream.h"
#include "daemon/planner/one_bit.h"

namespace terrace::planner {
namespace {

// In the order of wire::TensorKind.
constexpr std::array<const char*, 7> kinds = {"weight",    "activation", "gradient", "input",
                                              "optimizer", "workspace",  "other"};

std::string over(const std::string& place, const std::string& number, const std::string& limit) {
  return place + ": " + number + " is over the limit of " + limit;
}

std::string over_a_count(const wire::Trace& trace) {
  if (trace.ops.size() > most_ops) return "ops: more than " + std::to_string(most_ops);
  if (trace.tensors.size() > most_tensors) return "tensors: more than " + std::to_string(most_tensors);
  std::size_t references = 0;
  for (const wire::TraceOp& op : trace.ops)
    references += op.inputs.size() + op.outputs.size() + op.sign_only.size();
  return references > most_references ? "ops: they name tensors too often" : "";
}

std::string wrong_tensor(const wire::Trace& trace, std::size_t i) {
  const std::uint64_t bytes = trace.tensors[i].bytes;
  if (bytes <= most_tensor_bytes) return {};
  return over(json_place("tensors", i) + ".bytes", std::to_string(bytes), std::to_string(most_tensor_bytes));
}

std::string wrong_cost(const std::string& place, double time_us, std::uint64_t workspace_bytes) {
  if (workspace_bytes > most_tensor_bytes)
    return over(place + ".workspace_bytes", std::to_string(workspace_bytes),
                std::to_string(most_tensor_bytes));
  if (time_us >= 0 && time_us <= most_time_us) return {};
  return over(place + ".time_us", json_line(time_us), json_line(most_time_us));
}

std::string wrong_op(const wire::Trace& trace, std::size_t i) {
  const wire::TraceOp& op = trace.ops[i];
  std::string wrong = wrong_cost(json_place("ops", i), op.time_us, op.workspace_bytes);
  if (op.variants.size() > most_variants)
    return json_place("ops", i) + ".variants: more than " + std::to_string(most_variants);
  for (std::size_t v = 0; v < op.variants.size() && wrong.empty(); ++v)
    wrong = wrong_cost(json_place("ops", i) + "." + json_place("variants", v), op.variants[v].time_us,
                       op.variants[v].workspace_bytes);
  if (!wrong.empty()) return wrong;
  wrong = wrong_sign_only(trace, op);
  return wrong.empty() ? wrong : json_place("ops", i) + "." + wrong;
}

// Only one variant runs.
std::uint64_t largest_workspace(const wire::TraceOp& op) {
  std::uint64_t most = op.workspace_bytes;
  for (const wire::OpVariant& v : op.variants) most = std::max(most, v.workspace_bytes);
  return most;
}

std::string wrong_total(const wire::Trace& trace) {
  std::uint64_t left = most_total_bytes;
  const auto take = [&left](std::uint64_t bytes) {
    if (bytes > left) return false;
    left -= bytes;
    return true;
  };
  for (const wire::TraceTensor& t : trace.tensors) {
    if (!take(t.bytes)) return "tensors: their sizes add up to more than 4 EiB";
  }
  for (const wire::TraceOp& op : trace.ops) {
    if (!take(largest_workspace(op))) return "ops: workspaces and tensors add up to more than 4 EiB";
  }
  return {};
}

}  // namespace

std::optional<wire::TensorKind> tensor_kind(const std::string& name) {
  const auto* found = std::find(kinds.begin(), kinds.end(), name);
  if (found == kinds.end()) return std::nullopt;
  return static_cast<wire::TensorKind>(found - kinds.begin());
}

const char* tensor_kind_name(wire::TensorKind kind) { return kinds.at(static_cast<std::size_t>(kind)); }

std::string tensor_kinds() {
  std::string all;
  for (const char* kind : kinds) all += (all.empty() ? "" : ", ") + std::string(kind);
  return all;
}

std::string text_within(std::string_view text, std::size_t most_bytes) {
  constexpr std::size_t longest_character = 4;
  const std::string part(text.substr(0, most_bytes + longest_character));
  auto valid = nlohmann::json::parse(json_line(part)).get<std::string>();
  if (valid.size() <= most_bytes) return valid;
  std::size_t end = most_bytes;
  while (end > 0 && (static_cast<unsigned char>(valid[end]) & 0xc0) == 0x80) --end;
  valid.resize(end);
  return valid;
}

std::string check_limits(const wire::Trace& trace) {
  std::string wrong = over_a_count(trace);
  for (std::size_t i = 0; i < trace.tensors.size() && wrong.empty(); ++i) wrong = wrong_tensor(trace, i);
  for (std::size_t i = 0; i < trace.ops.size() && wrong.empty(); ++i) wrong = wrong_op(trace, i);
  return wrong.empty() ? wrong_total(trace) : wrong;
}

}  // namespace terrace::planner
