#include "tools/cli/change/found_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tools/cli/base/nearest.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

std::vector<FoundJob> jobs_of(Daemons* daemons) {
  std::vector<FoundJob> all;
  for (ControlClient& client : daemons->all()) {
    const auto status = client.request({{"verb", "status"}});
    const json jobs = status ? status->value("jobs", json::array()) : json::array();
    for (const json& job : jobs)
      if (job.is_object()) all.emplace_back(&client, job);
  }
  return all;
}

std::string no_such_job(const ChangeOptions& options, Daemons* daemons, const std::vector<FoundJob>& all) {
  std::vector<std::string> names, sockets;
  names.reserve(all.size());
  sockets.reserve(daemons->all().size());
  for (const FoundJob& job : all) names.push_back(job.name());
  for (const ControlClient& client : daemons->all()) sockets.push_back(client.socket_path());
  return fmt::format("no job '{}'{} runs under the daemon at {}{} 'terrace jobs' lists them", options.job,
                     options.uid.empty() ? "" : " of user " + options.uid, fmt::join(sockets, ", "),
                     did_you_mean(options.job, names));
}

std::string several_jobs(const ChangeOptions& options, const std::vector<FoundJob>& found) {
  std::vector<std::string> places;
  places.reserve(found.size());
  for (const FoundJob& job : found)
    places.push_back(fmt::format("user {}'s under {}", job.uid(), job.socket()));
  return fmt::format("several jobs are called '{}': {}; choose by --uid UID or --socket PATH", options.job,
                     fmt::join(places, ", "));
}

}  // namespace

int exit_code_for(int refused_with) {
  switch (refused_with) {
    case 0:
      return exit_no_daemon;  // none answered
    case EPERM:
      return exit_permission;
    case ENOENT:
      return exit_not_found;
    default:
      return exit_usage;  // a request that cannot be met
  }
}

std::uint64_t FoundJob::total(const char* counter) const {
  const json totals = job_.value("totals", json::object());
  return totals.value(counter, std::uint64_t{0});
}

Failure FoundJob::ask(const char* verb, json more) {
  more.update({{"verb", verb}, {"job", name()}, {"uid", uid()}});
  const auto answer = client_->request(more);
  if (!answer) return {exit_code_for(client_->refused_with()), answer.error};
  answer_ = *answer;
  if (answer_.contains("job") && answer_.at("job").is_object()) job_ = answer_.at("job");
  return {};
}

bool FoundJob::refresh() {
  const auto status = client_->request({{"verb", "status"}});
  const json jobs = status ? status->value("jobs", json::array()) : json::array();
  for (const json& job : jobs)
    if (job.is_object() && job.value("job", "") == name() && job.value("uid", 0U) == uid()) {
      job_ = job;
      return true;
    }
  return false;
}

JobIdentity identity_of(const FoundJob& job) {
  JobIdentity identity{job.uid(), job.name(), job.socket(), {}};
  for (const json& process : job.processes()) identity.in_session.push_back(process.value("pid", 0));
  return identity;
}

std::vector<FoundJob> find_job(const ChangeOptions& options, Daemons* daemons, Failure* failure) {
  const std::vector<FoundJob> all = jobs_of(daemons);
  std::vector<FoundJob> named, own;
  for (const FoundJob& job : all) {
    if (job.name() != options.job) continue;
    if (!options.uid.empty() && std::to_string(job.uid()) != options.uid) continue;
    named.push_back(job);
    if (job.uid() == getuid()) own.push_back(job);
  }
  std::vector<FoundJob>& found = own.empty() ? named : own;
  if (found.empty()) *failure = {exit_not_found, no_such_job(options, daemons, all)};
  if (found.size() > 1) *failure = {exit_usage, several_jobs(options, found)};
  return found.size() == 1 ? std::move(found) : std::vector<FoundJob>{};
}

std::vector<FoundJob> find_own_jobs(Daemons* daemons) {
  std::vector<FoundJob> all = jobs_of(daemons);
  if (getuid() != 0) std::erase_if(all, [](const FoundJob& job) { return job.uid() != getuid(); });
  return all;
}

int with_named_job(const ChangeOptions& options, const std::function<int(FoundJob&)>& change) {
  auto daemons = Daemons::find(options.socket);
  if (!daemons) return complain(exit_no_daemon, daemons.error);
  Failure failure;
  auto found = find_job(options, &*daemons, &failure);
  return found.empty() ? complain(failure.code, failure.text) : change(found.front());
}

}  // namespace terrace::cli
