// Random steps, machines and schedules, and small ones by hand.
#pragma once

#include <cstdint>
#include <random>

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner::test {

using Random = std::mt19937_64;

// A tensor of `bytes`; ids are their indices once they stand in a trace made by `step()`.
wire::TraceTensor tensor(std::uint64_t bytes, bool persistent = false);
wire::Trace step(std::vector<wire::TraceTensor> tensors, std::vector<wire::TraceOp> ops);
wire::TraceOp op(double time_us, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
                 std::uint64_t workspace_bytes = 0);

// gpu of `capacity` bytes and a host without limit, over one link of 1 byte/µs each way without latency.
Machine two_tiers(std::uint64_t capacity_bytes);

wire::Trace random_trace(Random& random, std::uint32_t ops, std::uint32_t tensors);
// Two or three tiers; tier 0 between the largest operation and somewhat over the most that lives.
Machine random_machine(Random& random, const wire::Trace& trace);
// A step of 5 to 44 operations and about as many tensors, a third of them gradients.
wire::Trace random_step(Random& random);
// The same machine with a last tier without limit, so that most plans can be carried out.
Machine roomy_machine(Random& random, const wire::Trace& trace);
// The same machine with a tier inside the first one, over a link of its own.
Machine with_tier_inside(Machine machine, double link_bytes_per_second);
// Entries anywhere in the tensors' lives, of all actions where they make sense.
wire::Schedule random_schedule(Random& random, const wire::Trace& trace, const Machine& machine,
                               std::uint32_t entries);

}  // namespace terrace::planner::test
