#include "tools/cli/change/staying.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/cli/base/format.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

// The largest piece in which memory leaves: a pool with less room than that takes nothing more.
constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;
// A daemon leases no less, so that whoever is left less writes nothing more (daemon/writes/write_shares.h).
constexpr std::uint64_t least_lease_bytes = std::uint64_t{2} << 20;
// A session reports ten times a second.
constexpr double silent_seconds = 2;

std::uint64_t number_in(const json& object, const char* name) { return object.value(name, std::uint64_t{0}); }

bool has_pool(const json& session) { return session.contains("pool_capacity_bytes"); }

// A limit of 0 is left out of what the daemon shows.
bool has_full_pool(const json& session) {
  return has_pool(session) &&
         counter_of(session, "pool_used_bytes") + piece_bytes > number_in(session, "pool_limit_bytes");
}

bool may_write_no_more(const json& job, const json& session) {
  return has_pool(session) && job.contains("writes_left_bytes") &&
         number_in(job, "writes_left_bytes") < least_lease_bytes;
}

// "process 12 keeps 14.0 MiB", of an engine with what that is.
std::string who_keeps(const json& session) {
  std::string who = fmt::format("process {} keeps {}", session.value("pid", 0),
                                bytes_text(counter_of(session, "resident_bytes")));
  if (!is_engine(session)) return who;
  const std::string device = session.value("device", "");
  return who + (device == "optimizer" ? " of an optimizer's states" : " of what is offloaded of " + device);
}

// Said by the daemon, whoever keeps what.
std::string why_none_can_leave(const json& job, const json& session) {
  const double silence = session.value("heartbeat_age_seconds", 0.0);
  if (silence > silent_seconds)
    return fmt::format(
        ": process {} has not been heard of for {:.0f} s, as if it were stopped, or its machine too busy",
        session.value("pid", 0), silence);
  if (has_full_pool(session)) return ": its pool is full; give it more by --pool-size, or by [pool] size";
  if (may_write_no_more(job, session))
    return ": no more may be written to its drive today; [pool] writes_per_day in terraced.toml limits that";
  return "";
}

std::string why_engine_keeps(const json& session) {
  if (!has_pool(session))
    return fmt::format(
        ": {}, for which it has no drive, or the drive takes no more; give it one (--offload-tiers "
        "dram,nvme), or a larger pool",
        who_keeps(session));
  if (const std::uint64_t errors = counter_of(session, "io_errors"); errors != 0)
    return fmt::format(
        ": {}, which its drive has failed to take or to bring back {} times; see the kernel's log",
        who_keeps(session), errors);
  return fmt::format(": {}, which it has in use, or which was still on its way to the drive; ask again",
                     who_keeps(session));
}

std::string why_pager_keeps(const json& session) {
  if (counter_of(session, "pinned_refusals") != 0)
    return ": it is locked in memory (mlock) or pinned for a device; have the job give that up first";
  return fmt::format(": {}; `terrace events` may say why", who_keeps(session));
}

}  // namespace

std::uint64_t counter_of(const json& session, const char* name) {
  return number_in(session.value("statistics", json::object()), name);
}

bool is_engine(const json& session) { return session.contains("device"); }

bool is_at_floor(const json& session) {
  const std::uint64_t granted = number_in(session, "granted_bytes");
  return counter_of(session, "budget_bytes") <= granted && counter_of(session, "resident_bytes") <= granted;
}

std::string why_it_stays(const json& job) {
  const std::uint64_t resident = number_in(job.value("totals", json::object()), "resident_bytes");
  const std::string what = fmt::format("{} of its memory do not leave", bytes_text(resident));
  const json sessions = job.value("sessions", json::array());
  const auto keeper = std::find_if(sessions.begin(), sessions.end(),
                                   [](const json& session) { return !is_at_floor(session); });
  if (keeper == sessions.end())
    return what + " at once: what has left it comes back, as its processes go on to use it; ask again";
  if (const std::string why = why_none_can_leave(job, *keeper); !why.empty()) return what + why;
  return what + (is_engine(*keeper) ? why_engine_keeps(*keeper) : why_pager_keeps(*keeper));
}

}  // namespace terrace::cli
