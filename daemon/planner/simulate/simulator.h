// What a step takes on a machine under a schedule: time, stalls by cause, bytes per link, memory per tier.
//
// Event-driven. The schedule is carried out by the same executor as in a job
// (liballoc/wire/schedule/executor.h); here is what stands around it: time, memory, and where things lie.
// Operations run one after the other; one starts when everything that it names lies in tier 0
// and its outputs and workspace have room there. Each route has one queue per direction, in the schedule's
// order; routes that share a link share its bandwidth fairly; a transfer costs latency + stored bytes / rate.
// Codecs and recomputation take compute time. What the schedule leaves open is decided by `victims`: with
// none, an operation whose memory does not come free by scheduled transfers is an error (the plan does not
// fit); with a rule, victims are evicted on demand, as a pager would. Missing tensors are fetched on demand
// under either. Pure: no clock, no I/O, deterministic.
//
// Rules, where the schedule's words leave room:
// * Moving out frees tier 0 at the transfer's end; the receiving side is taken at its start. Operations may
//   read what is on its way out (its memory then stays until they end) but not write it. Whoever dies or is
//   dropped in transfer ends the transfer.
// * Moving in leaves a clean copy in the tier that it came from. It is valid, and takes room there, until an
//   operation that writes the tensor runs, the tensor dies or is dropped, it is compressed anew, or leaves
//   for another tier. An eviction to the copy's tier moves nothing and frees tier 0 at once, or when the
//   operation that is next and reads it has ended; victims go where their copy is. An eviction that finds its
//   tier full takes the room of copies whose tensors lie in tier 0, oldest copy first.
// * An eviction or prefetch of what already lies, or is on its way, where it should be does nothing; it calls
//   off an opposite transfer that still waits in its queue.
// * Memory goes to the waiting operation first: a prefetch that it does not need starts only if room for it
//   remains. With a victim rule a fetch on demand overtakes waiting prefetches; prefetches never evict.
// * A tensor lives until the last operation or recomputation that names it. The first operation that names a
//   non-persistent tensor needs only memory; an output that is not an input is written whole, and what it
//   held before need not be fetched. Empty tensors never move.
// * A stage moves what is away on to another far tier, in the form in which it lies; there is a far route, or
//   the plan is refused, but for persistent tensors and where a rule for victims may have changed the tier.
//   Its room is taken when it starts, that of the tier it comes from is free when it ends. What is in tier 0
//   and does not leave it is not staged. Who asks for the tensor calls off a stage that waits, and waits for
//   one that is under way; a new one takes the place of one that waits.
// * A wait holds the computation up while a transfer of the tensor is under way, or is asked for and another
//   one is under way that may let it start. It never ends a step: what nothing can start is not waited for.
// * Codecs stream (no staging memory): compressing holds up the computation at the entry's position,
//   decompression takes place before the first operation that names the tensor. A codec that overlaps does
//   neither: it works while the transfer is under way, which takes at least the codec's time for the content.
// * Recompute entries in a row that name outputs of one operation share one run; its other outputs take
//   memory during the run only. Its inputs must be unchanged since. What was updated in place is made again
//   from the operation that wrote it whole on, update by update, 32 operations at most, in one go: no older
//   content is left for others to read.
// * Operations run in the order that the schedule has, else in the trace's; all positions count in that
// order.
// * An operation takes the time and workspace of the variant that the schedule names, also when it is made
//   again; without one those of the trace.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/planner/machine.h"
#include "liballoc/wire/result.h"
#include "liballoc/wire/schedule/schedule.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

enum class Victims : std::uint8_t {
  none,   // the schedule decides everything
  lru,    // least recently named by an operation
  fifo,   // least recently arrived (what G10's artifact calls LRU)
  belady  // named again last
};

enum class StallRule : std::uint8_t {
  strict,     // an operation starts when its data has arrived, and then takes its time
  overlapped  // it ends at max(arrival, start + time): G10's rule, MODEL.md 3.4
};

struct SimulationOptions {
  Victims victims = Victims::none;
  StallRule stall_rule = StallRule::strict;
  std::uint32_t steps = 1;       // the last one is reported, starting from the state that the one before left
  bool record_timeline = false;  // fills the timeline below
  // Where persistent tensors lie before the first step; those without room, in order of index, go to the next
  // tier that has some.
  std::uint32_t initial_tier = 0;
  bool with_bounds = true;  // false leaves SimulationReport::bounds empty, for who simulates one step often
};

