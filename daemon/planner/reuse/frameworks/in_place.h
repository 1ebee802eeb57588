// Operations that may write their result over an input, found by counting references.
//
// Where an operation may overwrite, an output may take the memory of an input that has the same size, that
// the operation reads once and nothing reads afterwards: the two tensors become one buffer with one life, and
// the next such operation prolongs the chain. No placement of separate buffers can do that, for at that
// operation both are alive; merged before planning, every policy and every bound profits.
//
// This is MXNet's rule (plan_memory.cc: equal size, equal width of the type, one reference left, inputs and
// outputs in their order, each input taken once), and MegEngine's overwriting for outputs that cover their
// input whole; a smaller output over a part of an input, which MegEngine allows too, is not merged: its
// buffer would change its size.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {

// Whether an operation reads no element of an input after writing another element of the output. Told by the
// operator's name, as the frameworks' own registers do: "aten::relu", "relu_", "conv1/relu/3" are
// elementwise, what is not known is not.
bool is_elementwise(const wire::TraceOp& op);

struct InPlace {
  Instance instance;                     // its trace is null: a buffer is no longer one tensor
  std::vector<std::uint32_t> buffer_of;  // per tensor of the trace; no_tensor where it has none
};

// instance_of() with those buffers merged. A merged buffer carries the tensor that its chain begins with.
InPlace in_place_instance_of(const wire::Trace& trace, std::uint64_t alignment = 1,
                             const std::function<bool(const wire::TraceOp&)>& may_overwrite = is_elementwise);

}  // namespace terrace::planner
