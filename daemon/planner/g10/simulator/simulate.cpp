// Kernels, one after the other, over the link's ticks; see g10.h.
#include <algorithm>
#include <optional>

#include "daemon/planner/g10/simulator/link.h"
#include "daemon/planner/g10/simulator/stall.h"

namespace terrace::planner {
namespace g10 {
namespace {

constexpr std::uint64_t most_idle_ticks = std::uint64_t{1} << 40U;

class Simulation {
 public:
  Simulation(const Workload& workload, const G10Machine& machine, const PageSchedule& schedule);
  Result<G10Report> run();

 private:
  void begin();
  void finish_at(std::uint64_t time);
  void obey(const PageScheduleEntry& entry);
  void obey_entries();
  FaultedPages fault(std::uint32_t first, std::uint32_t last);
  bool ready() const;
  bool ticks_first() const;
  bool tick();
  bool jump(bool waiting);

  const Workload& workload_;
  const G10Machine& machine_;
  Link link_;
  PageStore& pages_;
  std::span<const PageScheduleEntry> entries_;
  std::size_t next_entry_ = 0;
  G10Report report_;
  std::uint32_t iteration_ = 0;
  std::uint32_t op_ = 0;
  std::uint64_t tick_time_ = 0;            // of the next tick
  std::uint64_t begin_time_ = 0;           // of the operation to begin, or that waits
  std::uint64_t scheduled_at_ = 0;         // when begin_time_ was set: breaks ties with a tick
  std::optional<std::uint64_t> earliest_;  // end of the waiting operation, if its pages come in time
};

Simulation::Simulation(const Workload& workload, const G10Machine& machine, const PageSchedule& schedule)
    : workload_(workload),
      machine_(machine),
      link_(workload, machine, schedule.victims),
      pages_(link_.pages()),
      entries_(schedule.entries) {
  report_.ideal_cycles = workload.ideal_cycles;
}

// Pages in transfer are left alone. A release is instantaneous wherever the page lies.
void Simulation::obey(const PageScheduleEntry& entry) {
  for (std::uint32_t id = pages_.first_run(entry.tensor); id != no_run; id = pages_.run(id).after) {
    const Run& run = pages_.run(id);
    if (run.wait != Wait::none) continue;
    const bool in_gpu = run.place == Place::gpu;
    if (entry.action == PageAction::release) {
      if (run.place != Place::absent) id = pages_.move(id, run.pages, Place::absent, Wait::none);
    } else if (entry.action == PageAction::fetch) {
      const Wait wait = run.place == Place::ssd    ? Wait::prefetch_ssd
                        : run.place == Place::host ? Wait::prefetch_host
                                                   : Wait::prealloc;
      if (!in_gpu) id = pages_.move(id, run.pages, run.place, wait);
    } else if (in_gpu) {
      id = pages_.move(id, run.pages, run.place,
                       entry.action == PageAction::evict_to_ssd ? Wait::evict_ssd : Wait::evict_host);
    }
  }
}

// Entries of the end of the iteration are obeyed at the begin of the next one.
void Simulation::obey_entries() {
  const auto kernels = static_cast<std::uint32_t>(workload_.kernels.size());
  for (std::size_t done = 0; done < entries_.size() && entries_[next_entry_].op % kernels == op_; ++done) {
    obey(entries_[next_entry_]);
    next_entry_ = (next_entry_ + 1) % entries_.size();
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
  obey_entries();
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

// The first entry that the simulation cannot obey.
std::string check_entries(const Workload& workload, const PageSchedule& schedule) {
  std::uint32_t before = 0;
  for (std::size_t i = 0; i < schedule.entries.size(); ++i) {
    const PageScheduleEntry& entry = schedule.entries[i];
    const std::string place = "entry " + std::to_string(i) + " of the page schedule";
    if (entry.op < before) return place + " stands behind one of a later operation";
    if (entry.op > workload.kernels.size())
      return place + " names operation " + std::to_string(entry.op) + ", which the trace lacks";
    if (entry.tensor >= workload.tensors.size())
      return place + " names tensor " + std::to_string(entry.tensor) + ", which the trace lacks";
    before = entry.op;
  }
  return {};
}

}  // namespace
}  // namespace g10

Result<G10Report> simulate_g10(const wire::Trace& trace, const G10Machine& machine,
                               const PageSchedule& schedule, std::span<const G10FaultTimes> fault_times) {
  auto workload = g10::make_workload(trace, machine, fault_times);
  if (!workload) return refused<G10Report>(std::move(workload.error));
  std::string problem = g10::check_entries(*workload, schedule);
  if (!problem.empty()) return refused<G10Report>(std::move(problem));
  return g10::Simulation(*workload, machine, schedule).run();
}

}  // namespace terrace::planner