struct Stalls {
  double late_prefetch_us = 0;  // a scheduled prefetch was under way
  double fetch_us = 0;          // nothing had been scheduled: fetched on demand
  double room_us = 0;           // memory was full; an eviction had to end first
  double total_us() const { return late_prefetch_us + fetch_us + room_us; }
};

struct LinkUse {
  double in_bytes = 0, out_bytes = 0;
  double in_busy_us = 0, out_busy_us = 0;
};

struct LowerBounds {
  std::uint64_t max_live_bytes = 0;    // no placement in one memory is smaller
  std::uint64_t largest_op_bytes = 0;  // tier 0 cannot be smaller, whatever moves or rests as bits
  double compute_us = 0;               // sum of the operations' times
  double transfer_us =
      0;  // what exceeds tier 0 must leave and return over its links; infinite: no room for it
  double critical_path_us = 0;  // longest chain of dependent operations
  // No step in the order of the trace given is faster that neither drops and recomputes nor compresses:
  // before the fullest operation ends the excess has left, and only then it returns.
  double step_us = 0;
};

struct OpTiming {
  double ready_us = 0;    // what was before it in the order ended
  double present_us = 0;  // everything lay in tier 0, and it took its memory
  double start_us = 0, end_us = 0;
  Stalls stalls;
};

// What the computation did beside the operations, in order; also drops, which take no time, and waits,
// which take none of the processor's.
struct ExtraWork {
  enum class Kind : std::uint8_t { recompute, compress, decompress, drop, wait };
  Kind kind = Kind::drop;
  std::uint32_t position = 0;          // before this operation; of a decompression: after it was present
  std::uint32_t op = 0;                // recompute: which, by its position
  std::vector<std::uint32_t> tensors;  // recompute: those kept; otherwise the one
  OpTiming timing;
};

struct Transfer {
  std::uint32_t tensor = 0;
  std::uint32_t tier = 0;  // the far end
  bool in = false;         // towards tier 0
  bool on_demand = false;
  bool aborted = false;  // the tensor died or was dropped meanwhile
  std::uint64_t stored_bytes = 0;
  double queued_us = 0, start_us = 0, end_us = 0;  // below 0: in the step before
  // 0: between tier 0 and `tier`. Else it goes from this tier to `tier` and passes by tier 0; `in` says which
  // direction of the links it takes.
  std::uint32_t from = 0;
};

// What takes memory of tier 0, from one change of it to another. Changes are numbered from 1 in the order in
// which they happened, so that what shares an instant is told apart. A stay of no length lies between two
// changes of one instant, and takes memory all the same.
struct Stay {
  static constexpr std::uint32_t of_a_run = 0xffffffffU;    // workspace, or an output that nobody keeps
  static constexpr std::uint32_t to_the_end = 0xffffffffU;  // it lies there as the step ends

  std::uint32_t tensor = of_a_run;
  bool coded = false;  // its coded form, in the tier inside tier 0
  std::uint64_t bytes = 0;
  std::uint32_t from = 0;  // 0: it lay there as the step began
  std::uint32_t until = to_the_end;
  double from_us = 0, until_us = 0;
};

struct MemorySample {
  double time_us = 0;
  std::vector<std::uint64_t> tier_bytes;
};

// Where a persistent tensor lay when the reported step began; one in transfer at the transfer's origin.
struct Residence {
  std::uint32_t tensor = 0;
  std::uint32_t tier = 0;
  std::uint64_t stored_bytes = 0;  // of its coded form, if it has one
  std::uint32_t copy_tier = 0;     // in tier 0 with a clean copy there; 0: without
  std::uint64_t copy_bytes = 0;
};

// What became of a clean copy, but for writes, deaths and drops, with which it ends by itself.
struct CopyUse {
  enum class Kind : std::uint8_t {
    left_to_it,  // the tensor's memory in tier 0 became free: the copy is the tensor now
    gave_way  // the copy's room went to an eviction, or the tensor leaves for another tier or in another form
  };
  Kind kind = Kind::left_to_it;
  std::uint32_t tensor = 0;
  double time_us = 0;
  std::uint32_t runs_ended = 0;  // operations and recomputations of the step until then
};

struct SimulationReport {
  double total_us = 0;
  StallRule stall_rule = StallRule::strict;
  double compute_us = 0, recompute_us = 0, codec_us = 0;
  Stalls stalls;
  std::vector<LinkUse> links;                  // as Machine::links
  std::vector<std::uint64_t> tier_peak_bytes;  // as Machine::tiers
  LowerBounds bounds;                          // of the step in the order below
  std::vector<wire::VariantChoice> variants;   // as the schedule has them
  std::vector<std::uint32_t> operations;       // as well: in this order `ops` tells of them
  // The timeline, if asked for; time 0 is the reported step's begin.
  std::vector<Residence> start;
  std::vector<OpTiming> ops;
  std::vector<ExtraWork> extra;
  std::vector<CopyUse> copies;       // in order
  std::vector<Transfer> transfers;   // as they begin; those under way at the end are told to their end
  std::vector<MemorySample> memory;  // after each change, to the step's end
  std::vector<Stay> stays;           // of tier 0, as they begin
};

