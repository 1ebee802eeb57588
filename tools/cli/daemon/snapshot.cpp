#include "tools/cli/daemon/snapshot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "tools/cli/base/json_numbers.h"
#include "tools/cli/daemon/codec_rows.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

template <std::size_t... N>
constexpr auto joined(const std::array<Column, N>&... parts) {
  std::array<Column, (N + ...)> all{};
  auto at = all.begin();
  ((at = std::copy(parts.begin(), parts.end(), at)), ...);
  return all;
}

// What a job, and the sum of all jobs, keeps the devices busy with.
constexpr std::array traffic{
    Column{"faults", "FAULTS", Kind::count, true},
    Column{"stall_seconds", "STALL", Kind::seconds, true},
    Column{"evicted_bytes", "EVICTED", Kind::bytes, true},
    Column{"restored_bytes", "RESTORED", Kind::bytes, true},
    Column{"written_bytes", "WRITTEN", Kind::bytes, true},
    Column{"read_bytes", "READ", Kind::bytes, true},
};

constexpr std::array job_state{
    Column{"job", "JOB", Kind::text},
    Column{"pid", "PID", Kind::identity, false, false},
    Column{"uid", "UID", Kind::identity, false, false},
    Column{"processes", "PROCS", Kind::count},
    Column{"pager", "PAGER", Kind::text},
    Column{"mover", "MOVER", Kind::text, false, false},
    Column{"io", "IO", Kind::text, false, false},
    Column{"phase", "PHASE", Kind::text, false, false},
    Column{"paused", "PAUSED", Kind::text, false, false},
    Column{"weight", "WEIGHT", Kind::count, false, false},
    Column{"group", "GROUP", Kind::text, false, false},
    Column{"budget_bytes", "BUDGET", Kind::bytes},
    Column{"guarantee_bytes", "AT-LEAST", Kind::bytes, false, false},
    Column{"dram_limit_bytes", "AT-MOST", Kind::bytes, false, false},
    Column{"borrowed_bytes", "BORROWED", Kind::bytes, false, false},
    Column{"lent_bytes", "LENT", Kind::bytes, false, false},
    Column{"resident_bytes", "RESIDENT", Kind::bytes},
    Column{"stored_bytes", "STORED", Kind::bytes},
    Column{"heap_live_bytes", "LIVE", Kind::bytes},
    Column{"heap_peak_bytes", "PEAK", Kind::bytes, false, false},
    Column{"resident_peak_bytes", "RES-PEAK", Kind::bytes, false, false},
    Column{"recycled_bytes", "RECYCLED", Kind::bytes, false, false},
    Column{"staging_bytes", "STAGING", Kind::bytes, false, false},
    Column{"engines", "ENGINES", Kind::count, false, false},
    Column{"devices", "DEVICES", Kind::text, false, false},
    Column{"offload_bytes", "OFFLOAD", Kind::bytes, false, false},
    Column{"compressed_bytes", "COMPRESSED", Kind::bytes, false, false},
    Column{"nvm_bytes", "NVM", Kind::bytes, false, false},
    Column{"pool_used_bytes", "POOL", Kind::bytes, false, false},
    Column{"pool_promised_bytes", "POOL-PROMISED", Kind::bytes, false, false},
    Column{"pool_guarantee_bytes", "POOL-AT-LEAST", Kind::bytes, false, false},
    Column{"pool_limit_bytes", "POOL-AT-MOST", Kind::bytes, false, false},
    Column{"gpus", "GPUS", Kind::text, false, false},
    Column{"gpu_held_bytes", "GPU", Kind::bytes, false, false},
    Column{"gpu_granted_bytes", "GPU-GRANTED", Kind::bytes, false, false},
    Column{"gpu_budget_bytes", "GPU-BUDGET", Kind::bytes, false, false},
    Column{"gpu_evicted_bytes", "GPU-EVICTED", Kind::bytes, false, false},
    Column{"gpu_guarantee_bytes", "GPU-AT-LEAST", Kind::bytes, false, false},
    Column{"gpu_limit_bytes", "GPU-AT-MOST", Kind::bytes, false, false},
    Column{"writes_guarantee_bytes", "WRITES-AT-LEAST", Kind::bytes, false, false},
    Column{"writes_limit_bytes", "WRITES-AT-MOST", Kind::bytes, false, false},
    Column{"written_today_bytes", "TODAY", Kind::bytes, false, false},
    Column{"writes_left_bytes", "WRITES-LEFT", Kind::bytes, false, false},
    Column{"cgroup_usage_bytes", "CGROUP", Kind::bytes, false, false},
    Column{"cgroup_limit_bytes", "LIMIT", Kind::bytes, false, false},
};

