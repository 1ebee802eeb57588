// `terrace import FILE`: another program's record of a step as a trace of ours, and what could not be taken
// over.
#include <fmt/format.h>

#include <iostream>

#include "daemon/planner/trace_json.h"
#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/text_files.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/plan/plan_load.h"
#include "tools/cli/plan/plan_report.h"
#include "tools/import/import.h"

namespace terrace::cli {

namespace {

// A file of lifetimes has no operations; the trace gets one, without time, wherever the live set changes.
wire::Trace trace_of_lifetimes(const planner::Instance& instance) {
  import::Imported made = import::trace_of(instance);
  for (const std::string& note : made.notes) std::cerr << "  " << note << '\n';
  return std::move(made.trace);
}

int write_trace(const std::string& path, const wire::Trace& trace) {
  const std::string text = planner::trace_json(trace);
  if (path == "-") {
    std::cout << text;
    return std::cout.flush() ? exit_ok : exit_failure;
  }
  const std::string error = write_whole(path, text);
  if (!error.empty()) return complain(exit_failure, error);
  std::cerr << "wrote " << path << '\n';
  return exit_ok;
}

}  // namespace

int import_file(const ImportOptions& options) {
  const Loaded<PlanInput> input = load_plan_input(options.file, options.format);
  if (!input.result) return complain(input.exit_code, input.result.error);
  const PlanInput& read = *input.result;
  std::cerr << input_summary(read, false);
  for (const std::string& note : read.notes) std::cerr << "  " << note << '\n';
  if (options.out.empty()) return exit_ok;
  return write_trace(options.out, read.trace ? *read.trace : trace_of_lifetimes(read.instance));
}

}  // namespace terrace::cli
