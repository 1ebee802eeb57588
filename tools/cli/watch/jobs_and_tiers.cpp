// `terrace jobs` and `terrace tiers`: the rows of a daemon's answer (snapshot.h) through the loop of watch.h.
#include "tools/cli/base/verbs.h"
#include "tools/cli/daemon/snapshot.h"
#include "tools/cli/watch/watch.h"

namespace terrace::cli {

int jobs(const ViewOptions& options) {
  return show(options, {"terrace-jobs", "jobs", job_columns(), job_rows, job_key});
}

int tiers(const ViewOptions& options) {
  return show(options, {"terrace-tiers", "tiers", tier_columns(), tier_rows, tier_key});
}

}  // namespace terrace::cli
