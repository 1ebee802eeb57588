// `terrace plan --job JOB`: a step of a job that runs, recorded, as what is planned.
#pragma once

#include <string>

#include "tools/cli/base/options.h"
#include "tools/cli/plan/plan_curve.h"
#include "tools/cli/plan/plan_load.h"
#include "tools/cli/timeline/job_machine.h"

namespace terrace::cli {

struct RecordedStep {
  PlanInput input;
  MeasuredPoint measured;
  JobMachine machine;   // its first tier has the job's budget
  std::string program;  // of the job's first process
  std::string about;    // what was recorded, and what of it the trace is
};

// Records the job that is named for options.seconds; Ctrl-C ends that before. exit_ok, or the exit code of
// what it has already said on standard error.
int record_step(const RecordOptions& options, RecordedStep* into);

}  // namespace terrace::cli
