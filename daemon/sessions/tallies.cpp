// See tallies.h.
#include "daemon/sessions/tallies.h"

#include <algorithm>

namespace terrace::daemon {
namespace {

void add_saturating(const Counters& more, Counters* sum) {
  for (std::size_t i = 0; i < sum->size(); ++i) {
    const std::uint64_t before = (*sum)[i];
    (*sum)[i] = std::max(before, before + more[i]);  // wrapped around, it would fall
  }
}

std::uint64_t added(std::uint64_t before, std::uint64_t now) {
  return now < before || now - before > Tallies::implausible ? 0 : now - before;
}

template <class Key>
void forget_idle(std::map<Key, Tally>* tallies, std::uint64_t now_ns) {
  std::erase_if(*tallies, [now_ns](const auto& entry) {
    return entry.second.sessions == 0 && now_ns >= entry.second.idle_ns + Tallies::keep_ns;
  });
}

}  // namespace

Tally& Tallies::tally_of(const JobKey& job) {
  if (const auto found = jobs_.find(job); found != jobs_.end()) return found->second;
  const auto of_user = static_cast<std::size_t>(std::count_if(
      jobs_.begin(), jobs_.end(), [&](const auto& entry) { return entry.first.uid == job.uid; }));
  return of_user < most_ - jobs_.size() ? jobs_[job] : other_jobs_;
}

Tally& Tallies::tally_of(std::uint32_t user) {
  if (const auto found = users_.find(user); found != users_.end()) return found->second;
  return users_.size() < most_ ? users_[user] : other_users_;
}

void Tallies::join(SessionId session, const JobKey& job, bool is_back, std::uint64_t now_ns) {
  forget_old(now_ns);
  Member member{job, &tally_of(job), &tally_of(job.uid), {}, !is_back};
  ++member.of_job->sessions;
  ++member.of_user->sessions;
  members_[session] = std::move(member);
}

void Tallies::observe(SessionId session, const Counters& counters) {
  const auto found = members_.find(session);
  if (found == members_.end()) return;
  Member& member = found->second;
  Counters more{};
  for (std::size_t i = 0; member.is_known && i < more.size(); ++i)
    more[i] = added(member.last[i], counters[i]);
  member.last = counters;
  member.is_known = true;
  for (Counters* sum : {&member.of_job->did, &member.of_user->did, &all_}) add_saturating(more, sum);
}

void Tallies::leave(SessionId session, std::uint64_t now_ns) {
  const auto found = members_.find(session);
  if (found == members_.end()) return;
  for (Tally* tally : {found->second.of_job, found->second.of_user}) {
    --tally->sessions;
    tally->idle_ns = now_ns;
  }
  members_.erase(found);
}

void Tallies::forget_old(std::uint64_t now_ns) {
  forget_idle(&jobs_, now_ns);
  forget_idle(&users_, now_ns);
}

}  // namespace terrace::daemon