constexpr std::array job_events{
    Column{"allocations", "ALLOCS", Kind::count, true, false},
    Column{"frees", "FREES", Kind::count, true, false},
    Column{"recycled_allocations", "REUSED", Kind::count, true, false},
    Column{"evictions", "EVICTS", Kind::count, true, false},
    Column{"restores", "RESTORES", Kind::count, true, false},
    Column{"prefetch_hits", "IN-TIME", Kind::count, true, false},
    Column{"prefetch_wasted", "WASTED", Kind::count, true, false},
    Column{"refaulted_bytes", "REFAULTED", Kind::bytes, true, false},
    Column{"kept_bytes", "KEPT", Kind::bytes, true, false},
    Column{"fetched_bytes", "FETCHED", Kind::bytes, true, false},
    Column{"demoted_bytes", "DEMOTED", Kind::bytes, true, false},
    Column{"nvm_written_bytes", "TO-NVM", Kind::bytes, true, false},
    Column{"nvm_read_bytes", "FROM-NVM", Kind::bytes, true, false},
    Column{"kernel_swap_seconds", "SWAPPED", Kind::seconds, true, false},
    Column{"steps", "STEPS", Kind::count, true, false},
    Column{"step_seconds", "STEP", Kind::seconds, false, false},
    Column{"step_stall_seconds", "STEP-STALL", Kind::seconds, false, false},
    Column{"departures", "DEPARTED", Kind::count, true, false},
    Column{"probes", "PROBES", Kind::count, true, false},
    Column{"probe_seconds", "PROBING", Kind::seconds, true, false},
    Column{"policy", "POLICY", Kind::text, false, false},
    Column{"predicted_step_seconds", "PREDICTED", Kind::seconds, false, false},
    Column{"measured_step_seconds", "MEASURED", Kind::seconds, false, false},
    Column{"plan_entries", "MOVES", Kind::count, false, false},
    Column{"plan_refusal", "NO-PLAN", Kind::text, false, false},
    Column{"plan_refusals", "LAID-BY", Kind::count, true, false},
    Column{"planned_steps", "PLANNED", Kind::count, true, false},
    Column{"planned_out_bytes", "PLAN-OUT", Kind::bytes, true, false},
    Column{"planned_in_bytes", "PLAN-IN", Kind::bytes, true, false},
    Column{"planned_late", "LATE", Kind::count, true, false},
    Column{"unplanned_faults", "UNPLANNED", Kind::count, true, false},
    Column{"marks", "MARKS", Kind::count, true, false},
    Column{"cancelled_evictions", "CANCELLED", Kind::count, true, false},
    Column{"pinned_refusals", "PINNED", Kind::count, true, false},
    Column{"checksum_failures", "BADSUM", Kind::count, true, false},
    Column{"io_errors", "IOERRORS", Kind::count, true, false},
    Column{"lost_runs", "LOST", Kind::count, true, false},
    Column{"lost_events", "MISSED", Kind::count, true, false},
    Column{"heartbeat_age_seconds", "HEARTBEAT", Kind::seconds, false, false},
    Column{"socket", "SOCKET", Kind::text, false, false},
};

constexpr auto jobs_table = joined(job_state, traffic, job_events);

constexpr std::array tiers_table{
    Column{"tier", "TIER", Kind::text},
    Column{"capacity_bytes", "CAPACITY", Kind::bytes},
    Column{"promised_bytes", "PROMISED", Kind::bytes},
    Column{"granted_bytes", "GRANTED", Kind::bytes, false, false},
    Column{"used_bytes", "USED", Kind::bytes},
    Column{"reported_bytes", "REPORTED", Kind::bytes, false, false},
    Column{"free_bytes", "DISK-FREE", Kind::bytes},
    Column{"written_bytes", "IN", Kind::bytes, true},
    Column{"read_bytes", "OUT", Kind::bytes, true},
    Column{"measured_write_bytes_per_second", "WRITES-AT", Kind::speed},
    Column{"measured_read_bytes_per_second", "READS-AT", Kind::speed},
    Column{"written_today_bytes", "TODAY", Kind::bytes},
    Column{"writes_left_bytes", "WRITES-LEFT", Kind::bytes},
    Column{"writes_per_day_bytes", "A-DAY", Kind::bytes, false, false},
    Column{"unreported_today_bytes", "UNREPORTED", Kind::bytes, false, false},
    Column{"directory", "DIRECTORY", Kind::text},
    Column{"device", "DEVICE", Kind::text, false, false},
    Column{"device_bytes", "DEVICE-SIZE", Kind::bytes, false, false},
    Column{"heaps", "HEAPS", Kind::count, false, false},
    Column{"nodes", "NODES", Kind::text, false, false},
    Column{"socket", "SOCKET", Kind::text, false, false},
};

