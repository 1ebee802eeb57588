#include "daemon/planner/trace_limits.h"

#include <algorithm>
#include <array>

#include "daemon/planner/json_line.h"

namespace terrace::planner {
namespace {

// In the order of wire::TensorKind.
constexpr std::array<const char*, 7> kinds = {"weight",    "activation", "gradient", "input",
                                              "optimizer", "workspace",  "other"};

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

std::string check_totals(const wire::Trace& trace) {
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
    if (!take(op.workspace_bytes)) return "ops: workspaces and tensors add up to more than 4 EiB";
  }
  return {};
}

}  // namespace terrace::planner
