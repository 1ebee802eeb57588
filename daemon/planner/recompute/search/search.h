// A search for the cheapest schedule that recomputes, from the best that DTR's rules and the plans made ahead
// find.
//
// Ruin and recreate (Schrimpf et al., Journal of Computational Physics 159, 2000) over runs (runs.h): some
// runs that only compute again are taken out, so that what they made is held instead; where memory is short
// then, at its worst, what rests there is let go and computed again before it is needed next, by most bytes
// for the cost, with some chance; what nobody reads any more goes. Costs are exact and feasibility is that of
// check_schedule(): there is no model between. Worse schedules are accepted within a margin that shrinks.
// Where no rule finishes it begins with everything held, so it may fit where all of them fail.
//
// Pure, deterministic for a seed; work is bounded by the number of runs looked at.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "daemon/planner/recompute/schedule.h"
#include "daemon/planner/recompute/search/runs.h"
#include "daemon/planner/recompute/static/policies.h"
#include "liballoc/wire/result.h"

namespace terrace::planner::recompute {

struct SearchOptions {
  std::uint64_t seed = 0;
  double effort = 1;  // times as much work as the default
  // Begins with this one's plan, too: static/policies.h has Checkmate's, which takes seconds for 200
  // operations.
  std::optional<StaticPolicy> relaxation = std::nullopt;
  // True ends the search with the best so far. Asked before each change, and at each iteration of
  // Checkmate's relaxation.
  std::function<bool()> stop;
};

// Never costs more than any rule of DTR, or any plan made ahead that fits. Refused where the budget is below
// what no schedule can do without (least_bytes_of), or no schedule was found.
Result<Schedule> search_recomputation(const Step& step, std::uint64_t budget_bytes,
                                      const SearchOptions& options = {});

// Runs, and what a link carries beside them.
struct CarriedRuns {
  Runs runs;
  std::vector<Carried> carried;
};

// The same search beside a link, beginning with `from`, or with everything held where that has no runs: what
// rests where memory is short is made again, or carried as far as the link has time (carrying.h), at most
// once between two reads of the step. Moves cost nothing then; which of both is tried first is drawn anew for
// each repair. What no operation of the step reads any more is not carried. Refused where nothing was found
// that fits.
Result<CarriedRuns> search_beside_link(const Step& step, std::uint64_t budget_bytes, const Link& link,
                                       const CarriedRuns& from, const SearchOptions& options = {});

}  // namespace terrace::planner::recompute
