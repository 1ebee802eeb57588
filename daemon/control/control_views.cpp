// What the daemon knows, as JSON: bytes and nanoseconds, counters under the names of struct
// terrace_statistics, unknown values left out.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "daemon/base/machine.h"
#include "daemon/base/size.h"
#include "daemon/control/control.h"
#include "daemon/control/tier_views.h"

namespace terrace::daemon {
namespace {

using nlohmann::json;

json view_counters(const Counters& counters) {
  json object = json::object();
  for (std::size_t i = 0; i < wire::stat_count; ++i) {
    const auto stat = static_cast<wire::Stat>(i);
    if (wire::is_counter(stat)) object[wire::name_of(stat)] = counters[i];
  }
  return object;
}

void put_known(json& object, const char* name, const char* value) {
  if (value != nullptr) object[name] = value;
}

void put_nonzero(json& object, const char* name, std::uint64_t value) {
  if (value != 0) object[name] = value;
}

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// Today's, and what is left of them where they are limited.
void put_writes(json& tier, const Writes& writes) {
  tier["written_today_bytes"] = minus(writes.today_bytes(), writes.ahead_bytes());
  if (const auto unreported = writes.unreported_bytes()) tier["unreported_today_bytes"] = *unreported;
  if (writes.limit_bytes() == no_limit) return;
  tier["writes_per_day_bytes"] = writes.limit_bytes();
  tier["writes_left_bytes"] = writes.left_bytes() + writes.ahead_bytes();
}

void put_states(json& object, const Counters& counters) {
  const auto value = [&](wire::Stat stat) { return counters[static_cast<std::size_t>(stat)]; };
  put_known(object, "phase", wire::name_of(static_cast<wire::Phase>(value(wire::Stat::phase))));
  put_known(object, "pager", wire::name_of(static_cast<wire::Pager>(value(wire::Stat::pager))));
  put_known(object, "mover", wire::name_of(static_cast<wire::Mover>(value(wire::Stat::mover))));
  put_known(object, "io", wire::name_of(static_cast<wire::Io>(value(wire::Stat::io))));
  put_nonzero(object, "cgroup_usage_bytes", value(wire::Stat::cgroup_usage_bytes));
  put_nonzero(object, "cgroup_limit_bytes", value(wire::Stat::cgroup_limit_bytes));
}

// What the steps took since the plan was sent, where any were.
std::optional<double> measured_step_seconds(const Session& session) {
  const SessionPlan& plan = session.plan;
  const std::uint64_t steps = minus(session.counter(wire::Stat::steps), plan.steps_before);
  if (steps == 0) return std::nullopt;
  return seconds(minus(session.counter(wire::Stat::steps_ns), plan.steps_ns_before)) /
         static_cast<double>(steps);
}

// What became of the last period that the process sent.
void put_plan(json& object, const Session& session) {
  const SessionPlan& plan = session.plan;
  if (!plan.policy.empty()) object["policy"] = plan.policy;
  if (!plan.refusal.empty()) object["plan_refusal"] = plan.refusal;
  if (!plan.is_there()) return;
  json view{{"phase", plan.phase},
            {"period_hash", fmt::format("{:016x}", plan.period_hash)},
            {"entries", plan.entries},
            {"budget_bytes", plan.budget_bytes},
            {"predicted_step_seconds", plan.predicted_step_seconds},
            {"on_demand_step_seconds", plan.on_demand_step_seconds}};
  if (const auto measured = measured_step_seconds(session)) view["measured_step_seconds"] = *measured;
  object["plan"] = std::move(view);
}

json view_session(const ControlContext& context, const Session& session) {
  json object{
      {"id", session.id()},
      {"pid", session.peer().pid},
      {session.is_engine() ? "device" : "program", session.is_engine() ? session.device : session.program()},
      {"reattached", session.reattached},
      {"granted_bytes", context.registry.arbiter().granted_bytes(session.id())},
      {"lost_events", session.lost_events()},
      {"statistics", view_counters(session.counters())}};
  put_nonzero(object, "pool_capacity_bytes", context.registry.pools().capacity_bytes(session.id()));
  put_nonzero(object, "pool_limit_bytes", context.registry.pools().limit_bytes(session.id()));
  if (const auto counted = session.kernel_resident_bytes()) object["kernel_resident_bytes"] = *counted;
  if (const auto disk = context.registry.pools().disk_bytes(session.id())) object["pool_disk_bytes"] = *disk;
  if (context.registry.arbiter().is_restrained(session.id())) object["restrained"] = true;
  put_states(object, session.counters());
  put_plan(object, session);
  const std::uint64_t heartbeat_ns = session.counter(wire::Stat::heartbeat_ns);
  if (heartbeat_ns != 0 && heartbeat_ns <= context.now_ns)
    object["heartbeat_age_seconds"] = seconds(context.now_ns - heartbeat_ns);
  return object;
}

Counters live_totals(const ControlContext& context, const JobKey& job) {
  Counters totals{};
  for (const auto& [id, session] : context.registry.sessions()) {
    if (session->job() == job && !session->is_gpu_heap()) add_counters(session->counters(), &totals);
  }
  return totals;
}

// What is in use, and beside it what jobs say where that is something else.
void put_used(json& tier, std::uint64_t used_bytes, std::uint64_t reported_bytes) {
  tier["used_bytes"] = used_bytes;
  if (reported_bytes != used_bytes) tier["reported_bytes"] = reported_bytes;
}

bool may_see_addresses(const Peer& reader, uid_t owner) {
  return reader.uid == owner || is_administrator(reader);
}

json view_entry(const JournalEntry& entry, bool with_addresses) {
  json object{{"number", entry.number}, {"time_ns", entry.time_ns}, {"kind", entry.kind}};
  if (entry.job != nullptr) object["job"] = *entry.job;
  put_nonzero(object, "session", entry.session);
  if (!entry.text.empty()) object["text"] = entry.text;
  if (entry.event.kind == wire::EventKind::none) return object;
  object["bytes"] = entry.event.bytes;
  object["position"] = entry.event.position;
  if (with_addresses) {
    object["address"] = entry.event.address;
    put_nonzero(object, "call_site", entry.event.call_site);
  }
  put_nonzero(object, "flags", entry.event.flags);
  put_nonzero(object, "errno", entry.event.detail);
  return object;
}

json view_site(const Site& site, bool with_addresses) {
  json object{{"allocations", site.allocations}, {"frees", site.frees}};
  if (with_addresses) put_nonzero(object, "call_site", site.call_site);
  put_nonzero(object, "bytes", site.bytes);
  if (site.lifetime_count != 0) {
    object["mean_lifetime_ns"] = site.lifetime_sum_ns / site.lifetime_count;
    object["longest_lifetime_ns"] = site.longest_ns;
  }
  return object;
}

// Of a job with a pool of the daemon's.
void put_writes(json& object, const Registry& registry, const JobKey& job,
                const std::vector<const Session*>& processes) {
  const bool has_pool = std::any_of(processes.begin(), processes.end(), [&](const Session* session) {
    return registry.pools().capacity_bytes(session->id()) != 0;
  });
  if (!has_pool) return;
  const Writes& writes = registry.writes();
  std::uint64_t ahead = 0;
  for (const Session* session : processes) ahead += writes.ahead_bytes(session->id());
  object["written_today_bytes"] = minus(writes.charged_bytes(job), ahead);
  if (writes.limit_bytes() != no_limit) object["writes_left_bytes"] = writes.left_bytes(job) + ahead;
}

// What is said of the job, and what it has beyond its budget or leaves of it.
void put_terms(json& object, const Arbiter& arbiter, const JobKey& job) {
  const JobShare share = arbiter.users().jobs().of(job);
  const std::uint64_t most = arbiter.job_limit(job).most_beside(share.limit_bytes);
  if (most != no_limit) object["dram_limit_bytes"] = most;
  put_nonzero(object, "guarantee_bytes", share.guarantee_bytes);
  const Arbiter::JobLoan loan = arbiter.job_loan(job);
  put_nonzero(object, "borrowed_bytes", loan.borrowed_bytes);
  put_nonzero(object, "lent_bytes", loan.lent_bytes);
  const UserShares& users = arbiter.users();
  if (const auto group = users.group_of(job.uid)) object["group"] = users.groups()[*group].name;
}

// What is said of each group, and what the jobs of its members have.
json view_groups(const Registry& registry) {
  const Arbiter& arbiter = registry.arbiter();
  const std::vector<GroupShare>& groups = arbiter.users().groups();
  std::vector<std::uint64_t> promised(groups.size()), budgets(groups.size());
  std::set<JobKey> jobs;
  for (const auto& [id, session] : registry.sessions()) {
    const auto group = arbiter.users().group_of(session->job().uid);
    if (!group || !jobs.insert(session->job()).second) continue;
    promised[*group] += arbiter.job_promised_bytes(session->job());
    budgets[*group] += arbiter.job_budget_bytes(session->job());
  }
  json all = json::array();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    json group{{"group", groups[i].name}, {"promised_bytes", promised[i]}, {"budget_bytes", budgets[i]}};
    if (groups[i].weight) group["weight"] = *groups[i].weight;
    put_nonzero(group, "guarantee_bytes", groups[i].guarantee_bytes);
    if (groups[i].limit_bytes != no_limit) group["limit_bytes"] = groups[i].limit_bytes;
    all.push_back(std::move(group));
  }
  return all;
}

json view_nvm(const NvmPool& nvm) {
  const NvmRule& rule = nvm.rule();
  json view{{"tier", "nvm"}, {"capacity_bytes", rule.bytes}, {"promised_bytes", nvm.promised_bytes()}};
  put_used(view, nvm.used_bytes(), nvm.reported_bytes());
  put_nonzero(view, "free_bytes", nvm.free_bytes());
  if (!rule.directory.empty()) view["directory"] = rule.directory;
  if (!rule.nodes_text.empty()) view["nodes"] = rule.nodes_text;
  return view;
}

}  // namespace

