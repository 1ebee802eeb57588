// See rebalance.h.
#include "daemon/shares/rebalance.h"

#include <algorithm>
#include <utility>

#include "daemon/base/size.h"
#include "daemon/shares/shares.h"

namespace terrace::daemon {
namespace {

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

// What a rebalance means to do with a job that needs it.
struct Plan {
  const JobKey* key = nullptr;
  MemberJob* job = nullptr;
  std::vector<std::uint64_t> target;  // as the job's sessions
};

class Rebalance {
 public:
  explicit Rebalance(Members* members) : members_(*members) {}
  std::vector<Change> run();

 private:
  std::vector<std::uint64_t> targets(const MemberJob& job) const;
  bool worth_announcing(const MemberJob& job, const std::vector<std::uint64_t>& target) const;
  std::uint64_t room_on_machine() const;
  std::uint64_t held_by(const MemberJob& job) const;
  PromisedBytes held_by_all() const;
  std::uint64_t room_in(const MemberJob& job) const;
  void lower(const Plan& plan);
  void raise(const Plan& plan, std::uint64_t* machine_room);
  void raise_beside(const Plan& plan, PromisedBytes* held, std::uint64_t* machine_room);
  void grant(SessionId id, std::uint64_t bytes);

  Members& members_;
  std::vector<Change> changes_;
};

std::vector<std::uint64_t> Rebalance::targets(const MemberJob& job) const {
  const std::uint64_t budget = job.usable_bytes;
  const std::uint64_t slack = std::min(starting_budget_bytes, budget / job.sessions.size());
  std::vector<std::uint64_t> wanted;
  wanted.reserve(job.sessions.size());
  for (const SessionId id : job.sessions)
    wanted.push_back(std::min(budget, std::min(budget, members_.sessions.at(id).demand.live_bytes) + slack));
  std::vector<std::uint64_t> shares = fair_shares(budget, wanted);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (members_.sessions.at(job.sessions[i]).restrained)
      shares[i] = std::min(shares[i], starting_budget_bytes);
  }
  return shares;
}

// Small swings of demand are not worth a message and an eviction each.
bool Rebalance::worth_announcing(const MemberJob& job, const std::vector<std::uint64_t>& target) const {
  if (job.unsettled) return true;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const std::uint64_t granted = members_.sessions.at(job.sessions[i]).granted_bytes;
    if (distance(target[i], granted) > job.usable_bytes / 32) return true;
  }
  return false;
}

void Rebalance::grant(SessionId id, std::uint64_t bytes) {
  Member& session = members_.sessions.at(id);
  if (session.granted_bytes == bytes && !session.fresh) return;
  session.granted_bytes = bytes;
  session.fresh = false;
  session.update_held();
  changes_.push_back({id, bytes});
}

std::uint64_t Rebalance::room_on_machine() const {
  std::uint64_t held = 0;
  for (const auto& [id, session] : members_.sessions) held += session.held_bytes;
  return minus(members_.machine_bytes, held);
}

std::uint64_t Rebalance::held_by(const MemberJob& job) const {
  std::uint64_t held = 0;
  for (const SessionId id : job.sessions) held += members_.sessions.at(id).held_bytes;
  return held;
}

PromisedBytes Rebalance::held_by_all() const {
  PromisedBytes held;
  for (const auto& [key, job] : members_.jobs) held.add(key, held_by(job), members_.users.jobs());
  return held;
}

std::uint64_t Rebalance::room_in(const MemberJob& job) const { return minus(job.usable_bytes, held_by(job)); }

void Rebalance::lower(const Plan& plan) {
  for (std::size_t i = 0; i < plan.target.size(); ++i) {
    const SessionId id = plan.job->sessions[i];
    if (plan.target[i] < members_.sessions.at(id).granted_bytes) grant(id, plan.target[i]);
  }
}

// What a process still holds of an earlier grant is granted to it again without taking room: it counts as
// held already. One that just joined gets a start from the machine's room where the job has none, and the
// minimum in any case: with less it cannot page.
void Rebalance::raise(const Plan& plan, std::uint64_t* machine_room) {
  MemberJob& job = *plan.job;
  std::uint64_t room = room_in(job);
  const unsigned owed_times = std::exchange(job.owed_times, 0);
  job.unsettled = false;
  for (std::size_t i = 0; i < plan.target.size(); ++i) {
    const Member& session = members_.sessions.at(job.sessions[i]);
    const std::uint64_t target = plan.target[i], before = session.granted_bytes, held = session.held_bytes;
    const std::uint64_t owed = minus(target, before);
    if (owed == 0 && !session.fresh) continue;
    const std::uint64_t kept = job.borrows() ? 0 : std::min(owed, minus(held, before));
    const std::uint64_t taken = std::min({owed - kept, room, *machine_room}), raised = kept + taken;
    const std::uint64_t start =
        session.fresh ? std::min({target, starting_budget_bytes, std::max(*machine_room, least_budget_bytes)})
                      : 0;
    if (raised < owed) {
      job.unsettled = true;
      job.owed_times = owed_times + 1;
    }
    room -= taken;
    grant(job.sessions[i], std::max(before + raised, start));
    *machine_room = minus(*machine_room, minus(session.held_bytes, held));
  }
}

// Of the room, what is guaranteed to others than the job and not held by them is not for it, even if those
// who hold more than they are granted have yet to give. `held`: by all jobs.
void Rebalance::raise_beside(const Plan& plan, PromisedBytes* held, std::uint64_t* machine_room) {
  const std::uint64_t before = held_by(*plan.job);
  held->remove(*plan.key, before);
  std::uint64_t room = minus(*machine_room, members_.users.kept_from(*plan.key, *held));
  raise(plan, &room);
  const std::uint64_t after = held_by(*plan.job);
  held->add(*plan.key, after, members_.users.jobs());
  *machine_room = minus(*machine_room, minus(after, before));
}

std::vector<Change> Rebalance::run() {
  std::vector<Plan> plans;
  for (auto& [key, job] : members_.jobs) {
    Plan plan{&key, &job, targets(job)};
    if (worth_announcing(job, plan.target)) plans.push_back(std::move(plan));
  }
  for (const Plan& plan : plans) lower(plan);
  // Who asks for what is his goes before those who borrow more, and who has waited before those who ask anew.
  std::stable_sort(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    if (a.job->borrows() != b.job->borrows()) return b.job->borrows();
    return a.job->owed_times > b.job->owed_times;
  });
  std::uint64_t room = room_on_machine();
  const bool keeps = members_.users.keeps_guarantees();
  PromisedBytes held = keeps ? held_by_all() : PromisedBytes();
  for (const Plan& plan : plans) keeps ? raise_beside(plan, &held, &room) : raise(plan, &room);
  return std::move(changes_);
}

}  // namespace

std::vector<Change> rebalance(Members* members) { return Rebalance(members).run(); }

}  // namespace terrace::daemon
