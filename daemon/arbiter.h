// Who may keep how much DRAM. Pure: no clock, no I/O, the same answers for the same questions.
//
//   machine budget ── job (uid, name) ── session (a process of the job)
//
// A job's budget is the largest that one of its sessions asked for; it is met in full or the session is
// refused with what is left. Jobs that asked for nothing in particular share what the others leave, equally.
// Within a job the budget follows demand: max-min fair ("water filling") over what each process has
// allocated, so that a shell around a training program does not keep half of its memory.
//
// Handing budget from one process to another takes time: the giver has to evict first. So a rebalance lowers
// at once but raises only into room that is free by then; what is missing is raised by later rebalances.
//
// Invariant: within a job, the sum of max(granted, resident) never grows past the job's budget by a
// rebalance. A joining process may exceed it by at most `starting_bytes` until the others have given way.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace terrace::daemon {

using SessionId = std::uint64_t;

struct JobKey {
  std::uint32_t uid = 0;
  std::string name;
  friend bool operator==(const JobKey&, const JobKey&) = default;
  friend bool operator<(const JobKey& a, const JobKey& b) {
    return std::tie(a.uid, a.name) < std::tie(b.uid, b.name);
  }
};

// What one process uses, as far as it tells the truth; it can only cheat its own job.
struct Demand {
  std::uint64_t resident_bytes = 0;
  std::uint64_t live_bytes = 0;
};

struct Refusal {
  int error = 0;  // errno
  std::uint64_t available_bytes = 0;
  std::string reason;
};

struct Change {
  SessionId session = 0;
  std::uint64_t budget_bytes = 0;
  friend bool operator==(const Change&, const Change&) = default;
};

class Arbiter {
 public:
  static constexpr std::uint64_t minimum_bytes = 4ULL << 20;    // two runs: less cannot page at all
  static constexpr std::uint64_t starting_bytes = 64ULL << 20;  // for a process whose demand is not known yet

  explicit Arbiter(std::uint64_t machine_bytes) : machine_bytes_(machine_bytes) {}

  // A new process. `requested_bytes` 0: whatever the job gets. Nothing when admitted.
  std::optional<Refusal> admit(SessionId session, const JobKey& job, std::uint64_t requested_bytes);
  // One that says that it was in session with an earlier daemon. It runs already, so that refusing it would
  // only leave it uncounted; but nothing proves what it says, so that its job is promised no more than
  // admit() would promise it. When not even the minimum is left it shares, like a job without a promise. Its
  // own budget is what it held, within that. False: it was promised less than it says that it had.
  bool readmit(SessionId session, const JobKey& job, std::uint64_t requested_bytes, std::uint64_t held_bytes);
  void leave(SessionId session);

  void observe(SessionId session, const Demand& demand);
  // Budgets that changed, givers first. Call after every admit, leave and setting, and now and then.
  std::vector<Change> rebalance();

  // By an administrator. ENOENT: no such job.
  std::optional<Refusal> set_job_budget(const JobKey& job, std::uint64_t bytes);
  void set_machine_budget(std::uint64_t bytes);

  std::uint64_t machine_bytes() const { return machine_bytes_; }
  // Promised to jobs that asked for a size.
  std::uint64_t promised_bytes() const;
  std::uint64_t granted_bytes(SessionId session) const;
  std::uint64_t job_budget_bytes(const JobKey& job) const;

 private:
  struct Session {
    JobKey job;
    std::uint64_t requested_bytes = 0;
    std::uint64_t granted_bytes = 0;
    Demand demand;
    bool fresh = true;  // nothing was announced to it yet
  };
  struct Job {
    std::vector<SessionId> sessions;
    std::uint64_t promised_bytes = 0;  // 0: shares what is left
    bool fixed = false;                // set by an administrator
    bool unsettled = true;             // membership or budget changed, or a raise is owed
  };

  std::uint64_t available_for(const JobKey& job) const;
  std::uint64_t budget_of(const Job& job) const;
  void join(SessionId session, const JobKey& job, std::uint64_t requested_bytes);
  void unsettle_all();
  std::vector<std::uint64_t> targets(const Job& job, std::uint64_t budget) const;
  bool worth_announcing(const Job& job, const std::vector<std::uint64_t>& target, std::uint64_t budget) const;
  void rebalance_job(Job& job, std::vector<Change>* changes);
  void grant(SessionId id, std::uint64_t bytes, std::vector<Change>* changes);

  std::uint64_t machine_bytes_;
  std::map<SessionId, Session> sessions_;
  std::map<JobKey, Job> jobs_;
};

// Max-min fair shares of `whole`: nobody gets more than it wants while somebody else has less than that; what
// nobody wants is shared equally. The shares sum to `whole`.
std::vector<std::uint64_t> fair_shares(std::uint64_t whole, const std::vector<std::uint64_t>& wanted);

}  // namespace terrace::daemon
