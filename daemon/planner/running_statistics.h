// What batch normalisation keeps for later: a running mean and variance, which each training step updates in
// place beside the output, and from which it makes nothing.
//
// For whoever runs an operation again they decide a great deal. An update in place may not happen twice, so
// nothing that batch normalisation makes could be made again, though its output comes from the batch alone
// (Ioffe and Szegedy, ICML'15, algorithm 1). A run that leaves the statistics alone gives the same output:
// torch.nn.functional.batch_norm does it where it is given none.
#pragma once

#include <cstdint>
#include <vector>

#include "liballoc/wire/trace.h"

namespace terrace::planner {

// Whether the operation, made again, neither reads nor updates this tensor.
bool leaves_alone(const wire::Trace& trace, const wire::TraceOp& op, std::uint32_t tensor);

// Which tensors are running statistics, where a trace does not say: persistent ones that are neither weights
// nor states of an optimizer, and that only operations with batch normalisation in their names write, each of
// them in place, beside outputs that are many times as large. By tensor.
std::vector<bool> likely_running_statistics(const wire::Trace& trace);

}  // namespace terrace::planner
