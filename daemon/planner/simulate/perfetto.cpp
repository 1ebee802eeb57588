// Written event by event: a document tree of some 10^5 objects would take tens of times the text's memory.
#include "daemon/planner/simulate/perfetto.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace terrace::planner {
namespace {

constexpr int compute_track = 1;
constexpr int stall_track = 2;
constexpr int first_queue_track = 3;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

class Writer {
 public:
  Writer(const wire::Trace& trace, const Machine& machine) : trace_(trace), machine_(machine) {}

  std::string write(const SimulationReport& report) {
    name_tracks();
    for (std::size_t op = 0; op < report.ops.size(); ++op) operation(op, report.ops[op]);
    for (const ExtraWork& work : report.extra) extra(work);
    for (const Transfer& t : report.transfers) transfer(t);
    for (const MemorySample& sample : report.memory) memory(sample);
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events_ + "\n]}\n";
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  std::string events_;

  void event(const std::string& body) { events_ += (events_.empty() ? "{" : ",\n{") + body + "}"; }

  void name_track(int track, const std::string& name) {
    event("\"ph\":\"M\",\"pid\":1,\"tid\":" + std::to_string(track) +
          ",\"name\":\"thread_name\",\"args\":{\"name\":" + quoted(name) + "}");
  }

  void name_tracks() {
    event("\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":" +
          quoted(trace_.name + " on " + machine_.name) + "}");
    name_track(compute_track, "compute");
    name_track(stall_track, "stalls");
    for (std::uint32_t tier = 1; tier < machine_.tiers.size(); ++tier) {
      name_track(queue_track(tier, false), "to " + machine_.tiers[tier].name);
      name_track(queue_track(tier, true), "from " + machine_.tiers[tier].name);
    }
  }

  static int queue_track(std::uint32_t tier, bool in) {
    return first_queue_track + static_cast<int>(tier - 1) * 2 + (in ? 1 : 0);
  }

  void slice(int track, const std::string& name, double start_us, double end_us, const std::string& args) {
    event("\"ph\":\"X\",\"pid\":1,\"tid\":" + std::to_string(track) + ",\"name\":" + quoted(name) +
          ",\"ts\":" + number(start_us) + ",\"dur\":" + number(end_us - start_us) + ",\"args\":{" + args +
          "}");
  }

  void stall(const std::string& name, const OpTiming& timing) {
    if (timing.stalls.total_us() <= 0) return;
    slice(stall_track, name, timing.ready_us, timing.present_us,
          "\"late_prefetch_us\":" + number(timing.stalls.late_prefetch_us) + ",\"fetch_us\":" +
              number(timing.stalls.fetch_us) + ",\"room_us\":" + number(timing.stalls.room_us));
  }

  void operation(std::size_t op, const OpTiming& timing) {
    slice(compute_track, trace_.ops[op].name, timing.start_us, timing.end_us, "\"op\":" + std::to_string(op));
    stall(trace_.ops[op].name, timing);
  }

  void extra(const ExtraWork& work) {
    using Kind = ExtraWork::Kind;
    if (work.kind == Kind::drop) return;
    if (work.kind == Kind::wait) return stall("wait for " + tensor_name(work.tensors.at(0)), work.timing);
    const std::string name = work.kind == Kind::recompute  ? "recompute " + trace_.ops[work.op].name
                             : work.kind == Kind::compress ? "compress " + tensor_name(work.tensors.at(0))
                                                           : "decompress " + tensor_name(work.tensors.at(0));
    slice(compute_track, name, work.timing.start_us, work.timing.end_us,
          "\"position\":" + std::to_string(work.position));
    stall(name, work.timing);
  }

  std::string tensor_name(std::uint32_t t) const { return "tensor " + std::to_string(trace_.tensors[t].id); }

  void transfer(const Transfer& t) {
    slice(queue_track(t.tier, t.in), tensor_name(t.tensor), t.start_us, t.end_us,
          "\"bytes\":" + std::to_string(t.stored_bytes) + ",\"queued_us\":" +
              number(t.start_us - t.queued_us) + ",\"on_demand\":" + (t.on_demand ? "true" : "false") +
              ",\"aborted\":" + (t.aborted ? "true" : "false"));
  }

  void memory(const MemorySample& sample) {
    for (std::size_t tier = 0; tier < sample.tier_bytes.size(); ++tier) {
      event("\"ph\":\"C\",\"pid\":1,\"name\":" + quoted("bytes in " + machine_.tiers[tier].name) +
            ",\"ts\":" + number(sample.time_us) +
            ",\"args\":{\"bytes\":" + std::to_string(sample.tier_bytes[tier]) + "}");
    }
  }
};

}  // namespace

std::string perfetto_json(const wire::Trace& trace, const Machine& machine, const SimulationReport& report) {
  return Writer(trace, machine).write(report);
}

}  // namespace terrace::planner
