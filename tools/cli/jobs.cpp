#include "tools/cli/snapshot.h"
#include "tools/cli/verbs.h"
#include "tools/cli/watch.h"

namespace terrace::cli {

int jobs(const ViewOptions& options) {
  return show(options, {"terrace-jobs", "jobs", job_columns(), job_rows, job_key});
}

}  // namespace terrace::cli
