// One line for each operation and tensor, so that a trace can be read, compared and searched with line tools.
#include <nlohmann/json.hpp>

#include "daemon/planner/json_line.h"
#include "daemon/planner/running_statistics.h"
#include "daemon/planner/trace_json.h"
#include "daemon/planner/trace_limits.h"

namespace terrace::planner {
namespace {

using ordered = nlohmann::ordered_json;

// Names from profilers may be cut in the middle of a character; that must not keep a trace from being
// written.
ordered ids(const wire::Trace& trace, const std::vector<std::uint32_t>& indices) {
  ordered list = ordered::array();
  for (const std::uint32_t i : indices) list.push_back(trace.tensors[i].id);
  return list;
}

std::string op_line(const wire::Trace& trace, const wire::TraceOp& op) {
  ordered o{{"name", op.name},
            {"time_us", op.time_us},
            {"inputs", ids(trace, op.inputs)},
            {"outputs", ids(trace, op.outputs)}};
  if (op.workspace_bytes != 0) o["workspace_bytes"] = op.workspace_bytes;
  if (op.flops) o["flops"] = *op.flops;
  if (!op.recomputable) o["recomputable"] = false;
  if (!op.sign_only.empty()) o["sign_only"] = ids(trace, op.sign_only);
  for (const wire::OpVariant& v : op.variants) {
    ordered variant{{"name", v.name}, {"time_us", v.time_us}};
    if (v.workspace_bytes != 0) variant["workspace_bytes"] = v.workspace_bytes;
    o["variants"].push_back(std::move(variant));
  }
  return json_line(o);
}

// Who reads it back takes what is likely for said.
std::string tensor_line(const wire::TraceTensor& t, bool likely_statistics) {
  ordered o{
      {"id", t.id}, {"bytes", t.bytes}, {"kind", tensor_kind_name(t.kind)}, {"persistent", t.persistent}};
  if (t.sparsity) o["sparsity"] = *t.sparsity;
  if (!t.dtype.empty()) o["dtype"] = t.dtype;
  if (!t.shape.empty()) o["shape"] = t.shape;
  if (t.running_statistics || likely_statistics) o["running_statistics"] = t.running_statistics;
  return json_line(o);
}

}  // namespace

std::string trace_json(const wire::Trace& trace) {
  std::string text = "{\"format\":\"terrace-trace\",\"version\":1,\"name\":" + json_line(trace.name) +
                     ",\"source\":" + json_line(trace.source) +
                     (trace.reads_known ? "" : ",\"reads_known\":false") + ",\n\"ops\":[";
  const char* before = "\n";
  for (const wire::TraceOp& op : trace.ops) {
    text += before + op_line(trace, op);
    before = ",\n";
  }
  text += "],\n\"tensors\":[";
  before = "\n";
  const std::vector<bool> likely = likely_running_statistics(trace);
  for (std::size_t t = 0; t < trace.tensors.size(); ++t) {
    text += before + tensor_line(trace.tensors[t], likely[t]);
    before = ",\n";
  }
  return text + "]}\n";
}

}  // namespace terrace::planner
