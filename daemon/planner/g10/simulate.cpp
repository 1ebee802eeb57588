// Kernels, one after the other, over the link's ticks; see g10.h.
#include <algorithm>
#include <optional>

#include "daemon/planner/g10/hints.h"
#include "daemon/planner/g10/link.h"
#include "daemon/planner/g10/stall.h"

namespace terrace::planner {
namespace g10 {
namespace {

constexpr std::uint64_t most_idle_ticks = std::uint64_t{1} << 40U;

class Simulation {
 public:
  Simulation(const Workload& workload, const G10Machine& machine, G10Policy policy);
  Result<G10Report> run();

 private:
  void begin();
  void finish_at(std::uint64_t time);
  void obey(const Hint& hint);
  void obey_hints();
  FaultedPages fault(std::uint32_t first, std::uint32_t last);
  bool ready() const;
  bool ticks_first() const;
  bool tick();
  bool jump(bool waiting);

  const Workload& workload_;
  const G10Machine& machine_;
  Link link_;
  PageStore& pages_;
  std::vector<Hint> hints_;
  std::size_t next_hint_ = 0;
  G10Report report_;
  std::uint32_t iteration_ = 0;
  std::uint32_t op_ = 0;
  std::uint64_t tick_time_ = 0;            // of the next tick
  std::uint64_t begin_time_ = 0;           // of the operation to begin, or that waits
  std::uint64_t scheduled_at_ = 0;         // when begin_time_ was set: breaks ties with a tick
  std::optional<std::uint64_t> earliest_;  // end of the waiting operation, if its pages come in time
};

Simulation::Simulation(const Workload& workload, const G10Machine& machine, G10Policy policy)
    : workload_(workload), machine_(machine), link_(workload, machine, policy), pages_(link_.pages()) {
  if (policy == G10Policy::deepum) hints_ = deepum_hints(workload, machine);
  if (policy == G10Policy::g10) hints_ = g10_hints(workload, machine);
  report_.ideal_cycles = workload.ideal_cycles;
}

// Pages in transfer are left alone. A release is instantaneous wherever the page lies.
void Simulation::obey(const Hint& hint) {
  for (std::uint32_t id = pages_.first_run(hint.tensor); id != no_run; id = pages_.run(id).after) {
    const Run& run = pages_.run(id);
    if (run.wait != Wait::none) continue;
    const bool in_gpu = run.place == Place::gpu;
    if (hint.move == Move::release) {
      if (run.place != Place::absent) id = pages_.move(id, run.pages, Place::absent, Wait::none);
    } else if (hint.move == Move::bring) {
      const Wait wait = run.place == Place::ssd    ? Wait::prefetch_ssd
                        : run.place == Place::host ? Wait::prefetch_host
                                                   : Wait::prealloc;
      if (!in_gpu) id = pages_.move(id, run.pages, run.place, wait);
    } else if (in_gpu) {
      id = pages_.move(id, run.pages, run.place,
                       hint.move == Move::evict_to_ssd ? Wait::evict_ssd : Wait::evict_host);
    }
  }
}

// Hints of the end of the iteration are obeyed at the begin of the next one.
void Simulation::obey_hints() {
  const auto kernels = static_cast<std::uint32_t>(workload_.kernels.size());
  for (std::size_t done = 0; done < hints_.size() && hints_[next_hint_].op % kernels == op_; ++done) {
    obey(hints_[next_hint_]);
    next_hint_ = (next_hint_ + 1) % hints_.size();
  }
}

// Queues the missing pages of needs[first, last).
FaultedPages Simulation::fault(std::uint32_t first, std::uint32_t last) {
  FaultedPages counted;
  for (std::uint32_t i = first; i < last; ++i) {
    const std::uint32_t tensor = workload_.kernels[op_].needs[i];
    counted.all += workload_.tensors[tensor].pages;
    for (std::uint32_t id = pages_.first_run(tensor); id != no_run; id = pages_.run(id).after) {
      const Run& run = pages_.run(id);
      if (run.wait != Wait::none || run.place == Place::gpu) continue;
      (run.place == Place::ssd ? counted.ssd : counted.other) += run.pages;
      const Wait wait = run.place == Place::ssd    ? Wait::fault_ssd
                        : run.place == Place::host ? Wait::fault_host
                                                   : Wait::fault_alloc;
      id = pages_.move(id, run.pages, run.place, wait);
    }
  }
  return counted;
}

bool Simulation::ready() const {
  if (pages_.faults() || pages_.awaited() > 0) return false;
  for (const std::uint32_t tensor : workload_.kernels[op_].needs) {
    for (std::uint32_t id = pages_.first_run(tensor); id != no_run; id = pages_.run(id).after) {
      if (pages_.run(id).place != Place::gpu) return false;
    }
  }
  return true;
}

void Simulation::begin() {
  const Kernel& kernel = workload_.kernels[op_];
  link_.begin_kernel(op_);
  obey_hints();
  if (ready()) return finish_at(begin_time_ + kernel.cycles);
  const FaultedPages inputs = fault(0, kernel.inputs);
  const FaultedPages outputs = fault(kernel.inputs, static_cast<std::uint32_t>(kernel.needs.size()));
  earliest_ = begin_time_ + stall_cycles(machine_, kernel, inputs, outputs) + kernel.cycles;
}

// Execution overlaps the stall: the end is the later of the last arrival and the modelled time.
void Simulation::finish_at(std::uint64_t time) {
  G10Iteration& iteration = report_.iterations[iteration_];
  iteration.op_ends.push_back(time);
  begin_time_ = time;
  earliest_.reset();
  if (++op_ < workload_.kernels.size()) return;
  const std::uint64_t before = iteration_ == 0 ? 0 : report_.iterations[iteration_ - 1].op_ends.back();
  iteration.cycles = time - before;
  op_ = 0;
}

// Of a tick and a begin at the same time, the one comes first that was scheduled first.
bool Simulation::ticks_first() const {
  if (earliest_ || tick_time_ != begin_time_) return earliest_ || tick_time_ < begin_time_;
  return scheduled_at_ + link_.budget().cycles >= tick_time_ && tick_time_ != 0;
}

// A tick that moved nothing is repeated until a kernel begins; false where that never happens.
bool Simulation::jump(bool waiting) {
  if (waiting) return false;
  const std::uint64_t cycles = link_.budget().cycles;
  if (begin_time_ > tick_time_) tick_time_ += (begin_time_ - tick_time_) / cycles * cycles;
  return true;
}

// False where the waiting operation can never get its pages.
bool Simulation::tick() {
  const std::uint64_t cycles = link_.budget().cycles;
  const bool waiting = earliest_.has_value();
  const std::uint64_t most = waiting ? most_idle_ticks : (begin_time_ - tick_time_) / cycles;
  if (pages_.idle()) {
    tick_time_ += cycles;
    return jump(waiting);
  }
  tick_time_ += link_.skip(most, waiting) * cycles;
  if (!waiting && tick_time_ >= begin_time_) return true;
  link_.tick(waiting);
  const std::uint64_t now = tick_time_;
  tick_time_ += cycles;
  if (!link_.moved()) return jump(waiting);
  if (!waiting || pages_.faults() || pages_.awaited() > 0) return true;
  link_.begin_kernel(op_);
  scheduled_at_ = now;
  finish_at(std::max(*earliest_, now));
  return true;
}

Result<G10Report> Simulation::run() {
  for (;;) {
    if (op_ == 0 && report_.iterations[iteration_].op_ends.size() == workload_.kernels.size() &&
        !ticks_first()) {
      report_.iterations[iteration_].traffic = link_.take_traffic();
      if (++iteration_ == report_.iterations.size()) break;
    }
    if (ticks_first()) {
      if (!tick()) return refused<G10Report>("a page never arrives: operation " + std::to_string(op_));
    } else {
      scheduled_at_ = begin_time_;
      begin();
    }
  }
  const auto& [first, second] = report_.iterations;
  report_.reported = first.cycles < second.cycles ? 0 : 1;
  report_.percent_of_ideal = 100.0 * static_cast<double>(report_.ideal_cycles) /
                             static_cast<double>(report_.iterations[report_.reported].cycles);
  return ok(std::move(report_));
}

}  // namespace

std::vector<Hint> deepum_hints(const Workload& workload, const G10Machine& machine) {
  std::vector<Hint> hints;
  const std::size_t kernels = workload.kernels.size();
  for (std::uint32_t op = 0; op < kernels; ++op) {
    // The artifact's set of needs lists the last one first.
    const auto& needs = workload.kernels[(op + std::size_t{machine.deepum_ahead}) % kernels].needs;
    for (std::size_t i = needs.size(); i-- > 0;) hints.push_back({op, Move::bring, needs[i]});
  }
  return hints;
}

}  // namespace g10

Result<G10Report> simulate_g10(const wire::Trace& trace, const G10Machine& machine, G10Policy policy,
                               std::span<const G10FaultTimes> fault_times) {
  auto workload = g10::make_workload(trace, machine, fault_times);
  if (!workload) return refused<G10Report>(std::move(workload.error));
  return g10::Simulation(*workload, machine, policy).run();
}

}  // namespace terrace::planner
