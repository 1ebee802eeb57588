// Showing rows once or again and again, as a table, JSON, or JSON Lines: the loop behind status, jobs, tiers.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "tools/cli/base/options.h"
#include "tools/cli/terminal/table.h"

namespace terrace::cli {

struct View {
  const char* format;  // "terrace-jobs"
  const char* list;    // "jobs": the member of the JSON document that holds the rows
  std::span<const Column> columns;
  std::function<Rows(const nlohmann::json& status)> rows;  // of one daemon
  std::function<std::string(const nlohmann::json& row)> key;
};

// Asks the daemons and returns the exit code. With --watch the first rows say totals since the start, later
// ones rates; in JSON the totals stay and rates come beside them ("read_bytes_per_second").
int show(const ViewOptions& options, const View& view);

// Until --watch's count is reached or for ever; false when it is time to stop. Sleeps the interval in
// between.
class Pace {
 public:
  explicit Pace(const ViewOptions& options);
  bool next();
  double interval_seconds() const { return interval_; }

 private:
  double interval_ = 1;
  double left_ = 0;  // rows still to come; infinity without a count
};

}  // namespace terrace::cli
