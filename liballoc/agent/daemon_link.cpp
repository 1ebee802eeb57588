#include "liballoc/agent/daemon_link.h"

#include <cerrno>  // program_invocation_short_name

#include "liballoc/base/message.h"

namespace terrace::liballoc {
namespace {

const char* program_name() { return program_invocation_short_name; }

std::uint64_t pool_wanted_bytes(const Options& o) {
  if (o.makes_own_pool()) return 0;
  return o.pool_bytes != 0 ? o.pool_bytes : wire::any_bytes;
}

// What a job names itself goes before what the daemon has, but for NVM of which it does not say where.
bool wants_tiers(const Options& o) {
  return !o.tiers.is_named() || (o.tiers.nvm().is_wanted() && !o.tiers.nvm().names_place());
}

}  // namespace

int DaemonLink::greet() {
  const Options& o = guarded_.options;
  return client_.start({
      .socket_path = o.socket,
      .job = o.job[0] != '\0' ? o.job : program_name(),
      .program = program_name(),
      .requested_budget_bytes = o.dram_bytes,
      .pool_wanted_bytes = pool_wanted_bytes(o),
      .weight = static_cast<std::uint16_t>(o.weight),
      .wants_tiers = wants_tiers(o),
      .daemon_path = o.daemon,
      .respawn = o.daemon[0] != '\0',
  });
}

void DaemonLink::connect() {
  const char* const socket = guarded_.options.socket;
  if (socket[0] == '\0') return;
  is_used_ = true;
  const int error = greet();
  if (error == 0) return budget_.set_granted(client_.grant().budget_bytes);
  if (client_.refused_text()[0] != '\0') {
    availability_.set_unavailable("the daemon refused the budget");
    Message(Severity::error) << "the daemon refused: " << client_.refused_text()
                             << "; the program runs on plain memory";
    return;
  }
  Message m(Severity::warning);
  m << "no daemon at " << socket << ", ";
  m.error(error) << "; going on without it";
}

void DaemonLink::follow(std::uint64_t now_ns) {
  for (;;) {
    switch (client_.step(now_ns)) {
      case Notice::nothing:
        return;
      case Notice::budget_changed:
      case Notice::reconnected:
        take_grant();
        continue;
      case Notice::trim:
        trim();
        continue;
      case Notice::schedule:
        take_plan();
        continue;
      case Notice::disconnected:
        continue;
    }
  }
}

void DaemonLink::take_grant() {
  Pager& pager = guarded_.pager;
  budget_.set_granted(client_.grant().budget_bytes);
  if (pager.standing().mode != Pager::Mode::paging && pager.standing().mode != Pager::Mode::dormant) return;
  if (pool_.is_granted()) pager.extents().set_limit(client_.grant().pool_limit_bytes);
  pool_.set_nvm_limit(client_.grant().nvm_limit_bytes);
  take_write_lease();
  budget_.tell_granted();
}

// A job under a hard limit of memory writes on: the kernel would end it if nothing could leave.
void DaemonLink::take_write_lease() {
  using WriteLease = Extents::WriteLease;
  const Grant& grant = client_.grant();
  Pager& pager = guarded_.pager;
  const bool is_obeyed = !budget_.follows_limit();
  terrace_statistics now{};
  pager.fill(&now);
  pool_.set_write_lease(now.written_bytes, is_obeyed ? grant.most_written_bytes : wire::any_bytes);
  const bool is_leased = pool_.is_granted() && grant.most_written_bytes != wire::any_bytes;
  pager.extents().note_leased(!is_leased            ? WriteLease::unlimited
                              : grant.is_last_lease ? WriteLease::last_of_today
                                                    : WriteLease::more_follows,
                              is_obeyed);
}

int DaemonLink::send(const LearnedPeriod& period) {
  const int error = client_.send_period(period.phase, period.hash, period.image_bytes, period.fd);
  if (error == 0) guarded_.pager.plan().expect(period.phase, period.hash);
  return error;
}

// A plan that cannot be followed costs nothing but what it would have saved: it is said at the level of what
// is good to know.
void DaemonLink::take_plan() {
  const SentPlan& sent = client_.plan();
  const char* why = sent.text;
  if (sent.image_bytes != 0)
    why = guarded_.pager.plan().take({.phase = sent.phase,
                                      .period_hash = sent.period_hash,
                                      .image_bytes = sent.image_bytes,
                                      .budget_bytes = sent.budget_bytes,
                                      .fd = sent.fd});
  if (why[0] == '\0') return;
  Message(Severity::info) << "no plan for steps of kind " << std::uint64_t{sent.phase} << ": " << why
                          << "; in such steps touches alone decide what leaves and returns";
}

// The daemon asks for memory and disk space that nobody uses.
void DaemonLink::trim() {
  if (!guarded_.pager.is_paging()) return static_cast<void>(recycled_.trim());
  guarded_.pager.trim(0);
  guarded_.pager.extents().trim();
}

void DaemonLink::reset_in_child() {
  client_.after_fork_in_child();
  is_used_ = false;
}

}  // namespace terrace::liballoc
