#include "tools/cli/snapshot.h"
#include "tools/cli/verbs.h"
#include "tools/cli/watch.h"

namespace terrace::cli {

int tiers(const ViewOptions& options) {
  return show(options, {"terrace-tiers", "tiers", tier_columns(), tier_rows, tier_key});
}

}  // namespace terrace::cli
