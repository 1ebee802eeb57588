// The job that a user names, in the daemon that has it: what `set`, `trim`, `pause` and `resume` begin with.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/options.h"
#include "tools/cli/change/job_processes.h"
#include "tools/cli/daemon/control_client.h"

namespace terrace::cli {

// Why something was not done, and the exit code for it.
struct Failure {
  int code = exit_ok;  // exit_ok: it was done
  std::string text;
};

class FoundJob {
 public:
  FoundJob(ControlClient* client, nlohmann::json job) : client_(client), job_(std::move(job)) {}

  std::string name() const { return job_.value("job", ""); }
  std::uint32_t uid() const { return job_.value("uid", 0U); }
  const std::string& socket() const { return client_->socket_path(); }
  bool is_paused() const { return job_.value("paused", false); }
  std::uint64_t budget_bytes() const { return job_.value("budget_bytes", std::uint64_t{0}); }
  // Sums over its processes, as the daemon last heard of them.
  std::uint64_t total(const char* counter) const;
  const nlohmann::json& shown() const { return job_; }
  nlohmann::json processes() const { return job_.value("sessions", nlohmann::json::array()); }

  // Sends the verb about this job, with `more` arguments. What comes back of the job is what the functions
  // above then say.
  Failure ask(const char* verb, nlohmann::json more = nlohmann::json::object());
  // Of the last answer.
  const nlohmann::json& answer() const { return answer_; }
  // Looks again. False: the job has ended, or its daemon has.
  bool refresh();

 private:
  ControlClient* client_;  // of the Daemons it was found in
  nlohmann::json job_;
  nlohmann::json answer_;
};

// The caller's own job of that name, else the only one of another user's; --uid chooses. `failure` says why
// none is found, exit_not_found where daemons answered and no job of theirs is it.
std::vector<FoundJob> find_job(const ChangeOptions& options, Daemons* daemons, Failure* failure);
// Every job that the caller may change: his own, for root all.
std::vector<FoundJob> find_own_jobs(Daemons* daemons);

JobIdentity identity_of(const FoundJob& job);
// Does `change` to the one job that is named; or says why there is none, and that exit code.
int with_named_job(const ChangeOptions& options, const std::function<int(FoundJob&)>& change);

// The exit code for an error that a daemon answered with (errno).
int exit_code_for(int refused_with);

}  // namespace terrace::cli