constexpr std::array job_sums{
    Column{"jobs", "JOBS", Kind::count},
    Column{"processes", "PROCS", Kind::count},
    Column{"dram_capacity_bytes", "DRAM", Kind::bytes},
    Column{"dram_promised_bytes", "PROMISED", Kind::bytes},
    Column{"dram_used_bytes", "RESIDENT", Kind::bytes},
    Column{"pool_capacity_bytes", "POOL", Kind::bytes},
    Column{"pool_used_bytes", "STORED", Kind::bytes},
    Column{"gpu_capacity_bytes", "GPU", Kind::bytes, false, false},
    Column{"gpu_used_bytes", "GPU-USED", Kind::bytes, false, false},
};

constexpr std::array daemon_identity{
    Column{"pool_written_today_bytes", "TODAY", Kind::bytes, false, false},
    Column{"pool_writes_left_bytes", "WRITES-LEFT", Kind::bytes, false, false},
    Column{"uptime_seconds", "UP", Kind::seconds, false, false},
    Column{"sessions_seen", "SEEN", Kind::count, false, false},
    Column{"daemon_version", "VERSION", Kind::text, false, false},
    Column{"private", "PRIVATE", Kind::text, false, false},
    Column{"pool_directory", "DIRECTORY", Kind::text, false, false},
    Column{"socket", "SOCKET", Kind::text, false, false},
};

constexpr auto status_table = joined(job_sums, traffic, daemon_identity);

const json empty_list = json::array();
const json empty_object = json::object();

const json& list_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : empty_list;
}

const json& object_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : empty_object;
}

void copy(const json& from, const char* name, json* to, const char* as = nullptr) {
  const auto found = from.find(name);
  if (found != from.end() && !found->is_null()) (*to)[as != nullptr ? as : name] = *found;
}

// Counters keep their names but for times: stall_ns becomes stall_seconds.
void take_totals(const json& totals, json* row) {
  for (const auto& [name, value] : totals.items()) {
    if (!value.is_number()) continue;
    if (name.ends_with("_ns")) {
      (*row)[name.substr(0, name.size() - 2) + "seconds"] = value.get<double>() / 1e9;
    } else if (name != "budget_bytes") {  // what the processes acknowledged; the row has what was granted
      (*row)[name] = value;
    }
  }
}

// Whole numbers stay whole in JSON; only durations have fractions.
json sum_of(const Rows& rows, const char* name) {
  double fractions = 0;
  std::uint64_t sum = 0;
  bool whole = true;
  for (const json& row : rows) {
    const auto found = row.is_object() ? row.find(name) : row.end();
    if (found == row.end() || !found->is_number()) continue;
    whole = whole && found->is_number_integer();
    fractions += found->get<double>();
    if (found->is_number_integer()) sum += found->get<std::uint64_t>();
  }
  return whole ? json(sum) : json(fractions);
}

// An offload engine is a session beside its process's own.
bool is_engine(const json& session) { return session.is_object() && session.contains("device"); }

// The process that speaks for the job: the one that holds most. A shell around it is not interesting, and an
// engine only where there is nothing else.
const json* leading_session(const json& sessions) {
  const json* best = nullptr;
  const auto rank = [](const json& session) {
    return std::pair(!is_engine(session), number(object_at(session, "statistics"), "heap_live_bytes"));
  };
  for (const json& session : sessions)
    if (session.is_object() && (best == nullptr || rank(session) > rank(*best))) best = &session;
  return best;
}

std::size_t count_processes(const json& sessions) {
  std::set<json> numbers;
  std::size_t unknown = 0;
  for (const json& session : sessions)
    if (session.is_object() && session.contains("pid"))
      numbers.insert(session["pid"]);
    else
      ++unknown;
  return numbers.size() + unknown;
}

// Each device once, in the order of the sessions.
void take_engines(const json& sessions, json* row) {
  Rows engines;
  std::vector<std::string> devices;
  for (const json& session : sessions) {
    if (!is_engine(session)) continue;
    engines.push_back(object_at(session, "statistics"));
    const std::string device = session.value("device", "");
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  }
  if (engines.empty()) return;
  (*row)["engines"] = engines.size();
  (*row)["devices"] = fmt::format("{}", fmt::join(devices, ", "));
  (*row)["offload_bytes"] = sum_of(engines, "resident_bytes");
}

