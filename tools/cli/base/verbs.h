// The verbs. They return an exit code (exit_code.h), print results on standard output and what
// went wrong on standard error, once, prefixed with "terrace: ".
#pragma once

#include "tools/cli/base/options.h"

namespace terrace::cli {

int run(const RunOptions& options);
int doctor(const DoctorOptions& options);
int status(const ViewOptions& options);
int jobs(const ViewOptions& options);
int tiers(const ViewOptions& options);
int events(const ViewOptions& options);
int top(const ViewOptions& options);
int set(const ChangeOptions& options);
int trim(const ChangeOptions& options);
int pause(const ChangeOptions& options);
int resume(const ChangeOptions& options);
int timeline(const RecordOptions& options);
int lifetimes(const RecordOptions& options);
int bench(const BenchOptions& options);
int plan(const PlanOptions& options);
int import_file(const ImportOptions& options);
int version(bool json);
int overview();  // bare `terrace`

}  // namespace terrace::cli
