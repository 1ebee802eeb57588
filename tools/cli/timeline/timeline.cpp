// `terrace timeline JOB`: records what a running job does for some seconds, for a person to look at.
#include <fmt/format.h>

#include <iostream>
#include <numeric>

#include "daemon/planner/trace_json.h"
#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/format.h"
#include "tools/cli/base/interruption.h"
#include "tools/cli/base/text_files.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/timeline/history.h"
#include "tools/cli/timeline/page.h"
#include "tools/cli/timeline/recording.h"
#include "tools/cli/timeline/step_trace.h"

namespace terrace::cli {

namespace {

double waited_seconds(const History& history) {
  return std::accumulate(
      history.waits.begin(), history.waits.end(), 0.0,
      [](double sum, const ObjectWait& wait) { return sum + static_cast<double>(wait.ns) / 1e9; });
}

std::string told(const Recording& recording, const History& history) {
  const double seconds = static_cast<double>(recording.end_ns - recording.begin_ns) / 1e9;
  return fmt::format("{}: {:.1f} s, {} events, {} objects, {} steps, at most {} live, waited {:.3f} s{}\n",
                     recording.job, seconds, recording.events.size(), history.objects.size(),
                     history.steps.size(), bytes_text(history.peak_bytes), waited_seconds(history),
                     recording.has_ended ? "; the job has ended" : "");
}

int write_trace(const std::string& path, const Recording& recording, const History& history) {
  const auto step = step_trace_of(recording, history);
  if (!step)
    return complain(recording.hides_addresses ? exit_permission : exit_failure,
                    "--trace was not written: " + step.error);
  if (const std::string error = write_whole(path, planner::trace_json(step->trace)); !error.empty())
    return complain(exit_failure, error);
  std::cout << fmt::format("wrote {}: {} operations, {} tensors, of {} like steps\n", path,
                           step->trace.ops.size(), step->trace.tensors.size(), step->like);
  return exit_ok;
}

int write_all(const RecordOptions& options, const Recording& recording, const History& history) {
  std::string error;
  if (!options.html.empty()) error = write_whole(options.html, html_of(recording, history));
  if (error.empty() && !options.perfetto.empty())
    error = write_whole(options.perfetto, perfetto_of(recording, history));
  if (!error.empty()) return complain(exit_failure, error);
  std::cout << told(recording, history);
  for (const std::string& path : {options.html, options.perfetto})
    if (!path.empty()) std::cout << "wrote " << path << '\n';
  return options.trace.empty() ? static_cast<int>(exit_ok) : write_trace(options.trace, recording, history);
}

int record_timeline(const RecordOptions& options, FoundJob& job) {
  const Interruption interruption;
  const auto recording = record(job, options.seconds, [] { return !Interruption::seen(); });
  if (!recording) return complain(exit_no_daemon, recording.error);
  if (recording->missed != 0)
    complain(exit_ok, fmt::format("{} events were missed: {} outran the daemon's journal", recording->missed,
                                  job.name()));
  if (recording->hides_addresses)
    complain(exit_ok, fmt::format("{} is another user's: only memory and traffic are told", job.name()));
  return write_all(options, *recording, history_of(*recording));
}

}  // namespace

int timeline(const RecordOptions& options) {
  if (options.html.empty() && options.perfetto.empty() && options.trace.empty())
    return complain(exit_usage,
                    "timeline: say where to write it: --html FILE, a page for a browser, --perfetto FILE, "
                    "for ui.perfetto.dev, or --trace FILE, for 'terrace plan'");
  return with_named_job(options, [&](FoundJob& job) { return record_timeline(options, job); });
}

}  // namespace terrace::cli
