// All sessions and what they were granted: everything the daemon knows, without a socket in it.
//
// The server hands in greetings and ends; the registry asks the arbiter and the pools, keeps the journal and
// the totals of jobs that ended, and says which budgets to announce.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/promises/claims.h"
#include "daemon/sessions/admissions.h"
#include "daemon/sessions/ended_jobs.h"
#include "daemon/sessions/journal.h"
#include "daemon/sessions/report_checks.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/tallies.h"
#include "daemon/sessions/turns.h"
#include "liballoc/wire/protocol.h"

namespace terrace::daemon {

struct Limits {
  std::size_t sessions = 1024;
  std::size_t sessions_per_user = 256;
  std::size_t ended_jobs = 256;
  std::size_t jobs_apart = 100;  // with sums of their own in tallies(), and as many users
};

struct Announcement {
  SessionId session = 0;
  std::uint64_t budget_bytes = 0;
  std::uint64_t pool_limit_bytes = 0;
  std::optional<std::uint64_t> nvm_limit_bytes = {};  // where that changed
};

class Registry {
 public:
  Registry(std::uint64_t machine_bytes, Pools pools, Limits limits = {});
  Registry(const Registry&) = delete;

  // What jobs say that they had from an earlier daemon is believed as far as it is among these, and said by
  // then. Without this call all of it is, within what is left: a daemon that serves one user.
  void expect(Claims claims, std::uint64_t until_ns) { admissions_.expect(std::move(claims), until_ns); }
  // From now on jobs that ask for it are given NVM.
  void use_nvm(const NvmRule& rule) { shares_.nvm.emplace(rule); }
  // Whether a greeting is to be answered ahead of others: it is of a job that is back and can have been
  // there.
  bool is_expected(const wire::Hello& hello, uid_t uid) const {
    return comes_back(hello) && admissions_.is_on_record(job_of(hello, uid));
  }
  // What the next daemon should know: of jobs that are here, and of those that have not come back yet.
  Promises promises() const;

  // `pool` is the file that came along, if one did.
  Admission admit(const wire::Hello& hello, const Peer& peer, const std::optional<PoolFile>& pool,
                  std::uint64_t now_ns);
  // A session that is back brings NVM, as far as it is on record; `file` came with it. Nothing where there is
  // none here; else what is wrong with it.
  std::optional<Refusal> hold_nvm(SessionId session, const wire::NvmHeld& held,
                                  const std::optional<PoolFile>& file);
  void end(SessionId session, const std::string& why, std::uint64_t now_ns);

  // Copies counters and events of every session out of the shared memory and digests them. Reports are
  // checked once a round.
  static constexpr std::uint64_t round_ns = 100'000'000;
  static constexpr std::size_t events_per_call = std::size_t{8} * Session::events_per_round;  // some 10 ms
  void take_in(std::uint64_t now_ns);
  // The same for as many sessions as a round has time for, in turn, and for those that others wait for.
  // Events are left until there are many or some are old.
  static constexpr std::size_t sessions_per_turn = 64;
  void take_turn(std::uint64_t now_ns);
  // Another one whenever grants or promises may have changed, or all sessions had their turn.
  std::uint64_t revision() const { return revision_; }
  // Budgets and pool limits that changed since they were last announced.
  std::vector<Announcement> announcements();
  void note(SessionId session, const char* kind, std::string text, std::uint64_t now_ns);

  Session* find(SessionId session);
  const Sessions& sessions() const { return sessions_; }
  const std::map<JobKey, EndedJob>& ended_jobs() const { return ended_.all(); }
  // As of each session's last turn.
  const Tallies& tallies() const { return tallies_; }
  // What it grants is looked at anew, and a pause may begin, which it counts in rounds.
  Arbiter& change_arbiter() {
    ++revision_;
    rounds_to_count_ = Arbiter::pausing_rounds;
    return shares_.dram;
  }
  const Arbiter& arbiter() const { return shares_.dram; }
  Pools& pools() { return shares_.pools; }
  const Pools& pools() const { return shares_.pools; }
  // Of the session, wherever its memory is.
  std::uint64_t granted_bytes(SessionId session) const {
    return shares_.gpu.has(session) ? shares_.gpu.granted_bytes(session)
                                    : shares_.dram.granted_bytes(session);
  }
  bool is_here(const JobKey& job) const { return admissions_.is_here(job); }
  // Of the job wherever it has memory. As Arbiter::set_job_weight().
  std::optional<Refusal> set_job_weight(const JobKey& job, std::uint64_t weight);
  GpuShares& change_gpu() {
    ++revision_;
    return shares_.gpu;
  }
  Pools& change_pools() {
    ++revision_;
    return shares_.pools;
  }
  Writes& change_writes() {
    ++revision_;
    return shares_.writes;
  }
  const GpuShares& gpu() const { return shares_.gpu; }
  const std::optional<NvmPool>& nvm() const { return shares_.nvm; }
  Writes& writes() { return shares_.writes; }
  const Writes& writes() const { return shares_.writes; }
  const Journal& journal() const { return journal_; }
  Journal& journal() { return journal_; }
  std::uint64_t sessions_seen() const { return next_id_ - 1; }

 private:
  void take_counters(Session& session);
  std::size_t take_events(Session& session, std::uint64_t now_ns);
  void take_events_of_all(std::uint64_t now_ns);
  void end_round(std::uint64_t now_ns);
  void count_round(std::uint64_t now_ns);
  std::optional<Refusal> check_room(uid_t uid) const;

  Limits limits_;
  Shares shares_;
  Journal journal_;
  Sessions sessions_;
  Admissions admissions_{sessions_, shares_};
  ReportChecks report_checks_{sessions_, shares_.dram, shares_.gpu, shares_.pools, journal_};
  EndedJobs ended_;
  Tallies tallies_;
  std::vector<wire::Event> scratch_;
  SessionId next_id_ = 1;
  SessionId last_counted_ = 0;
  SessionId last_read_ = 0;
  std::uint64_t revision_ = 1;
  std::uint64_t announced_revision_ = 0;
  std::uint64_t counted_revision_ = 0;
  unsigned rounds_to_count_ = 0;
  std::uint64_t next_round_ns_ = 0;
};

}  // namespace terrace::daemon
