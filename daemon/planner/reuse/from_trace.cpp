#include <algorithm>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {
namespace {

void name(Buffer* buffer, std::uint32_t op) {
  if (buffer->upper == 0) buffer->lower = op;
  buffer->upper = op + 1;
}

}  // namespace

Instance instance_of(const wire::Trace& trace, std::uint64_t alignment) {
  const auto op_count = static_cast<std::uint32_t>(trace.ops.size());
  std::vector<Buffer> lives(trace.tensors.size(), Buffer{0, 0, 0, alignment, no_tensor});
  for (std::uint32_t op = 0; op < op_count; ++op) {
    for (const std::uint32_t t : trace.ops[op].inputs) name(&lives[t], op);
    for (const std::uint32_t t : trace.ops[op].outputs) name(&lives[t], op);
  }
  Instance instance{trace.name, {}, &trace};
  for (std::uint32_t t = 0; t < lives.size(); ++t) {
    Buffer b = lives[t];
    b.bytes = trace.tensors[t].bytes;
    b.tensor = t;
    if (trace.tensors[t].persistent) {
      b.lower = 0;
      b.upper = std::max<std::uint32_t>(op_count, 1);
    }
    if (b.upper > 0) instance.buffers.push_back(b);
  }
  for (std::uint32_t op = 0; op < op_count; ++op) {
    if (trace.ops[op].workspace_bytes == 0) continue;
    instance.buffers.push_back({trace.ops[op].workspace_bytes, op, op + 1, alignment, no_tensor});
  }
  return instance;
}

}  // namespace terrace::planner
