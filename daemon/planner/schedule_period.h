// What a schedule says of the period that it is for: its length, a hash of what one period looks like, its
// objects, and by when each entry is due. The clock here is that of a trace: its operations.
#pragma once

#include <cstdint>
#include <vector>

#include "liballoc/wire/schedule/schedule.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

// Of which operation names which tensor, and of the tensors' sizes: neither names nor times count.
std::uint64_t period_hash(const wire::Trace& trace);

// One for each tensor, in the trace's order. What does not persist is born by the first operation that names
// it; what none names is never born, and counts as born by the first one.
std::vector<wire::ScheduleObject> objects_of(const wire::Trace& trace);

// Gives each entry that has no deadline the next use of its tensor, at its own ordinal or later: of what
// persists in the next period, if need be. Without a next use: when the entry comes again. The entries must
// be sorted and name tensors of the trace. O(names + entries).
void give_deadlines(const wire::Trace& trace, wire::Schedule* schedule);

// All of the above, into the schedule. The hash is that of the trace as it is, so that a schedule is for one
// trace whatever order it chooses; births and deadlines count positions of the schedule's order, as its
// ordinals do.
void describe(const wire::Trace& trace, wire::Schedule* schedule);

}  // namespace terrace::planner
