#include "tools/cli/run/run_daemon.h"

#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/daemon/control_client.h"
#include "tools/cli/daemon/snapshot.h"
#include "tools/cli/run/private_daemon.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

// "terrace", of the socket there; its number where it has no name, "" where it cannot be seen.
std::string group_of(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return "";
  const group* entry = getgrgid(found.st_gid);
  return entry != nullptr ? entry->gr_name : fmt::format("{}", found.st_gid);
}

std::string may_not_use(const std::string& socket, int error) {
  const std::string group = group_of(socket);
  return fmt::format(
      "the service at {} may not be used: {}; have the administrator add you to {} (usermod --append "
      "--groups {} you, then log in again), or take a daemon of the job's own beside it: --private --dram "
      "SIZE",
      socket, std::strerror(error), group.empty() ? "its group" : "the group " + group,
      group.empty() ? "terrace" : group);
}

FoundDaemon cannot_use(const std::string& socket, int error, const std::string& why) {
  FoundDaemon found;
  found.brings_own = true;
  if (error == ENOENT || error == ENOTDIR) return found;  // this machine has no service
  if (error != EACCES && error != EPERM) {
    found.warning = fmt::format(
        "the service at {} does not answer: {}; the job gets a daemon of its own. See `systemctl status "
        "terraced`, or say --private to want that",
        socket, why);
    return found;
  }
  found.brings_own = false;
  found.refusal = may_not_use(socket, error);
  found.code = exit_permission;
  return found;
}

FoundDaemon find_service(const std::string& socket) {
  int error = 0;
  auto client = ControlClient::connect(socket, "", &error);
  if (!client) return cannot_use(socket, error, std::strerror(error));
  const auto answer = client->request({{"verb", "ping"}});
  if (!answer) return cannot_use(socket, EPROTO, answer.error);
  FoundDaemon found;
  found.daemon.socket = socket;
  return found;
}

std::optional<json> status_of(const std::string& socket) {
  if (socket.empty()) return std::nullopt;
  auto client = ControlClient::connect(socket);
  auto status = client ? client->request({{"verb", "status"}}) : refused<json>("");
  return status ? std::optional(std::move(*status)) : std::nullopt;
}

bool is_running(const json& status, const std::string& job) {
  const Rows rows = job_rows(status);
  return std::any_of(rows.begin(), rows.end(), [&](const json& row) { return row.value("job", "") == job; });
}

std::uint64_t left_of(const json& row, const char* capacity, const char* promised) {
  const auto whole = row.value(capacity, std::uint64_t{0});
  return whole - std::min(whole, row.value(promised, std::uint64_t{0}));
}

std::string refusal_of_dram(const json& row, const RunPlan& plan) {
  const auto whole = row.value("dram_capacity_bytes", std::uint64_t{0});
  const auto left = left_of(row, "dram_capacity_bytes", "dram_promised_bytes");
  if (!plan.dram_bytes || whole == 0 || left >= *plan.dram_bytes) return "";
  return fmt::format(
      "--dram {} cannot be met: the daemon at {} has {} left of {}; ask for at most that, or wait",
      exact_size(*plan.dram_bytes), row.value("socket", ""), size_at_most(left), size_at_most(whole));
}

std::uint64_t free_disk_of(const json& status) {
  for (const json& tier : tier_rows(status))
    if (tier.value("tier", "") == "nvme") return tier.value("free_bytes", ~std::uint64_t{0});
  return ~std::uint64_t{0};
}

std::string refusal_of_pool(const json& status, const json& row, const RunPlan& plan) {
  if (!plan.pool_bytes || !plan.pool_directories.empty() || !row.contains("pool_capacity_bytes")) return "";
  const auto left =
      std::min(left_of(row, "pool_capacity_bytes", "pool_promised_bytes"), free_disk_of(status));
  if (left >= *plan.pool_bytes) return "";
  return fmt::format(
      "--pool-size {} cannot be met: the daemon at {} has {} left in {}; ask for at most that, or name a "
      "directory of yours with --pool",
      exact_size(*plan.pool_bytes), row.value("socket", ""), size_at_most(left),
      row.value("pool_directory", "its pool"));
}

}  // namespace

FoundDaemon find_daemon(const RunOptions& options, const std::string& service_socket) {
  FoundDaemon found;
  if (options.disable) {
    found.daemon.why_not = "Terrace is disabled";
    return found;
  }
  found.brings_own = options.is_private;
  if (options.is_private) return found;
  if (options.socket.empty()) return find_service(service_socket);
  auto client = ControlClient::connect(
      options.socket, "name another with --socket, or leave it out: then 'terrace run' finds or brings one");
  found.daemon = {options.socket, client ? "" : client.error, ""};
  return found;
}

// Only a daemon of the job's own counts for it alone.
std::string refusal_of_writes(const RunPlan& plan) {
  if (!plan.writes_per_day || plan.offloads_to_drive) return "";
  return fmt::format(
      "--writes-per-day {} cannot be met: a daemon that serves other jobs, too, follows [pool] "
      "writes_per_day; leave the option out, or give the job a daemon of its own with --private",
      exact_size(*plan.writes_per_day));
}

// A job of this name that runs already has its share; what that allows is for the daemon to say.
std::string refusal_of(const std::string& socket, const RunPlan& plan) {
  const auto status = status_of(socket);
  if (!socket.empty())
    if (std::string refusal = refusal_of_writes(plan); !refusal.empty()) return refusal;
  if (!status) return plan.pool_directories.empty() ? check_pool_room({default_pool_directory}, plan) : "";
  if (is_running(*status, plan.job)) return "";
  const json row = status_row(*status);
  const std::string dram = refusal_of_dram(row, plan);
  return dram.empty() ? refusal_of_pool(*status, row, plan) : dram;
}

JobDaemon bring_daemon(const RunOptions& options, const RunPlan& plan, const InstallLayout& layout) {
  const auto program = layout.daemon();
  if (!program) return {"", program.error, ""};
  const auto dram = plan.dram_bytes ? plan.dram_bytes : plan.limit_bytes;
  // Over several directories the job makes its pool without the daemon, whose own stays unused.
  const bool stripes = plan.pool_directories.size() > 1;
  const std::string directory = plan.pool_directories.empty() ? "" : plan.pool_directories.front();
  const auto started =
      start_private_daemon({*program, dram, directory, stripes ? std::nullopt : plan.pool_bytes,
                            plan.writes_per_day, options.log});
  if (!started) return {"", started.error, ""};
  return {*started, "", program->string()};
}

// Directories that were named are obeyed under every daemon (Options::makes_own_pool()).
PoolList pool_directories_of(const JobDaemon& daemon, const RunPlan& plan) {
  if (!plan.pool_directories.empty()) return plan.pool_directories;
  const bool is_private = !daemon.program.empty();
  const auto status = is_private ? std::nullopt : status_of(daemon.socket);
  return {status ? status_row(*status).value("pool_directory", default_pool_directory)
                 : default_pool_directory};
}

}  // namespace terrace::cli
