#include <algorithm>

#include "daemon/planner/simulate/judge/check_parts.h"

namespace terrace::planner {
namespace {

using Kind = ExtraWork::Kind;

class WorkChecker {
 public:
  WorkChecker(const wire::Trace& trace, const SimulationReport& report) : trace_(trace), report_(report) {}

  std::string check() {
    if (report_.ops.size() != trace_.ops.size()) {
      return "the report tells of " + std::to_string(report_.ops.size()) + " operations, the trace of " +
             std::to_string(trace_.ops.size());
    }
    for (std::uint32_t op = 0; op <= trace_.ops.size() && wrong_.empty(); ++op) {
      before(op);
      if (op < trace_.ops.size() && wrong_.empty())
        run(report_.ops[op], "operation " + std::to_string(op), op);
    }
    if (wrong_.empty() && next_ != report_.extra.size()) wrong_ = "extra work stands out of order";
    return wrong_.empty() ? totals() : wrong_;
  }

 private:
  const wire::Trace& trace_;
  const SimulationReport& report_;
  std::size_t next_ = 0;  // of report_.extra
  double end_us_ = 0;     // of what came before
  double codec_us_ = 0, run_codec_us_ = 0, compute_us_ = 0, recompute_us_ = 0;
  Stalls stalls_;
  std::string wrong_;

  bool decompression(std::uint32_t position) const {
    return next_ < report_.extra.size() && report_.extra[next_].position == position &&
           report_.extra[next_].kind == Kind::decompress;
  }

  // Everything at a position but the operation itself and its own decompressions.
  void before(std::uint32_t op) {
    while (wrong_.empty() && next_ < report_.extra.size() && report_.extra[next_].position == op) {
      const std::size_t begin = next_;
      decompressions(op);
      if (next_ == report_.extra.size() || report_.extra[next_].position != op) return;  // they were the op's
      const ExtraWork& work = report_.extra[next_++];
      if (begin + 1 != next_ && work.kind != Kind::recompute) wrong_ = "a decompression serves no operation";
      one(work);
    }
  }

  void one(const ExtraWork& work) {
    if (work.kind == Kind::recompute) {
      if (work.op >= trace_.ops.size()) {
        wrong_ = "the recomputed operation does not exist";
        return;
      }
      run(work.timing, "recomputing operation " + std::to_string(work.op), work.op);
      compute_us_ -= trace_.ops[work.op].time_us;
      recompute_us_ += trace_.ops[work.op].time_us;
      return;
    }
    if (work.tensors.size() != 1 || work.tensors[0] >= trace_.tensors.size()) {
      wrong_ = "extra work does not name exactly one tensor";
      return;
    }
    ordered(work.timing, "extra work");
    if (!same(work.timing.stalls.total_us(), work.timing.present_us - work.timing.ready_us)) {
      wrong_ = "extra work waited longer or shorter than its stalls say";
    }
    if (work.kind == Kind::wait && !same(work.timing.end_us, work.timing.present_us)) {
      wrong_ = "a wait went on after its end";
    }
    if (work.kind == Kind::compress) codec_us_ += work.timing.end_us - work.timing.start_us;
    add(work.timing.stalls);
    end_us_ = work.timing.end_us;
  }

  // run_codec_us_ gathers those of the run that follows them in the list.
  void decompressions(std::uint32_t position) {
    run_codec_us_ = 0;
    for (; decompression(position); ++next_) {
      const ExtraWork& work = report_.extra[next_];
      if (work.tensors.size() != 1 || work.tensors[0] >= trace_.tensors.size()) {
        wrong_ = "a decompression does not name exactly one tensor";
      }
      run_codec_us_ += work.timing.end_us - work.timing.start_us;
    }
  }

  void ordered(const OpTiming& t, const std::string& name) {
    if (!(t.ready_us <= t.present_us && t.present_us <= t.end_us && t.start_us <= t.end_us)) {
      wrong_ = name + " was not ready, complete, started and ended in this order";
    } else if (!same(t.ready_us, end_us_)) {
      wrong_ = name + " was not ready when what came before it ended";
    }
  }

  void run(const OpTiming& t, const std::string& name, std::uint32_t op) {
    ordered(t, name);
    if (!wrong_.empty()) return;
    const double time_us = trace_.ops[op].time_us;
    const bool strict = report_.stall_rule == StallRule::strict;
    const double start_us = strict ? t.present_us + run_codec_us_ : t.ready_us;
    const double end_us =
        strict ? start_us + time_us : std::max(t.ready_us + time_us, t.present_us) + run_codec_us_;
    if (!same(t.start_us, start_us)) wrong_ = name + " did not start as soon as all its tensors were there";
    if (!same(t.end_us, end_us)) wrong_ = name + " did not take its time";
    const double waited_us =
        strict ? t.present_us - t.ready_us : std::max(0.0, t.present_us - t.ready_us - time_us);
    if (!same(t.stalls.total_us(), waited_us))
      wrong_ = name + " waited longer or shorter than its stalls say";
    add(t.stalls);
    compute_us_ += time_us;
    codec_us_ += run_codec_us_;
    run_codec_us_ = 0;
    end_us_ = t.end_us;
  }

  void add(const Stalls& s) {
    stalls_.late_prefetch_us += s.late_prefetch_us;
    stalls_.fetch_us += s.fetch_us;
    stalls_.room_us += s.room_us;
  }

  std::string totals() const {
    if (!same(report_.total_us, end_us_)) return "the total time is not the end of the last operation";
    if (!same(report_.compute_us, compute_us_)) return "compute_us is not the sum of the operations' times";
    if (!same(report_.recompute_us, recompute_us_))
      return "recompute_us is not the sum of what was recomputed";
    if (!same(report_.codec_us, codec_us_)) return "codec_us is not the sum of the codecs' times";
    const bool stalls = same(report_.stalls.late_prefetch_us, stalls_.late_prefetch_us) &&
                        same(report_.stalls.fetch_us, stalls_.fetch_us) &&
                        same(report_.stalls.room_us, stalls_.room_us);
    return stalls ? "" : "the stalls are not the sums of the operations' stalls";
  }
};

}  // namespace

std::string check_work(const wire::Trace& trace, const SimulationReport& report) {
  return WorkChecker(trace, report).check();
}

}  // namespace terrace::planner
