// Coop: what goes lies in a row, so that all of it makes room for what comes.
//
// Zhang et al., "Coop: Memory is not a Commodity" (NeurIPS 2023). A result needs its bytes in a row, and DTR
// evicts whatever its rule says until such a row happens to be free: what went and did not help is made again
// for nothing. Coop
//   * evicts the cheapest row of neighbours that has enough bytes, found by a window that slides over the
//     addresses ("sliding window"); the cost of a row is the sum over its storages of (c + classes) / a, in
//     the letters of dtr.h: sizes play no part, since the row's is given;
//   * puts what is cheap for its bytes at one end of free memory and what is expensive at the other ("cheap
//     tensor partitioning"), so that cheap rows are long;
//   * updates parameters where they lie ("recomputable in-place"), so that they do not spread.
//
// Reconstructed from the abstract, a public summary of the paper, and OneFlow's allocator that carries it
// (oneflow/core/vm/remat/allocator.cpp at 057f652); the paper's text was not at hand. From the allocator are
// the smallest free block that fits, the window, and that each result is placed by itself. Our own are
//   * where cheap ends: at the step's cost for all bytes that it makes. OneFlow goes by names of operators
//     (convolutions, products of matrices, sums), which a trace need not have.
//   * the cost of a storage: OneFlow's options name classes of neighbours as DTR's appendix has them; that
//     staleness divides and size does not is our reading.
// The third part has nothing to do here: a constant stays where it is, and an update makes a new content
// beside it (step.h). Constants lie in a row of their own, which is what that part is for.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/planner/recompute/dtr/dtr.h"

namespace terrace::planner::recompute {

// h_Coop with windows, and addresses in the report.
DtrReport run_coop(const Step& step, std::uint64_t budget_bytes);

// Whether a report's addresses hold: each block below the budget that constants leave, and no two blocks over
// each other at any time. What is wrong, empty if nothing; shares no code with what placed them. For a
// schedule that check_schedule() finds right.
std::string check_addresses(const Step& step, const DtrReport& report, std::uint64_t budget_bytes);

}  // namespace terrace::planner::recompute
