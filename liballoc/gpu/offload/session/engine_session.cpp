#include "liballoc/gpu/offload/session/engine_session.h"

#include <cstring>
#include <utility>

#include "liballoc/agent/pool/tier_meters.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc::offload {
namespace {

// A daemon that sends without an end keeps the thread from nothing.
constexpr unsigned most_messages = 64;

// Under the names that the pager's have (wire/segment.h), as far as they mean the same: what is taken of host
// memory is resident, what is empty of it is kept for reuse, what lies on the drive is stored.
void put_counts(const Report& report, wire::JobStats* out) {
  using wire::Stat;
  const std::pair<Stat, std::uint64_t> words[] = {{Stat::heap_live_bytes, report.wanted_memory_bytes},
                                                  {Stat::resident_bytes, report.memory_bytes},
                                                  {Stat::resident_peak_bytes, report.memory_peak_bytes},
                                                  {Stat::recycled_bytes, report.spare_memory_bytes},
                                                  {Stat::stored_bytes, report.drive_bytes},
                                                  {Stat::pool_used_bytes, report.drive_bytes},
                                                  {Stat::budget_bytes, report.memory_limit_bytes},
                                                  {Stat::written_bytes, report.drive_written_bytes},
                                                  {Stat::read_bytes, report.drive_read_bytes},
                                                  {Stat::checksum_failures, report.checksum_failures},
                                                  {Stat::io_errors, report.io_errors}};
  for (const auto& [stat, value] : words) out->set(stat, value);
  put_speeds(report.drive_speeds, Stat::recent_drive_read_bytes, out);
}

}  // namespace

EngineSession::~EngineSession() {
  stop();
  client_.shutdown();
}

// An older daemon would take two sessions of one process for a process that reports too little.
bool EngineSession::is_understood() {
  if (client_.has_feature(wire::feature_engines)) return true;
  client_.shutdown();
  return false;
}

int EngineSession::join(const liballoc::gpu::SessionOptions& options, const Joining& joining,
                        std::string* reason) {
  socket_ = options.socket;
  const int error = client_.start({.socket_path = socket_.c_str(),
                                   .job = options.job.c_str(),
                                   .program = joining.device.c_str(),
                                   .requested_budget_bytes = options.dram_bytes,
                                   .pool_wanted_bytes = joining.wants_pool ? wire::any_bytes : 0,
                                   .weight = options.weight,
                                   .daemon_path = options.daemon.c_str(),
                                   .respawn = !options.daemon.empty(),
                                   .is_engine = true});
  if (error != 0 && client_.refused_text()[0] != '\0') {
    *reason = "the daemon at " + socket_ + " refused the " + joining.who + ": " + client_.refused_text();
    return error;
  }
  if (error != 0) {
    client_.use_no_pool();  // a file of the engine's own is made meanwhile
    warning_ = "no daemon at " + socket_ + " (" + std::strerror(error) +
               "): the offload engine takes host memory without a daemon until one is there; `terrace "
               "status` shows which daemons are there";
    return 0;
  }
  is_joined_ = is_understood();
  if (!is_joined_)
    warning_ = "the daemon at " + socket_ +
               " is older than offload engines that join it: their host memory is not counted; install the "
               "same version of both";
  return 0;
}

int EngineSession::open(const liballoc::gpu::SessionOptions& options, const Joining& joining,
                        std::string* reason) {
  if (options.socket.empty()) return 0;
  if (const int error = join(options, joining, reason); error != 0) return error;
  if (!is_joined_ || has_pool()) return 0;
  if (joining.wants_pool) client_.use_no_pool();
  if (joining.may_keep_a_file) warning_ = missing_pool(joining);
  return 0;
}

std::string EngineSession::missing_pool(const Joining& joining) const {
  const std::string daemon = "the daemon at " + socket_;
  if (forbids_files())
    return daemon + (joining.wants_pool ? " grants no pool (its log says why), and pools" : "'s pools") +
           " are encrypted here ([pool] encrypt): the " + joining.who +
           " writes to no drive; name a directory for its file if plain text may lie there";
  if (!joining.wants_pool) return "";
  return daemon +
         " grants no pool (its log says why): the drive's file is this process's own, which the daemon's "
         "[pool] size does not count";
}

void EngineSession::start(Callbacks callbacks) {
  if (socket_.empty()) return;
  callbacks_ = std::move(callbacks);
  rounds_.start([] {},
                [this] {
                  follow();
                  publish();
                });
}

void EngineSession::follow() {
  for (unsigned i = 0; i < most_messages; ++i) {
    switch (client_.step(os::now_ns())) {
      case Notice::nothing:
        return;
      case Notice::reconnected:
        if (!is_understood()) return;
        [[fallthrough]];
      case Notice::budget_changed:
        callbacks_.take_grant(client_.grant());
        continue;
      case Notice::trim:
        callbacks_.trim();
        continue;
      case Notice::schedule:
      case Notice::disconnected:
        continue;
    }
  }
}

void EngineSession::publish() {
  const Report report = callbacks_.report();
  wire::JobStats& out = *client_.stats();
  put_counts(report, &out);
  out.set_state(wire::Stat::phase, wire::Phase::running);
  out.set(wire::Stat::heartbeat_ns, os::now_ns());
}

}  // namespace terrace::liballoc::offload