bool is_gpu(const json& tier) { return tier.is_object() && tier.value("tier", "") == "gpu"; }

// What its heaps hold of GPUs: sessions that hold no DRAM.
void take_gpus(const json& job, json* row) {
  const json& heaps = list_at(job, "gpu_heaps");
  if (heaps.empty()) return;
  std::set<std::string> devices;
  Rows all;
  for (const json& heap : heaps) {
    if (!heap.is_object()) continue;
    devices.insert(heap.value("gpu", "?"));
    all.push_back(heap);
  }
  (*row)["gpus"] = fmt::format("{}", fmt::join(devices, ", "));
  (*row)["gpu_evicted_bytes"] = sum_of(all, "evicted_bytes");
  for (const char* name : {"gpu_held_bytes", "gpu_granted_bytes", "gpu_budget_bytes"}) copy(job, name, row);
}

// What is planned for the process, or why nothing is.
void take_plan(const json& session, json* row) {
  copy(session, "policy", row);
  copy(session, "plan_refusal", row);
  const json& plan = object_at(session, "plan");
  copy(plan, "predicted_step_seconds", row);
  copy(plan, "measured_step_seconds", row);
  copy(plan, "entries", row, "plan_entries");
}

json job_row(const json& job, const std::string& socket) {
  json row{{"socket", socket}};
  const json& sessions = list_at(job, "sessions");
  copy(job, "job", &row);
  copy(job, "uid", &row);
  copy(job, "paused", &row);
  for (const char* name :
       {"weight", "group", "guarantee_bytes", "dram_limit_bytes", "borrowed_bytes", "lent_bytes"})
    copy(job, name, &row);
  for (const char* name : {"written_today_bytes", "writes_left_bytes", "pool_promised_bytes",
                           "pool_guarantee_bytes", "pool_limit_bytes", "writes_guarantee_bytes",
                           "writes_limit_bytes", "gpu_guarantee_bytes", "gpu_limit_bytes"})
    copy(job, name, &row);
  take_gpus(job, &row);
  if (number(job, "budget_bytes") > 0) copy(job, "budget_bytes", &row);
  row["processes"] = count_processes(sessions);
  take_engines(sessions, &row);
  row["lost_events"] = sum_of(sessions, "lost_events");
  if (const json* leader = leading_session(sessions))
    for (const char* name : {"pid", "program", "pager", "mover", "io", "phase", "plan", "cgroup_usage_bytes",
                             "cgroup_limit_bytes", "heartbeat_age_seconds"})
      copy(*leader, name, &row);
  if (const json* leader = leading_session(sessions)) take_plan(*leader, &row);
  take_totals(object_at(job, "totals"), &row);
  if (const double steps = number(row, "steps"); steps > 0)
    for (const char* what : {"", "stall_"})
      row[fmt::format("step_{}seconds", what)] = number(row, fmt::format("steps_{}seconds", what)) / steps;
  return row;
}

json sum_of_codecs(const Rows& jobs) {
  json sums = json::object();
  for (const std::string& name : codec_counters()) sums[name] = sum_of(jobs, name.c_str());
  return sums;
}

std::string socket_of(const json& status) { return status.value("socket", ""); }

std::string text_of(const json& row, const char* name) {
  const auto found = row.find(name);
  return found == row.end() ? "" : found->is_string() ? found->get<std::string>() : found->dump();
}

}  // namespace

std::span<const Column> job_columns() { return jobs_table; }
std::span<const Column> tier_columns() { return tiers_table; }
std::span<const Column> status_columns() { return status_table; }

Rows job_rows(const json& status) {
  Rows rows;
  for (const json& job : list_at(status, "jobs"))
    if (job.is_object()) rows.push_back(job_row(job, socket_of(status)));
  return rows;
}

// Of what processes say, anything may come.
constexpr double most_speed = 1e18;

// How fast the tier was of late, over the jobs that move something there: all bytes by all the time that they
// were in transfer. What nobody measured is absent.
void put_speeds(const Rows& jobs, const std::string& tier, json* row) {
  for (const std::string way : {"read", "write"}) {
    const std::string name = fmt::format("recent_{}_{}_", tier, way);
    double bytes = 0, seconds = 0;
    for (const json& job : jobs) {
      bytes += number(job, name + "bytes");
      seconds += number(job, name + "seconds");
    }
    if (bytes > 0 && seconds > 0)
      (*row)[fmt::format("measured_{}_bytes_per_second", way)] =
          static_cast<std::uint64_t>(std::round(std::min(bytes / seconds, most_speed)));
  }
}

