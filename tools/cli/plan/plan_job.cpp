#include "tools/cli/plan/plan_job.h"

#include <fmt/format.h>

#include <memory>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/format.h"
#include "tools/cli/base/interruption.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/change/found_job.h"
#include "tools/cli/timeline/step_trace.h"

namespace terrace::cli {

namespace {

std::string about(const StepTrace& step, const Recording& recording) {
  const double seconds = static_cast<double>(recording.end_ns - recording.begin_ns) / 1e9;
  return fmt::format(
      "{}: recorded {:.1f} s; {} like steps of {} seen whole, {:.4g} s each, {:.4g} s of it waited; the "
      "budget was {}\ntouches of data that stayed in DRAM are not known: a plan may take such data for idle, "
      "and promise too much",
      recording.job, seconds, step.like, step.whole, step.mean_us / 1e6, step.mean_waited_us / 1e6,
      step.budget_bytes == 0 ? "not told" : bytes_text(step.budget_bytes));
}

void take(StepTrace step, const Recording& recording, RecordedStep* into) {
  into->about = about(step, recording);
  into->program = recording.program;
  into->measured = {step.budget_bytes, step.mean_us, step.mean_waited_us, step.moved_bytes, step.like};
  into->machine = job_machine(recording);
  if (step.budget_bytes != 0) into->machine.machine.tiers.front().capacity_bytes = step.budget_bytes;
  into->input.format = "recording";
  into->input.trace = std::make_unique<wire::Trace>(std::move(step.trace));
  into->input.instance = planner::instance_of(*into->input.trace);
}

int record_one(const RecordOptions& options, FoundJob& job, RecordedStep* into) {
  const Interruption interruption;
  const auto recording = record(job, options.seconds, [] { return !Interruption::seen(); });
  if (!recording) return complain(exit_no_daemon, recording.error);
  if (recording->missed != 0)
    complain(exit_ok, fmt::format("{} events were missed; steps that may have had them are left out",
                                  recording->missed));
  auto step = step_trace_of(*recording, history_of(*recording));
  if (!step) return complain(recording->hides_addresses ? exit_permission : exit_failure, step.error);
  take(std::move(*step), *recording, into);
  return exit_ok;
}

}  // namespace

int record_step(const RecordOptions& options, RecordedStep* into) {
  return with_named_job(options, [&](FoundJob& job) { return record_one(options, job, into); });
}

}  // namespace terrace::cli