json view_job(const ControlContext& context, const JobKey& job,
              const std::vector<const Session*>& processes) {
  json sessions = json::array();
  Counters totals{};
  for (const Session* session : processes) {
    if (session->is_gpu_heap()) continue;
    sessions.push_back(view_session(context, *session));
    add_counters(session->counters(), &totals);
  }
  json object{{"job", job.name},
              {"uid", job.uid},
              {"budget_bytes", context.registry.arbiter().job_budget_bytes(job)},
              {"sessions", std::move(sessions)},
              {"totals", view_counters(totals)}};
  if (const std::uint32_t weight = context.registry.arbiter().job_weight(job); weight > 1)
    object["weight"] = weight;
  if (context.registry.arbiter().is_paused(job)) object["paused"] = true;
  put_terms(object, context.registry.arbiter(), job);
  put_writes(object, context.registry, job, processes);
  put_tiers(object, context, job, processes);
  return object;
}

json view_jobs(const ControlContext& context) {
  std::map<JobKey, std::vector<const Session*>> running;
  for (const auto& [id, session] : context.registry.sessions())
    running[session->job()].push_back(session.get());
  json jobs = json::array();
  for (const auto& [job, processes] : running) jobs.push_back(view_job(context, job, processes));
  return jobs;
}

json view_job(const ControlContext& context, const JobKey& job) {
  std::vector<const Session*> processes;
  for (const auto& [id, session] : context.registry.sessions())
    if (session->job() == job) processes.push_back(session.get());
  return view_job(context, job, processes);
}