// Bounds that hold for every schedule under both stall rules, except as said at the fields; of an operation
// with variants count the least time and the least workspace. All but compute_us, critical_path_us and
// largest_op_bytes are of the trace's order: for a schedule with another one give the step in that order.
LowerBounds lower_bounds(const wire::Trace& trace, const Machine& machine);

// The report, or which entry of the schedule or which operation cannot be carried out, and why.
Result<SimulationReport> simulate(const wire::Trace& trace, const Machine& machine,
                                  const wire::Schedule& schedule, const SimulationOptions& options = {});

// What a report says, as a schedule carries it to whoever runs it.
wire::Prediction prediction_of(const SimulationReport& report);

// What is wrong with a schedule, empty if nothing. Independent of simulate(): it looks at a report's timeline
// alone, and checks that every operation had its inputs, each instant's memory, one transfer at a time per
// queue, bandwidths, that content was written before it was read, and that the totals are those of the
// timeline.
std::string check_timeline(const wire::Trace& trace, const Machine& machine, const SimulationReport& report);

// A schedule, and the rule that decides what it leaves open: one without the other says nothing about a step.
struct SwapPlan : wire::Schedule {
  Victims victims = Victims::none;
};

// The second of two steps under the plan, which repeats: what persists has found its place. As a policy that
// tries plans compares them; without bounds. Fails as simulate() does.
Result<SimulationReport> simulate_repeated(const wire::Trace& trace, const Machine& machine,
                                           const wire::Schedule& schedule, Victims victims,
                                           bool record_timeline = false);

// How a search is steered. The planner has no clock: work is bounded by the number of plans that are tried.
struct SwapControl {
  std::uint64_t seed = 0;
  double effort = 1;           // times as many plans as the policy tries by itself
  std::function<bool()> stop;  // asked before each plan that is tried but the first; empty: never
  // A plan of the same step for other times, budgets or links. `joint` begins with it and with no other, if
  // it can still be carried out. Null: none.
  const SwapPlan* from = nullptr;
  bool keeps_order = false;  // the operations run as the trace has them
  bool stopped() const { return stop && stop(); }
};

// What of a plan is compressed: moves over links (policies/compressing.h), or what rests where it lies
// (policies/gist.h).
enum class Coding : std::uint8_t {
  as_planned,     // those moves that the policy gives a codec, if it knows any
  always,         // every eviction of a sparse tensor: cDMA
  where_it_pays,  // where that is predicted to be faster, and the simulated step is: CSWAP
  in_place        // every sparse tensor between forward and backward, inside tier 0: Gist
};

// A way to decide what moves when. Exactly one of `solve` and `search` is set. Pure: no clock, no I/O,
// deterministic for a seed. A policy that searches is anytime: stopped, it answers the best so far.
struct SwapPolicy {
  std::string name;
  const char* family;
  const char* source;
  Victims victims;  // of what `solve` answers
  Result<wire::Schedule> (*solve)(const wire::Trace&, const Machine&);
  Result<SwapPlan> (*search)(const wire::Trace&, const Machine&, const SwapControl&) = nullptr;
  bool chooses_variants = false;  // others leave every operation as it is
  Coding coding = Coding::as_planned;

  // The plan, with all that a schedule says of its period but the prediction; or why this policy has none for
  // this step.
  Result<SwapPlan> plan(const wire::Trace& trace, const Machine& machine,
                        const SwapControl& control = {}) const;
  bool moves_on_demand_only() const;  // by itself it schedules nothing
};

// Every policy, in the order of the table of `terrace plan --policy all`. The published ones are the table
// without its last entry, which searches from the best of them.
std::vector<SwapPolicy> published_swap_policies();
std::vector<SwapPolicy> swap_policies();

// The policy of that name: one of the above; or "NAME+cdma" or "NAME+cswap", which compresses the moves of
// NAME's plan, for every NAME that plans its moves; or "NAME+gist", for which NAME plans a step whose sparse
// tensors rest encoded. Not of what compresses by such a rule already. Or why there is none, and what to ask
// for instead.
Result<SwapPolicy> swap_policy(const std::string& name);

}  // namespace terrace::planner
