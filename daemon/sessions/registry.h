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

#include "daemon/base/unique_fd.h"
#include "daemon/gpu/gpu_shares.h"
#include "daemon/pools/nvm_pool.h"
#include "daemon/pools/pool_file.h"
#include "daemon/pools/pools.h"
#include "daemon/promises/claims.h"
#include "daemon/sessions/journal.h"
#include "daemon/sessions/report_checks.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/tallies.h"
#include "daemon/sessions/turns.h"
#include "daemon/shares/arbiter.h"
#include "daemon/writes/writes.h"
#include "liballoc/wire/protocol.h"

namespace terrace::daemon {

struct Limits {
  std::size_t sessions = 1024;
  std::size_t sessions_per_user = 256;
  std::size_t ended_jobs = 256;
  std::size_t jobs_apart = 100;  // with sums of their own in tallies(), and as many users
};

struct Admission {
  std::optional<Refusal> refusal;
  Session* session = nullptr;  // else; the registry's
  UniqueFd pool_fd;            // a new pool, to be passed on
  UniqueFd nvm_fd;             // likewise, a file on NVM
  std::string pool_problem;    // why there is none though one was wanted
  bool was_cut = false;        // it is back, and less is left, or on record, than it says that it had
  bool is_expected = true;     // else it says that it is back, and nothing is on record
};

struct Announcement {
  SessionId session = 0;
  std::uint64_t budget_bytes = 0;
  std::uint64_t pool_limit_bytes = 0;
  std::optional<std::uint64_t> nvm_limit_bytes = {};  // where that changed
};

// What a job did in all, over processes that ended.
struct EndedJob {
  Counters totals{};
  std::uint64_t processes = 0;
  std::uint64_t budget_bytes = 0;  // the job's, when the last of them ended
  std::uint64_t ended_ns = 0;
};

class Registry {
 public:
  Registry(std::uint64_t machine_bytes, Pools pools, Limits limits = {});
  Registry(const Registry&) = delete;

  // What jobs say that they had from an earlier daemon is believed as far as it is among these, and said by
  // then. Without this call all of it is, within what is left: a daemon that serves one user.
  void expect(Claims claims, std::uint64_t until_ns) {
    claims_ = std::move(claims);
    expected_until_ns_ = until_ns;
  }
  // From now on jobs that ask for it are given NVM.
  void use_nvm(const NvmRule& rule) { nvm_.emplace(rule); }
  // Whether a greeting is to be answered ahead of others: it is of a job that is back and can have been
  // there.
  bool is_expected(const wire::Hello& hello, uid_t uid) const;
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
  const std::map<JobKey, EndedJob>& ended_jobs() const { return ended_; }
  // As of each session's last turn.
  const Tallies& tallies() const { return tallies_; }
  // What it grants is looked at anew, and a pause may begin, which it counts in rounds.
  Arbiter& change_arbiter() {
    ++revision_;
    rounds_to_count_ = Arbiter::pausing_rounds;
    return arbiter_;
  }
  const Arbiter& arbiter() const { return arbiter_; }
  Pools& pools() { return pools_; }
  const Pools& pools() const { return pools_; }
  // Of the session, wherever its memory is.
  std::uint64_t granted_bytes(SessionId session) const {
    return gpu_.has(session) ? gpu_.granted_bytes(session) : arbiter_.granted_bytes(session);
  }
  bool is_here(const JobKey& job) const;
  // Of the job wherever it has memory. As Arbiter::set_job_weight().
  std::optional<Refusal> set_job_weight(const JobKey& job, std::uint64_t weight);
  GpuShares& change_gpu() {
    ++revision_;
    return gpu_;
  }
  Pools& change_pools() {
    ++revision_;
    return pools_;
  }
  Writes& change_writes() {
    ++revision_;
    return writes_;
  }
  const GpuShares& gpu() const { return gpu_; }
  const std::optional<NvmPool>& nvm() const { return nvm_; }
  Writes& writes() { return writes_; }
  const Writes& writes() const { return writes_; }
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
  bool is_on_record(const JobKey& job) const { return !claims_ || claims_->has(job); }
  wire::Hello believed(const JobKey& job, const wire::Hello& hello);
  std::optional<Refusal> promise(SessionId id, const JobKey& job, const wire::Hello& hello,
                                 const std::optional<PoolFile>& pool, Admission* admission);
  void give_terms(const JobKey& job, const wire::Hello& hello);
  void give_tier_limits(const JobKey& job);
  void forget_tier_limits(const JobKey& job);
  std::optional<Refusal> promise_gpu(SessionId id, const JobKey& job, const wire::Hello& hello,
                                     Admission* admission);
  void turn_away(SessionId id, const JobKey& job, const Refusal& refusal, std::uint64_t now_ns);
  std::optional<Refusal> promise_memory(SessionId id, const JobKey& job, const wire::Hello& hello,
                                        Admission* admission);
  std::optional<Refusal> promise_pool(SessionId id, const JobKey& job, const wire::Hello& hello,
                                      const std::optional<PoolFile>& pool, Admission* admission);
  std::optional<Refusal> adopt_pool(SessionId id, const JobKey& job, const wire::Hello& hello,
                                    const std::optional<PoolFile>& pool, Admission* admission);
  std::optional<Refusal> check_pool_is_free(const FileId& file, const Peer& peer) const;
  void open_pool(Session& session, Admission* admission);
  void give_nvm(Session& session, Admission* admission);
  bool is_nvm_limit_due(Session& session);
  void remember_ended(const Session& session, std::uint64_t now_ns);

  Limits limits_;
  Arbiter arbiter_;
  GpuShares gpu_;
  Pools pools_;
  std::optional<NvmPool> nvm_;
  Writes writes_;
  Journal journal_;
  std::optional<Claims> claims_;
  std::uint64_t expected_until_ns_ = 0;
  Sessions sessions_;
  ReportChecks report_checks_{sessions_, arbiter_, gpu_, pools_, journal_};
  std::map<JobKey, EndedJob> ended_;
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

// Adds `more` to `sum`. Peaks and states are not summed: the largest of one process stands.
void add_counters(const Counters& more, Counters* sum);

}  // namespace terrace::daemon
