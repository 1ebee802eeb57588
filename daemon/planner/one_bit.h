// What may rest as one bit a value, and what operations say of it.
//
// Gist's Binarize (Jain et al., ISCA'18): of what only the backward passes of ReLU and of pooling read later,
// it is enough to keep whether each value is above zero. They work on the bits where those lie; the values
// never come back. Of a step TraceOp::sign_only says which reads are such. Pure, and shared by whoever plans;
// the judge of timelines has its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "liballoc/wire/trace.h"

namespace terrace::planner {

// Whether the operation reads no more of this input than whether its values are above zero.
bool reads_sign_only(const wire::TraceOp& op, std::uint32_t tensor);

// What is wrong with the operation's list, as "sign_only[1]: …"; empty if nothing. O(n^2) in the operation.
std::string wrong_sign_only(const wire::Trace& trace, const wire::TraceOp& op);

// Bytes of one bit for each of the tensor's values; 0: it has none that are known to be floating-point
// numbers of at least two bytes, or its type is not known.
std::uint64_t one_bit_bytes(const wire::TraceTensor& tensor);

// By tensor: how many operations of the step run until nothing but signs is read of it, and nothing written
// any more; of a persistent one all.
std::vector<std::uint32_t> values_needed_until(const wire::Trace& trace);

}  // namespace terrace::planner
