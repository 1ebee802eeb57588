// Answers the requests of the `terrace` command: JSON in, JSON out, no sockets. docs/formats/wire.md lists
// the verbs and their answers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/sessions/registry.h"
#include "daemon/settings/config.h"

namespace terrace::daemon {

struct ControlContext {
  Registry& registry;
  const Config& config;
  bool is_private = false;
  std::uint64_t now_ns = 0;
  std::uint64_t started_ns = 0;
  std::uint64_t lowered_bytes = 0;             // of the budget, while the machine is short of memory
  std::optional<bool> is_pressure_known = {};  // whether the kernel says that it is
  bool leaves_jobs_out = false;                // for a LongAnswer
};

// NOLINTNEXTLINE(bugprone-exception-escape): nlohmann's move checks itself with a throwing assertion
struct ControlOutcome {
  nlohmann::json reply;
  std::vector<SessionId> trim;  // to be told so
  bool shut_down = false;
  bool budgets_changed = false;  // to be announced at once
  bool jobs_follow = false;      // were left out of the reply
};

ControlOutcome answer(std::string_view request, const Peer& peer, const ControlContext& context);

// The pieces of answers (control_views.cpp).
nlohmann::json view_status(const ControlContext& context);
nlohmann::json view_jobs(const ControlContext& context);
nlohmann::json view_job(const ControlContext& context, const JobKey& job);  // one that runs
nlohmann::json view_job(const ControlContext& context, const JobKey& job,
                        const std::vector<const Session*>& processes);
nlohmann::json view_tiers(const ControlContext& context);
// Addresses of a process, in its heap or its code, help whoever wants to break into it: they are for its own
// user and for administrators.
nlohmann::json view_events(const ControlContext& context, const Peer& reader, std::uint64_t since,
                           std::size_t last);
nlohmann::json view_lifetimes(const ControlContext& context, const Peer& reader, const JobKey& job,
                              std::size_t last);
// Whoever could do as he likes with the daemon and its jobs anyway.
bool is_administrator(const Peer& peer);
// null when no such job is known.
nlohmann::json view_summary(const ControlContext& context, const JobKey& job);

}  // namespace terrace::daemon
