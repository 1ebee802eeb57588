// See control.h. Reading is open to whoever may connect; changing a job is for its user, the daemon's user
// and root; ending the daemon is for the user of a private one.
#include "daemon/control/control.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

namespace terrace::daemon {
namespace {

using nlohmann::json;

struct Request {
  const json& fields;
  const Peer& peer;
  const ControlContext& context;
};

json failure(int error, std::string_view text) { return {{"ok", false}, {"errno", error}, {"error", text}}; }

json success(json fields = json::object()) {
  fields["ok"] = true;
  return fields;
}

std::uint64_t number_or(const json& fields, const char* name, std::uint64_t otherwise) {
  const auto field = fields.find(name);
  return field != fields.end() && field->is_number_unsigned() ? field->get<std::uint64_t>() : otherwise;
}

std::string text_of(const json& fields, const char* name) {
  const auto field = fields.find(name);
  return field != fields.end() && field->is_string() ? field->get<std::string>() : std::string();
}

bool is_known(const Registry& registry, const JobKey& key) {
  return registry.ended_jobs().contains(key) || registry.arbiter().job_budget_bytes(key) != 0;
}

// The caller's own job of that name, else anybody's; "uid" chooses one.
JobKey find_job(const Request& request) {
  const std::string name = text_of(request.fields, "job");
  const auto uid = number_or(request.fields, "uid", request.peer.uid);
  JobKey own{static_cast<std::uint32_t>(uid), name};
  const Registry& registry = request.context.registry;
  if (is_known(registry, own) || request.fields.contains("uid")) return own;
  for (const auto& [id, session] : registry.sessions()) {
    if (session->job().name == name) return session->job();
  }
  for (const auto& [key, ended] : registry.ended_jobs()) {
    if (key.name == name) return key;
  }
  return own;
}

bool may_change(const Peer& peer, uid_t owner) { return peer.uid == owner || is_administrator(peer); }

// Nothing, or why this caller may not.
std::optional<json> refuse_stranger(const Request& request, const JobKey& key) {
  if (may_change(request.peer, key.uid)) return std::nullopt;
  return failure(EPERM, fmt::format("the job belongs to user {}: ask them or root", key.uid));
}

Arbiter::By role_of(const Peer& peer) {
  return is_administrator(peer) ? Arbiter::By::administrator : Arbiter::By::owner;
}

json failure(const Refusal& refusal) {
  json reply = failure(refusal.error, refusal.reason);
  reply["available_bytes"] = refusal.available_bytes;
  return reply;
}

json no_such_job(const JobKey& key) {
  return failure(ENOENT, fmt::format("no job \"{}\" is known; see `terrace jobs`", key.name));
}

ControlOutcome do_ping(const Request&) {
  return {
      success(
          {{"daemon_version", TERRACE_VERSION}, {"protocol", wire::protocol_version}, {"pid", ::getpid()}}),
      {},
      false};
}

ControlOutcome with_jobs(json reply, const Request& request) {
  ControlOutcome outcome{std::move(reply), {}, false};
  outcome.jobs_follow = request.context.leaves_jobs_out;
  if (!outcome.jobs_follow) outcome.reply["jobs"] = view_jobs(request.context);
  return outcome;
}

ControlOutcome do_status(const Request& request) {
  return with_jobs(success(view_status(request.context)), request);
}

ControlOutcome do_jobs(const Request& request) { return with_jobs(success(), request); }

ControlOutcome do_tiers(const Request& request) {
  return {success({{"tiers", view_tiers(request.context)}}), {}, false};
}

ControlOutcome do_events(const Request& request) {
  const auto last = std::min<std::uint64_t>(number_or(request.fields, "last", 100), Journal::capacity);
  const auto since = number_or(request.fields, "since", 0);
  return {
      success(view_events(request.context, request.peer, since, static_cast<std::size_t>(last))), {}, false};
}

ControlOutcome do_summary(const Request& request) {
  const JobKey key = find_job(request);
  json summary = view_summary(request.context, key);
  return {summary.is_null() ? no_such_job(key) : success({{"summary", std::move(summary)}}), {}, false};
}

ControlOutcome do_lifetimes(const Request& request) {
  const JobKey key = find_job(request);
  if (!is_known(request.context.registry, key)) return {no_such_job(key), {}, false};
  const auto last = std::min<std::uint64_t>(number_or(request.fields, "last", 20), Lifetimes::max_sites);
  json sessions = view_lifetimes(request.context, request.peer, key, static_cast<std::size_t>(last));
  return {success({{"lifetimes", std::move(sessions)}}), {}, false};
}

ControlOutcome do_set_budget(const Request& request) {
  const JobKey key = find_job(request);
  if (auto refusal = refuse_stranger(request, key)) return {std::move(*refusal), {}, false};
  const auto bytes = number_or(request.fields, "bytes", 0);
  if (bytes == 0) return {failure(EINVAL, "\"bytes\" must be a number above 0"), {}, false};
  Arbiter& arbiter = request.context.registry.change_arbiter();
  const std::uint64_t before = arbiter.job_budget_bytes(key);
  if (const auto refusal = arbiter.set_job_budget(key, bytes, role_of(request.peer)))
    return {failure(*refusal), {}, false};
  return {success({{"budget_bytes", bytes}, {"previous_bytes", before}}), {}, false, true};
}

// Of what one may be: 0 in a request, and nothing in an answer, is no limit.
ControlOutcome do_set_limit(const Request& request) {
  const JobKey key = find_job(request);
  if (auto refusal = refuse_stranger(request, key)) return {std::move(*refusal), {}, false};
  const auto bytes = request.fields.find("bytes");
  if (bytes == request.fields.end() || !bytes->is_number_unsigned())
    return {failure(EINVAL, "\"bytes\" must be a number, 0 for no limit"), {}, false};
  const auto wanted = bytes->get<std::uint64_t>();
  Arbiter& arbiter = request.context.registry.change_arbiter();
  const std::uint64_t before = arbiter.job_limit(key).bytes;
  if (const auto refusal = arbiter.set_job_limit(key, wanted == 0 ? no_limit : wanted, role_of(request.peer)))
    return {failure(*refusal), {}, false};
  json reply = success({{"budget_bytes", arbiter.job_budget_bytes(key)}});
  if (wanted != 0) reply["dram_limit_bytes"] = wanted;
  if (before != no_limit) reply["previous_limit_bytes"] = before;
  return {std::move(reply), {}, false, true};
}

// Of what is divided beside DRAM, under the names of the keys in terraced.toml.
struct LimitedTier {
  std::string_view name;
  std::optional<Refusal> (*set)(Registry&, const JobKey&, const JobLimit&);
  JobLimit (*said)(const Registry&, const JobKey&);
};
constexpr std::array limited_tiers{
    LimitedTier{
        "pool",
        [](Registry& registry, const JobKey& job, const JobLimit& limit) {
          return registry.change_pools().set_job_limit(job, limit);
        },
        [](const Registry& registry, const JobKey& job) { return registry.pools().users().job_limit(job); }},
    LimitedTier{
        "writes",
        [](Registry& registry, const JobKey& job, const JobLimit& limit) {
          return registry.change_writes().set_job_limit(job, limit);
        },
        [](const Registry& registry, const JobKey& job) { return registry.writes().users().job_limit(job); }},
    LimitedTier{"gpu",
                [](Registry& registry, const JobKey& job, const JobLimit& limit) {
                  return registry.change_gpu().set_job_limit(job, limit);
                },
                [](const Registry& registry, const JobKey& job) { return registry.gpu().job_limit(job); }}};

const LimitedTier* limited_tier(const std::string& name) {
  const auto* const found = std::find_if(limited_tiers.begin(), limited_tiers.end(),
                                         [&](const LimitedTier& tier) { return tier.name == name; });
  return found == limited_tiers.end() ? nullptr : found;
}

// As do_set_limit(), of another thing than DRAM. A verb of its own: a daemon that does not know it must not
// take it for DRAM.
ControlOutcome do_set_tier_limit(const Request& request) {
  const JobKey key = find_job(request);
  if (auto refusal = refuse_stranger(request, key)) return {std::move(*refusal), {}, false};
  const LimitedTier* const tier = limited_tier(text_of(request.fields, "tier"));
  const auto bytes = request.fields.find("bytes");
  if (tier == nullptr || bytes == request.fields.end() || !bytes->is_number_unsigned())
    return {failure(EINVAL, "\"tier\" must be pool, writes or gpu, \"bytes\" a number, 0 for no limit"),
            {},
            false};
  Registry& registry = request.context.registry;
  if (!registry.is_here(key)) return {no_such_job(key), {}, false};
  const auto wanted = bytes->get<std::uint64_t>();
  const std::uint64_t before = tier->said(registry, key).bytes;
  if (const auto refusal = tier->set(registry, key, {wanted == 0 ? no_limit : wanted, role_of(request.peer)}))
    return {failure(*refusal), {}, false};
  json reply = success();
  if (wanted != 0) reply[fmt::format("{}_limit_bytes", tier->name)] = wanted;
  if (before != no_limit) reply["previous_limit_bytes"] = before;
  return {std::move(reply), {}, false, true};
}

ControlOutcome do_set_weight(const Request& request) {
  const JobKey key = find_job(request);
  if (auto refusal = refuse_stranger(request, key)) return {std::move(*refusal), {}, false};
  const Arbiter& arbiter = request.context.registry.arbiter();
  const std::uint32_t before = arbiter.job_weight(key);
  const auto weight = number_or(request.fields, "weight", 0);
  if (const auto refusal = request.context.registry.set_job_weight(key, weight))
    return {failure(*refusal), {}, false};
  return {success({{"weight", weight},
                   {"previous_weight", before},
                   {"is_lent", arbiter.job_promised_bytes(key) == 0}}),
          {},
          false,
          true};
}

ControlOutcome do_pause(const Request& request) {
  const JobKey key = find_job(request);
  if (auto refusal = refuse_stranger(request, key)) return {std::move(*refusal), {}, false};
  const auto stays = request.fields.find("stays");
  const bool is_stopped = stays != request.fields.end() && stays->is_boolean() && stays->get<bool>();
  if (const auto refusal = request.context.registry.change_arbiter().pause(key, is_stopped))
    return {failure(*refusal), {}, false};
  return {success({{"job", view_job(request.context, key)}}), {}, false, true};
}

ControlOutcome do_resume(const Request& request) {
  const JobKey key = find_job(request);
  if (auto refusal = refuse_stranger(request, key)) return {std::move(*refusal), {}, false};
  if (const auto refusal = request.context.registry.change_arbiter().resume(key, role_of(request.peer)))
    return {failure(*refusal), {}, false};
  return {success({{"job", view_job(request.context, key)}}), {}, false, true};
}

ControlOutcome do_trim(const Request& request) {
  const JobKey key = find_job(request);
  if (auto refusal = refuse_stranger(request, key)) return {std::move(*refusal), {}, false};
  ControlOutcome outcome;
  for (const auto& [id, session] : request.context.registry.sessions()) {
    if (session->job() == key) outcome.trim.push_back(id);
  }
  outcome.reply = outcome.trim.empty() ? no_such_job(key) : success({{"processes", outcome.trim.size()}});
  return outcome;
}

ControlOutcome do_shutdown(const Request& request) {
  if (!request.context.is_private)
    return {failure(EPERM, "this is the machine's daemon; use `systemctl stop terraced`"), {}, false};
  if (request.peer.uid != ::geteuid() && request.peer.uid != 0)
    return {failure(EPERM, "only the user who started a private daemon may end it"), {}, false};
  return {success(), {}, true};
}

struct Verb {
  std::string_view name;
  ControlOutcome (*run)(const Request&);
};
constexpr std::array verbs{Verb{"ping", do_ping},
                           Verb{"status", do_status},
                           Verb{"jobs", do_jobs},
                           Verb{"tiers", do_tiers},
                           Verb{"events", do_events},
                           Verb{"summary", do_summary},
                           Verb{"lifetimes", do_lifetimes},
                           Verb{"set_budget", do_set_budget},
                           Verb{"set_weight", do_set_weight},
                           Verb{"set_limit", do_set_limit},
                           Verb{"set_tier_limit", do_set_tier_limit},
                           Verb{"trim", do_trim},
                           Verb{"pause", do_pause},
                           Verb{"resume", do_resume},
                           Verb{"shutdown", do_shutdown}};

ControlOutcome dispatch(std::string_view text, const Peer& peer, const ControlContext& context) {
  const json fields = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!fields.is_object()) return {failure(EINVAL, "the request is not a JSON object"), {}, false};
  const std::string name = text_of(fields, "verb");
  for (const Verb& verb : verbs) {
    if (verb.name == name) return verb.run({fields, peer, context});
  }
  std::string known;
  for (const Verb& verb : verbs) known += (known.empty() ? "" : ", ") + std::string(verb.name);
  return {failure(EINVAL, fmt::format("unknown verb \"{}\"; known: {}", name, known)), {}, false};
}

}  // namespace

bool is_administrator(const Peer& peer) { return peer.uid == 0 || peer.uid == ::geteuid(); }

ControlOutcome answer(std::string_view request, const Peer& peer, const ControlContext& context) {
  ControlOutcome outcome = dispatch(request, peer, context);
  outcome.reply["format"] = "terrace-control";
  outcome.reply["version"] = 1;
  return outcome;
}

}  // namespace terrace::daemon