json view_tiers(const ControlContext& context) {
  const Pools& pools = context.registry.pools();
  const Arbiter& arbiter = context.registry.arbiter();
  std::uint64_t granted = 0, resident = 0, reported = 0;
  for (const auto& [id, session] : context.registry.sessions()) {
    if (session->is_gpu_heap()) continue;
    granted += arbiter.granted_bytes(id);
    resident += session->resident_bytes();
    reported += session->counter(wire::Stat::resident_bytes);
  }
  json nvme{{"tier", "nvme"},
            {"directory", pools.directory()},
            {"capacity_bytes", pools.quota_bytes()},
            {"promised_bytes", pools.promised_bytes()}};
  if (pools.encrypts()) nvme["encrypted"] = true;
  put_used(nvme, pools.used_bytes(), pools.reported_bytes());
  put_nonzero(nvme, "free_bytes", free_disk_bytes(pools.directory()));
  put_writes(nvme, context.registry.writes());
  json dram{{"tier", "dram"},
            {"capacity_bytes", arbiter.machine_bytes()},
            {"promised_bytes", arbiter.promised_bytes()},
            {"granted_bytes", granted}};
  put_used(dram, resident, reported);
  put_nonzero(dram, "lowered_bytes", context.lowered_bytes);
  json tiers = json::array({std::move(dram)});
  if (const auto& nvm = context.registry.nvm()) tiers.push_back(view_nvm(*nvm));
  tiers.push_back(std::move(nvme));
  add_gpus(tiers, context.registry.gpu());
  return tiers;
}

