// `terrace resume JOB`: the budget back, and then the job goes on. What it needs of its memory comes in as it
// is touched.
//
// A daemon that came after the job was stopped does not know it. The kernel does: the job is let go on, and
// finds that daemon by itself.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <iostream>

#include "tools/cli/base/format.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/change/found_job.h"
#include "tools/cli/change/job_processes.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

struct Resumed {
  std::string job;
  std::size_t processes = 0;
  std::uint64_t before = 0, after = 0;  // budgets; 0: not known
  bool has_daemon = true;
};

std::string budget_line(const ChangeOptions& options, const Resumed& resumed) {
  if (!resumed.has_daemon)
    return "no daemon answers, and until one does the job has no more than the budget that it was paused "
           "with";
  if (resumed.after == 0) return "the job asks its daemon for its budget itself";
  return fmt::format("DRAM budget {} -> {}", bytes_text(resumed.before, options.bytes),
                     bytes_text(resumed.after, options.bytes));
}

int print_resumed(const ChangeOptions& options, const Resumed& resumed) {
  if (options.json) {
    json document{
        {"format", "terrace-resume"}, {"version", 1}, {"job", resumed.job}, {"processes", resumed.processes}};
    if (resumed.before != 0) document["previous_bytes"] = resumed.before;
    if (resumed.after != 0) document["budget_bytes"] = resumed.after;
    std::cout << document.dump(2) << '\n';
    return exit_ok;
  }
  std::cout << fmt::format("{}: goes on, {} processes; {}\n", resumed.job, resumed.processes,
                           budget_line(options, resumed));
  return exit_ok;
}

uid_t user_of(const ChangeOptions& options) {
  uid_t uid = getuid();
  std::from_chars(options.uid.data(), options.uid.data() + options.uid.size(), uid);
  return uid;
}

// `why_not` says why no daemon has it.
int resume_unknown(const ChangeOptions& options, const Failure& why_not) {
  const char* variable = std::getenv("TERRACE_SOCKET");
  const std::string socket = options.socket.empty() && variable != nullptr ? variable : options.socket;
  const auto processes = processes_of({user_of(options), options.job, socket, {}});
  const std::size_t count = let_go_on(processes);
  if (count == 0) return complain(why_not.code, why_not.text);
  return print_resumed(options, {options.job, count, 0, 0, why_not.code != exit_no_daemon});
}

int resume_known(const ChangeOptions& options, FoundJob* job) {
  const std::uint64_t before = job->budget_bytes();
  const JobIdentity identity = identity_of(*job);
  if (const Failure failure = job->ask("resume"); failure.code != exit_ok)
    return complain(failure.code, fmt::format("resume {}: {}", job->name(), failure.text));
  const std::size_t count = let_go_on(processes_of(identity));
  return print_resumed(options, {job->name(), count, before, job->budget_bytes()});
}

}  // namespace

int resume(const ChangeOptions& options) {
  Failure failure;
  auto daemons = Daemons::find(options.socket);
  if (!daemons) return resume_unknown(options, {exit_no_daemon, daemons.error});
  auto found = find_job(options, &*daemons, &failure);
  if (failure.code == exit_not_found) return resume_unknown(options, failure);
  if (found.empty()) return complain(failure.code, failure.text);
  return resume_known(options, &found.front());
}

}  // namespace terrace::cli
