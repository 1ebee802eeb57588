#include "daemon/planner/simulate/perfetto.h"

#include "daemon/planner/trace_events.h"

namespace terrace::planner {
namespace {

constexpr int compute_track = 1;
constexpr int stall_track = 2;
constexpr int first_queue_track = 3;

constexpr int one_process = 1;

std::string number(double value) { return TraceEvents::number(value); }

class Writer {
 public:
  Writer(const wire::Trace& trace, const Machine& machine) : trace_(trace), machine_(machine) {}

  std::string write(const SimulationReport& report) {
    order_ = &report.operations;
    name_tracks();
    for (std::size_t op = 0; op < report.ops.size(); ++op) operation(op, report.ops[op]);
    for (const ExtraWork& work : report.extra) extra(work);
    for (const Transfer& t : report.transfers) transfer(t);
    for (const MemorySample& sample : report.memory) memory(sample);
    return events_.text();
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  const std::vector<std::uint32_t>* order_ = nullptr;
  TraceEvents events_;

  // Of the trace, the operation at this position.
  std::size_t op_at(std::size_t position) const { return order_->empty() ? position : (*order_)[position]; }

  void name_track(int track, const std::string& name) { events_.name_track(one_process, track, name); }

  static std::string way_name(std::string source, const std::string& target) {
    return source.append(" to ").append(target);
  }

  void name_tracks() {
    events_.name_process(one_process, trace_.name + " on " + machine_.name);
    name_track(compute_track, "compute");
    name_track(stall_track, "stalls");
    for (std::uint32_t tier = 1; tier < machine_.tiers.size(); ++tier) {
      name_track(queue_track(tier, false), "to " + machine_.tiers[tier].name);
      name_track(queue_track(tier, true), "from " + machine_.tiers[tier].name);
    }
    for (std::uint32_t r = 0; r < machine_.far_routes.size(); ++r) {
      const std::string& near = machine_.tiers[machine_.far_routes[r].from].name;
      const std::string& far = machine_.tiers[machine_.far_routes[r].tier].name;
      name_track(stage_track({r, false}), way_name(near, far));
      name_track(stage_track({r, true}), way_name(far, near));
    }
  }

  static int queue_track(std::uint32_t tier, bool in) {
    return first_queue_track + static_cast<int>(tier - 1) * 2 + (in ? 1 : 0);
  }

  int stage_track(FarWay way) const {
    return queue_track(static_cast<std::uint32_t>(machine_.tiers.size()) + way.route, way.in);
  }

  int track_of(const Transfer& t) const {
    const auto way = machine_.far_way(t.from, t.tier);
    return way ? stage_track(*way) : queue_track(t.tier, t.in);
  }

  void slice(int track, const std::string& name, double start_us, double end_us, const std::string& args) {
    events_.slice(one_process, track, name, start_us, end_us, args);
  }

  void stall(const std::string& name, const OpTiming& timing) {
    if (timing.stalls.total_us() <= 0) return;
    slice(stall_track, name, timing.ready_us, timing.present_us,
          "\"late_prefetch_us\":" + number(timing.stalls.late_prefetch_us) + ",\"fetch_us\":" +
              number(timing.stalls.fetch_us) + ",\"room_us\":" + number(timing.stalls.room_us));
  }

  void operation(std::size_t position, const OpTiming& timing) {
    const std::size_t op = op_at(position);
    slice(compute_track, trace_.ops[op].name, timing.start_us, timing.end_us, "\"op\":" + std::to_string(op));
    stall(trace_.ops[op].name, timing);
  }

  void extra(const ExtraWork& work) {
    using Kind = ExtraWork::Kind;
    if (work.kind == Kind::drop) return;
    if (work.kind == Kind::wait) return stall("wait for " + tensor_name(work.tensors.at(0)), work.timing);
    const std::string name = work.kind == Kind::recompute  ? "recompute " + trace_.ops[op_at(work.op)].name
                             : work.kind == Kind::compress ? "compress " + tensor_name(work.tensors.at(0))
                                                           : "decompress " + tensor_name(work.tensors.at(0));
    slice(compute_track, name, work.timing.start_us, work.timing.end_us,
          "\"position\":" + std::to_string(work.position));
    stall(name, work.timing);
  }

  std::string tensor_name(std::uint32_t t) const { return "tensor " + std::to_string(trace_.tensors[t].id); }

  void transfer(const Transfer& t) {
    slice(track_of(t), tensor_name(t.tensor), t.start_us, t.end_us,
          "\"bytes\":" + std::to_string(t.stored_bytes) + ",\"queued_us\":" +
              number(t.start_us - t.queued_us) + ",\"on_demand\":" + (t.on_demand ? "true" : "false") +
              ",\"aborted\":" + (t.aborted ? "true" : "false"));
  }

  void memory(const MemorySample& sample) {
    for (std::size_t tier = 0; tier < sample.tier_bytes.size(); ++tier)
      events_.counter(one_process, "bytes in " + machine_.tiers[tier].name, sample.time_us, "bytes",
                      sample.tier_bytes[tier]);
  }
};

}  // namespace

std::string perfetto_json(const wire::Trace& trace, const Machine& machine, const SimulationReport& report) {
  return Writer(trace, machine).write(report);
}

}  // namespace terrace::planner
