// See metrics_text.h.
#include "daemon/metrics/metrics_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "daemon/base/machine.h"
#include "daemon/base/size.h"
#include "daemon/metrics/families.h"

namespace terrace::daemon {
namespace {

constexpr std::size_t most_gpus = 64;  // heaps may make names up

// What is shown in one line of each family: a job, a user, or all others of them.
struct Row {
  std::string labels;
  const Counters* done = nullptr;
  std::optional<Held> held;  // nothing: it has ended
};

std::string labels_of(const JobKey& job) {
  return metric_label("job_name", job.name) + "," + metric_label("uid", std::to_string(job.uid));
}
std::string labels_of(std::uint32_t user) { return metric_label("uid", std::to_string(user)); }

void add(const Held& more, Held* sum) {
  for (const HeldFamily& each : held_families) sum->*each.value += more.*each.value;
}

void add_session(const Arbiter& arbiter, const Session& session, Held* sum) {
  ++sum->sessions;
  if (session.is_gpu_heap()) {
    sum->gpu_held_bytes += session.counter(wire::Stat::resident_bytes);
    return;
  }
  sum->granted_bytes += arbiter.granted_bytes(session.id());
  sum->resident_bytes += session.resident_bytes();
  sum->live_bytes += session.counter(wire::Stat::heap_live_bytes);
  sum->stored_bytes += session.counter(wire::Stat::stored_bytes);
  sum->pool_used_bytes += session.counter(wire::Stat::pool_used_bytes);
  sum->compressed_bytes += session.counter(wire::Stat::compressed_bytes);
  sum->nvm_bytes += session.counter(wire::Stat::nvm_bytes);
}

std::map<JobKey, Held> held_by_jobs(const Registry& registry) {
  std::map<JobKey, Held> jobs;
  for (const auto& [id, session] : registry.sessions())
    add_session(registry.arbiter(), *session, &jobs[session->job()]);
  for (auto& [job, held] : jobs) {
    held.jobs = 1;
    held.paused = registry.arbiter().is_paused(job) ? 1 : 0;
    held.budget_bytes = registry.arbiter().job_budget_bytes(job);
  }
  return jobs;
}

std::map<std::uint32_t, Held> held_by_users(const std::map<JobKey, Held>& jobs) {
  std::map<std::uint32_t, Held> users;
  for (const auto& [job, held] : jobs) add(held, &users[job.uid]);
  return users;
}

// Those that are told apart, and the others as one.
template <class Key>
std::vector<Row> rows_of(const std::map<Key, Tally>& apart, const Tally& others,
                         const std::map<Key, Held>& held, std::string other_labels) {
  std::vector<Row> rows;
  for (const auto& [key, tally] : apart) {
    const auto found = held.find(key);
    rows.push_back(
        {labels_of(key), &tally.did, found == held.end() ? std::nullopt : std::optional(found->second)});
  }
  Held rest;
  for (const auto& [key, each] : held)
    if (!apart.contains(key)) add(each, &rest);
  rows.push_back({std::move(other_labels), &others.did, rest});
  return rows;
}

void put_value(Exposition* text, const MetricFamily& family, const std::string& labels, std::uint64_t value) {
  family.unit == "seconds" ? text->sample_ns(labels, value) : text->sample(labels, value);
}

void put_rows(Exposition* text, std::string_view prefix, const std::vector<Row>& rows, bool are_users) {
  for (const HeldFamily& each : held_families) {
    if (are_users ? !each.is_of_users : !each.is_of_jobs) continue;
    text->begin(prefix, each.family);
    for (const Row& row : rows)
      if (row.held) put_value(text, each.family, row.labels, *row.held.*each.value);
  }
  for (const DoneFamily& each : done_families) {
    if (are_users && !each.is_of_users) continue;
    text->begin(prefix, each.family);
    for (const Row& row : rows)
      put_value(text, each.family, row.labels, (*row.done)[static_cast<std::size_t>(each.stat)]);
  }
}

void put_daemon(Exposition* text, const MetricsContext& context, const std::map<JobKey, Held>& jobs) {
  const auto put = [text](const MetricFamily& family, const std::string& labels, std::uint64_t value) {
    text->begin("", family);
    put_value(text, family, labels, value);
  };
  put({"build", MetricType::info, "", "Which terraced this is."}, metric_label("version", TERRACE_VERSION),
      1);
  put({"start_time_seconds", MetricType::gauge, "seconds", "When terraced was started, since 1970."}, "",
      context.start_time_ns);
  put({"jobs", MetricType::gauge, "", "Jobs that run."}, "", jobs.size());
  put({"sessions", MetricType::gauge, "", "Processes, offload engines and GPU heaps that are connected."}, "",
      context.registry.sessions().size());
  put({"sessions_joined", MetricType::counter, "", "Sessions since the start of terraced."}, "",
      context.registry.sessions_seen());
  put({"metrics_renders", MetricType::counter, "", "Times that this text was written anew."}, "",
      context.renders);
  put({"metrics_render_seconds", MetricType::counter, "seconds", "Time that it took to write this text."}, "",
      context.render_ns);
}

// A tier under its labels; what is not known of it, or not so of it, is absent.
struct TierRow {
  using Bytes = std::optional<std::uint64_t>;
  std::string labels = {};
  Bytes capacity_bytes = {}, promised_bytes = {}, granted_bytes = {}, used_bytes = {}, free_bytes = {};
  Bytes lowered_bytes = {}, written_today_bytes = {}, writes_per_day_bytes = {}, writes_left_bytes = {};
  Bytes unreported_today_bytes = {};
};

TierRow dram_row(const MetricsContext& context, const std::map<JobKey, Held>& jobs) {
  const Arbiter& arbiter = context.registry.arbiter();
  Held all;
  for (const auto& [job, held] : jobs) add(held, &all);
  return {.labels = metric_label("tier", "dram"),
          .capacity_bytes = arbiter.machine_bytes(),
          .promised_bytes = arbiter.promised_bytes(),
          .granted_bytes = all.granted_bytes,
          .used_bytes = all.resident_bytes,
          .lowered_bytes = context.lowered_bytes};
}

TierRow pool_row(const Registry& registry) {
  const Pools& pools = registry.pools();
  const Writes& writes = registry.writes();
  TierRow row{.labels = metric_label("tier", "nvme"),
              .capacity_bytes = pools.quota_bytes(),
              .promised_bytes = pools.promised_bytes(),
              .used_bytes = pools.used_bytes(),
              .written_today_bytes = minus(writes.today_bytes(), writes.ahead_bytes()),
              .unreported_today_bytes = writes.unreported_bytes()};
  if (const std::uint64_t bytes = free_disk_bytes(pools.directory()); bytes != 0) row.free_bytes = bytes;
  if (writes.limit_bytes() == no_limit) return row;
  row.writes_per_day_bytes = writes.limit_bytes();
  row.writes_left_bytes = writes.left_bytes() + writes.ahead_bytes();
  return row;
}

TierRow nvm_row(const NvmPool& nvm) {
  TierRow row{.labels = metric_label("tier", "nvm"),
              .capacity_bytes = nvm.rule().bytes,
              .promised_bytes = nvm.promised_bytes(),
              .used_bytes = nvm.used_bytes()};
  if (const std::uint64_t bytes = nvm.free_bytes(); bytes != 0) row.free_bytes = bytes;
  return row;
}

std::vector<TierRow> gpu_rows(const GpuShares& gpu) {
  std::vector<TierRow> rows;
  GpuView others;
  std::size_t count = 0;
  const auto add_row = [&](std::string_view name, const GpuView& view) {
    rows.push_back({.labels = metric_label("tier", "gpu") + "," + metric_label("gpu", name),
                    .capacity_bytes = view.budget_bytes,
                    .granted_bytes = view.granted_bytes,
                    .used_bytes = view.reported_bytes});
  };
  for (const auto& [name, view] : gpu.devices()) {
    if (count++ < most_gpus) {
      add_row(name, view);
      continue;
    }
    others.budget_bytes += view.budget_bytes;
    others.granted_bytes += view.granted_bytes;
    others.reported_bytes += view.reported_bytes;
  }
  if (count > most_gpus) add_row("", others);
  return rows;
}

struct TierFamily {
  MetricFamily family;
  std::optional<std::uint64_t> TierRow::*value;
};
constexpr std::array tier_families{
    TierFamily{{"capacity_bytes", MetricType::gauge, "bytes", "What all jobs together may have."},
               &TierRow::capacity_bytes},
    TierFamily{{"promised_bytes", MetricType::gauge, "bytes", "What jobs were promised."},
               &TierRow::promised_bytes},
    TierFamily{{"granted_bytes", MetricType::gauge, "bytes", "What may be held at the moment."},
               &TierRow::granted_bytes},
    TierFamily{{"used_bytes", MetricType::gauge, "bytes", "What is in use."}, &TierRow::used_bytes},
    TierFamily{{"free_bytes", MetricType::gauge, "bytes", "What is free there for anybody."},
               &TierRow::free_bytes},
    TierFamily{{"lowered_bytes", MetricType::gauge, "bytes",
                "Part of the capacity that is not handed out while the machine is short of memory."},
               &TierRow::lowered_bytes},
    TierFamily{
        {"written_today_bytes", MetricType::gauge, "bytes", "Written to the drive since midnight UTC."},
        &TierRow::written_today_bytes},
    TierFamily{
        {"writes_per_day_bytes", MetricType::gauge, "bytes", "What may be written to the drive in a day."},
        &TierRow::writes_per_day_bytes},
    TierFamily{
        {"writes_left_bytes", MetricType::gauge, "bytes", "What may still be written to the drive today."},
        &TierRow::writes_left_bytes},
    TierFamily{{"unreported_today_bytes", MetricType::gauge, "bytes",
                "Written to the drive today beyond what jobs reported."},
               &TierRow::unreported_today_bytes},
};

// What went into a tier and out of it, of all sessions: docs/statistics.md, "What moves".
struct TierMoves {
  std::string_view tier;
  wire::Stat in, out;
};
constexpr std::array tier_moves{
    TierMoves{"dram", wire::Stat::restored_bytes, wire::Stat::evicted_bytes},
    TierMoves{"compressed", wire::Stat::kept_bytes, wire::Stat::fetched_bytes},
    TierMoves{"nvm", wire::Stat::nvm_written_bytes, wire::Stat::nvm_read_bytes},
    TierMoves{"nvme", wire::Stat::written_bytes, wire::Stat::read_bytes},
};

void put_moves(Exposition* text, const Counters& all) {
  const auto put = [&](const MetricFamily& family, wire::Stat TierMoves::*stat) {
    text->begin("tier_", family);
    for (const TierMoves& tier : tier_moves)
      text->sample(metric_label("tier", tier.tier), all[static_cast<std::size_t>(tier.*stat)]);
  };
  put({"in_bytes", MetricType::counter, "bytes", "What all jobs moved into the tier."}, &TierMoves::in);
  put({"out_bytes", MetricType::counter, "bytes", "What all jobs moved out of the tier."}, &TierMoves::out);
}

void put_tiers(Exposition* text, const MetricsContext& context, const std::map<JobKey, Held>& jobs) {
  std::vector<TierRow> rows{dram_row(context, jobs)};
  if (const auto& nvm = context.registry.nvm()) rows.push_back(nvm_row(*nvm));
  rows.push_back(pool_row(context.registry));
  for (TierRow& row : gpu_rows(context.registry.gpu())) rows.push_back(std::move(row));
  for (const TierFamily& each : tier_families) {
    text->begin("tier_", each.family);
    for (const TierRow& row : rows)
      if (const auto& value = row.*each.value) text->sample(row.labels, *value);
  }
  put_moves(text, context.registry.tallies().all());
}

// Codecs stand in wire::Stat one after the other, each with these four.
void put_codecs(Exposition* text, const Counters& all) {
  constexpr std::array families{
      MetricFamily{"content_bytes", MetricType::counter, "bytes", "Bytes that the codec compressed."},
      MetricFamily{"frame_bytes", MetricType::counter, "bytes",
                   "Bytes of the frames that the codec made of them."},
      MetricFamily{"compress_seconds", MetricType::counter, "seconds",
                   "Time that compressing took on the agents' threads."},
      MetricFamily{"decompress_seconds", MetricType::counter, "seconds",
                   "Time that decompressing took on the agents' threads."}};
  constexpr std::array names{"zvc", "zvc_exp", "rle", "csr8"};
  const auto first = static_cast<std::size_t>(wire::first_codec_stat);
  static_assert(static_cast<std::size_t>(wire::Stat::csr8_decompress_ns) ==
                static_cast<std::size_t>(wire::first_codec_stat) + names.size() * families.size() - 1);
  for (std::size_t i = 0; i < families.size(); ++i) {
    text->begin("codec_", families[i]);
    for (std::size_t codec = 0; codec < names.size(); ++codec)
      put_value(text, families[i], metric_label("codec", names[codec]),
                all[first + codec * families.size() + i]);
  }
}

}  // namespace

std::string metrics_text(const MetricsContext& context) {
  const Tallies& tallies = context.registry.tallies();
  const std::map<JobKey, Held> jobs = held_by_jobs(context.registry);
  Exposition text;
  put_daemon(&text, context, jobs);
  put_tiers(&text, context, jobs);
  put_codecs(&text, tallies.all());
  put_rows(&text, "job_",
           rows_of(tallies.jobs(), tallies.other_jobs(), jobs,
                   metric_label("job_name", "other") + "," + metric_label("uid", "other")),
           false);
  put_rows(&text, "user_",
           rows_of(tallies.users(), tallies.other_users(), held_by_users(jobs), metric_label("uid", "other")),
           true);
  return std::move(text).finish();
}

}  // namespace terrace::daemon