json view_status(const ControlContext& context) {
  json status{{"daemon_version", TERRACE_VERSION},
              {"private", context.is_private},
              {"socket", context.config.socket},
              {"uptime_seconds", seconds(context.now_ns - context.started_ns)},
              {"sessions_seen", context.registry.sessions_seen()},
              {"tiers", view_tiers(context)}};
  if (json groups = view_groups(context.registry); !groups.empty()) status["groups"] = std::move(groups);
  if (context.is_pressure_known) status["follows_pressure"] = *context.is_pressure_known;
  return status;
}

json view_events(const ControlContext& context, const Peer& reader, std::uint64_t since, std::size_t last) {
  json events = json::array();
  for (const JournalEntry* entry : context.registry.journal().after(since, last))
    events.push_back(view_entry(*entry, may_see_addresses(reader, entry->uid)));
  return {{"events", std::move(events)},
          {"last_number", context.registry.journal().last_number()},
          {"now_ns", context.now_ns}};
}

json view_lifetimes(const ControlContext& context, const Peer& reader, const JobKey& job, std::size_t last) {
  const bool with_addresses = may_see_addresses(reader, job.uid);
  json sessions = json::array();
  for (const auto& [id, session] : context.registry.sessions()) {
    if (session->job() != job) continue;
    json sites = json::array();
    for (const Site& site : session->lifetimes().top(last)) sites.push_back(view_site(site, with_addresses));
    sessions.push_back({{"id", id},
                        {"sites", std::move(sites)},
                        {"others", view_site(session->lifetimes().others(), with_addresses)},
                        {"lost_events", session->lost_events()}});
  }
  return sessions;
}

json view_summary(const ControlContext& context, const JobKey& job) {
  Counters totals = live_totals(context, job);
  const auto ended = context.registry.ended_jobs().find(job);
  std::set<pid_t> running;  // an engine's process may have two sessions
  for (const auto& [id, session] : context.registry.sessions())
    if (session->job() == job) running.insert(session->peer().pid);
  const bool has_ended = ended != context.registry.ended_jobs().end();
  if (!has_ended && running.empty()) return nullptr;
  if (has_ended) add_counters(ended->second.totals, &totals);
  json summary{{"job", job.name},
               {"uid", job.uid},
               {"running_processes", running.size()},
               {"ended_processes", has_ended ? ended->second.processes : 0},
               {"totals", view_counters(totals)}};
  put_nonzero(
      summary, "budget_bytes",
      !running.empty() ? context.registry.arbiter().job_budget_bytes(job) : ended->second.budget_bytes);
  put_states(summary, totals);
  return summary;
}

}  // namespace terrace::daemon