// A tier of the jobs' own, which what the daemon tells of tiers does not name.
json row_of_jobs(const Rows& jobs, const char* tier, const char* used, const char* written,
                 const char* read) {
  json row{{"tier", tier},
           {"used_bytes", sum_of(jobs, used)},
           {"written_bytes", sum_of(jobs, written)},
           {"read_bytes", sum_of(jobs, read)}};
  put_speeds(jobs, tier, &row);
  return row;
}

// Each is a part of its job's budget.
json compressed_row(const Rows& jobs) {
  return row_of_jobs(jobs, "compressed", "compressed_bytes", "kept_bytes", "fetched_bytes");
}

// NVM that a job takes by itself, with a directory or nodes of its own.
json nvm_row(const Rows& jobs) {
  return row_of_jobs(jobs, "nvm", "nvm_bytes", "nvm_written_bytes", "nvm_read_bytes");
}

// Into DRAM comes what is restored, out of it goes what is evicted; a lower tier sees what is written and
// read.
json with_traffic(json row, const Rows& jobs) {
  const std::string tier = row.value("tier", "");
  const bool dram = tier == "dram", nvm = tier == "nvm";
  row["written_bytes"] = sum_of(jobs, dram ? "restored_bytes" : nvm ? "nvm_written_bytes" : "written_bytes");
  row["read_bytes"] = sum_of(jobs, dram ? "evicted_bytes" : nvm ? "nvm_read_bytes" : "read_bytes");
  if (!dram) put_speeds(jobs, nvm ? "nvm" : "drive", &row);
  return row;
}

Rows tier_rows(const json& status) {
  const Rows jobs = job_rows(status);
  Rows rows;
  const auto add = [&](json row) {
    row["socket"] = socket_of(status);
    rows.push_back(std::move(row));
  };
  const auto add_if_used = [&](const json& row) {
    if (row["written_bytes"] != 0) add(row);
  };
  bool has_nvm = false;
  for (const json& tier : list_at(status, "tiers")) {
    if (!tier.is_object()) continue;
    if (is_gpu(tier)) {
      add(tier);
      continue;
    }
    const std::string name = tier.value("tier", "");
    has_nvm = has_nvm || name == "nvm";
    if (name == "nvme" && !has_nvm) add_if_used(nvm_row(jobs));
    add(with_traffic(tier, jobs));
    if (name == "dram") add_if_used(compressed_row(jobs));
  }
  return rows;
}

json status_row(const json& status) {
  json row{{"socket", socket_of(status)}};
  for (const char* name :
       {"daemon_version", "private", "uptime_seconds", "sessions_seen", "follows_pressure", "groups"})
    copy(status, name, &row);
  const Rows jobs = job_rows(status);
  row["jobs"] = jobs.size();
  for (const char* name : {"processes", "faults", "stall_seconds", "evicted_bytes", "restored_bytes",
                           "written_bytes", "read_bytes"})
    row[name] = sum_of(jobs, name);
  row["codecs"] = codec_rows(sum_of_codecs(jobs));
  Rows gpus;
  for (const json& tier : list_at(status, "tiers")) {
    if (is_gpu(tier)) {
      gpus.push_back(tier);
      continue;
    }
    const std::string kind = tier.is_object() ? tier.value("tier", "") : "";
    const std::string prefix = kind == "dram" || kind == "nvm" ? kind : "pool";
    for (const char* name : {"capacity_bytes", "promised_bytes", "used_bytes"})
      copy(tier, name, &row, (prefix + '_' + name).c_str());
    if (kind == "dram") copy(tier, "lowered_bytes", &row, "dram_lowered_bytes");
    if (prefix != "pool") continue;
    copy(tier, "directory", &row, "pool_directory");
    for (const char* name : {"written_today_bytes", "writes_left_bytes", "writes_per_day_bytes"})
      copy(tier, name, &row, (std::string("pool_") + name).c_str());
  }
  if (gpus.empty()) return row;
  row["gpu_capacity_bytes"] = sum_of(gpus, "capacity_bytes");
  row["gpu_used_bytes"] = sum_of(gpus, "used_bytes");
  row["gpus"] = gpus;
  return row;
}

std::string job_key(const json& row) {
  return text_of(row, "socket") + '\n' + text_of(row, "uid") + '\n' + text_of(row, "job");
}
std::string tier_key(const json& row) {
  return text_of(row, "socket") + '\n' + text_of(row, "tier") + '\n' + text_of(row, "device");
}
std::string daemon_key(const json& row) { return text_of(row, "socket"); }

}  // namespace terrace::cli
