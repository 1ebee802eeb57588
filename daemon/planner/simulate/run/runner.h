// The computation's way through a step: it takes from the executor what the schedule wants next, asks the
// store for what each run names, waits, runs, lets go.
//
// Only the computation decides; transfers just end. So there is no queue of events: time moves to the next
// end of a transfer while the computation waits or runs. Between two items no time passes and no transfer
// starts: the next run's needs are known before freed memory is given away. simulate.cpp has the step,
// entries.cpp what the schedule asks for, runs.cpp operations and recomputations, told.cpp what the report
// tells.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/planner/simulate/program.h"
#include "daemon/planner/simulate/simulator.h"
#include "daemon/planner/simulate/store/store.h"

namespace terrace::planner {

enum class Content : std::uint8_t { none, held, dropped };

class Runner {
 public:
  Runner(const wire::Trace& trace, const Machine& machine, const wire::Schedule& schedule,
         const SimulationOptions& options, const Program& program)
      : trace_(trace),
        machine_(machine),
        schedule_(schedule),
        options_(options),
        p_(program),
        store_(trace, machine, schedule, program, options.victims),
        content_(trace.tensors.size(), Content::none),
        cursor_(trace.tensors.size(), 0) {}

  Result<SimulationReport> run();

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  const wire::Schedule& schedule_;
  const SimulationOptions& options_;
  const Program& p_;
  Store store_;
  std::vector<Content> content_;
  std::vector<std::uint32_t> cursor_;   // per tensor: uses of this step that are past
  std::vector<std::uint32_t> missing_;  // what the current run waits for
  std::vector<std::uint32_t> taken_;    // what it gives memory to
  std::uint64_t claim_ = 0;             // those and its extra bytes
  std::uint32_t step_ = 0;
  bool recording_ = false;
  double base_us_ = 0;
  SimulationReport report_;
  std::string error_;

  double now() const { return store_.now_us(); }
  bool fail(std::string why);
  std::string tensor_name(std::uint32_t t) const { return "tensor " + std::to_string(trace_.tensors[t].id); }
  std::string run_name(const Run& run) const;

  // --- begin and end of a step

  bool place_persistent();
  std::uint32_t first_tier_for(std::uint64_t bytes) const;
  bool step();
  void begin_report();
  // The order of Belady's rule: what is named again last is the smallest.
  std::int64_t belady_key(std::uint32_t t, std::uint32_t past_uses) const;

  // --- entries of the schedule
  bool obey(std::uint32_t index);
  bool redo(std::uint32_t index);
  void evict(std::uint32_t index);
  bool prefetch(std::uint32_t index);
  bool stage(std::uint32_t index);
  void drop(const wire::ScheduleEntry& e);
  void await(const wire::ScheduleEntry& e);
  // Holds the computation up: for the arrival if it is still coming, then for the codec.
  void compress(const wire::ScheduleEntry& e, std::uint32_t codec);
  void recode(std::uint32_t t, std::uint32_t codec);
  double decode_us(std::uint32_t t) const;

  // --- runs
  bool perform(std::uint32_t index);
  // Asks for what the run names, so that in the end it lies here; notes what has to be waited for.
  bool prepare(const Run& run, const Named& n);
  // The eviction that waits would send a coded form that the run changes, or decodes.
  bool outdated_by(const Named& n) const;
  bool wait(std::uint32_t index, OpTiming* timing);
  void take_extra(const Run& run);
  double& cause_of_wait(Stalls* stalls) const;
  // Asks for evictions until what is reserved will have room.
  bool make_room(std::uint32_t index);
  bool stuck(std::uint32_t index);
  // From "everything is here" to the end.
  void compute(std::uint32_t index, OpTiming* timing);
  // What it takes, all before the run; the tensors count as decoded.
  double decompress(std::uint32_t index);
  // Lets time pass while the computation is busy.
  void pass(double until_us);
  void finish(std::uint32_t index);

  // --- the report
  void add(const Stalls& stalls);
  void note(const Run& run, OpTiming timing);
  void log(ExtraWork::Kind kind, std::uint32_t position, std::uint32_t op, std::vector<std::uint32_t> tensors,
           const OpTiming& timing);
  OpTiming rebased(OpTiming timing) const;
};

}  // namespace terrace::planner
