// What of a run goes into the report.
#include "daemon/planner/simulate/run/runner.h"

namespace terrace::planner {

wire::Prediction prediction_of(const SimulationReport& report) {
  return {report.total_us, report.stalls.late_prefetch_us, report.stalls.fetch_us, report.stalls.room_us,
          report.tier_peak_bytes};
}

void Runner::add(const Stalls& stalls) {
  if (step_ + 1 != options_.steps) return;
  report_.stalls.late_prefetch_us += stalls.late_prefetch_us;
  report_.stalls.fetch_us += stalls.fetch_us;
  report_.stalls.room_us += stalls.room_us;
}

void Runner::note(const Run& run, OpTiming timing) {
  if (step_ + 1 != options_.steps) return;
  add(timing.stalls);
  if (run.again) {
    std::vector<std::uint32_t> kept;
    for (const Named& n : p_.names_of(static_cast<std::uint32_t>(&run - p_.runs.data()))) {
      if (n.writes) kept.push_back(n.tensor);
    }
    report_.recompute_us += run.time_us;
    log(ExtraWork::Kind::recompute, run.position, run.op, std::move(kept), timing);
    return;
  }
  report_.compute_us += run.time_us;
  if (recording_) report_.ops.push_back(rebased(timing));
}

void Runner::log(ExtraWork::Kind kind, std::uint32_t position, std::uint32_t op,
                 std::vector<std::uint32_t> tensors, const OpTiming& timing) {
  if (step_ + 1 != options_.steps) return;
  if (kind == ExtraWork::Kind::compress || kind == ExtraWork::Kind::decompress) {
    report_.codec_us += timing.end_us - timing.start_us;
  }
  if (recording_) report_.extra.push_back({kind, position, op, std::move(tensors), rebased(timing)});
}

OpTiming Runner::rebased(OpTiming timing) const {
  for (double* t : {&timing.ready_us, &timing.present_us, &timing.start_us, &timing.end_us}) *t -= base_us_;
  return timing;
}

}  // namespace terrace::planner
