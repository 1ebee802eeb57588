// See write_shares.h.
#include "daemon/writes/write_shares.h"

#include <algorithm>
#include <cerrno>

#include "daemon/base/size.h"
#include "daemon/shares/share_tree.h"

namespace terrace::daemon {

using records::Endurance;

void WriteShares::set_limit(std::uint64_t bytes) {
  if (bytes == limit_bytes_) return;
  limit_bytes_ = bytes;
  may_be_due_ = true;
  for (auto& [id, session] : sessions_) session.is_told = false;
}

void WriteShares::set_users(UserShares users) {
  users.set_caps_loans(true);
  users.set_keeps_guarantees(true);
  users.keep_job_limits(users_);
  users_ = std::move(users);
}

std::optional<Refusal> WriteShares::set_job_limit(const JobKey& job, const JobLimit& limit) {
  if (limit_bytes_ == no_limit && limit.bytes != no_limit)
    return Refusal{EINVAL, 0,
                   "what one job may write in a day is a part of [pool] writes_per_day, which terraced.toml "
                   "does not set; set it"};
  if (auto refusal = users_.set_job_limit(job, limit)) return refusal;
  may_be_due_ = true;
  for (auto& [id, session] : sessions_)
    if (session.job == job) session.is_told = false;
  return std::nullopt;
}

void WriteShares::join(SessionId session, const JobKey& job, bool has_lease) {
  const Session fresh{.job = job, .is_known = !has_lease, .has_lease = has_lease};
  if (!sessions_.try_emplace(session, fresh).second) return;
  may_be_due_ = true;
  Job& joined = jobs_[job];
  ++joined.sessions;
  if (const auto past = past_.extract(job)) joined.charged_bytes = past.mapped();
}

void WriteShares::observe(SessionId id, std::uint64_t written_bytes) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  if (!session.is_known) {
    // So that no lease passes the largest number.
    session.written_bytes = session.most_bytes = std::min(written_bytes, records::most_written_bytes);
    session.is_known = may_be_due_ = true;
    return;
  }
  const std::uint64_t counts = std::clamp(written_bytes, session.written_bytes, session.most_bytes);
  if (counts == session.written_bytes) return;
  session.has_written = may_be_due_ = true;
  reported_bytes_ += counts - session.written_bytes;
  session.written_bytes = counts;
}

std::uint64_t WriteShares::leave(SessionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return 0;
  const std::uint64_t ahead = found->second.ahead_bytes();
  const auto job = jobs_.find(found->second.job);
  job->second.charged_bytes = minus(job->second.charged_bytes, ahead);
  if (--job->second.sessions == 0) {
    remember_charge(job->first, job->second.charged_bytes);
    jobs_.erase(job);
  }
  sessions_.erase(found);
  return ahead;
}

// Of so many jobs that one day's are never so many. Whoever makes up that many names is bound by his user's
// limit.
void WriteShares::remember_charge(const JobKey& job, std::uint64_t bytes) {
  if (bytes != 0 && users_.jobs().rule_of(job) && past_.size() < most_past_jobs) past_[job] = bytes;
}

// ---- what there is ----------------------------------------------------------------------------------------

// The unreported share is bounded as a user's: who hides what he writes takes no more than that from others.
std::uint64_t WriteShares::counted_bytes(const Endurance& written) const {
  return written.today_bytes() + std::min(unreported_bytes_, users_.cap_of(records::nobody));
}

std::uint64_t WriteShares::left_bytes(const Endurance& written) const {
  return limit_bytes_ == no_limit ? no_limit : minus(limit_bytes_, counted_bytes(written));
}

std::uint64_t WriteShares::left_bytes(const JobKey& job) const {
  const auto found = jobs_.find(job);
  if (limit_bytes_ == no_limit) return no_limit;
  return found == jobs_.end() ? 0 : found->second.room_bytes;
}

std::uint64_t WriteShares::charged_bytes(const JobKey& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? 0 : found->second.charged_bytes;
}

std::uint64_t WriteShares::ahead_bytes(SessionId id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? 0 : found->second.ahead_bytes();
}

std::uint64_t WriteShares::ahead_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, session] : sessions_) sum += session.ahead_bytes();
  return sum;
}

// What a job may be leased beyond what it was charged with. Jobs that ended, and users who have none, hold
// what they wrote.
void WriteShares::divide(const WeightOf& weight_of, const Endurance& written) {
  if (limit_bytes_ == no_limit) {
    for (auto& [key, job] : jobs_) job.room_bytes = no_limit;
    return;
  }
  ShareTree tree(users_);
  std::map<std::uint32_t, std::uint64_t> of_jobs;
  const auto add = [&](const JobKey& key, const Holding& holding) {
    of_jobs[key.uid] += holding.bytes;
    tree.add(key.uid, holding);
  };
  for (const auto& [key, job] : jobs_) {
    const JobShare share = users_.of(key);
    add(key, {job.charged_bytes, true, weight_of(key), share.guarantee_bytes, *share.limit_bytes});
  }
  for (const auto& [key, charged] : past_) {  // what is left of its guarantee waits for it
    const std::uint64_t guarantee = users_.of(key).guarantee_bytes;
    if (guarantee != 0) add(key, {charged, true, 1, guarantee, std::max(charged, guarantee)});
  }
  std::uint64_t counted = counted_bytes(written);
  for (const auto& [uid, bytes] : written.today) {
    tree.add_rest(uid, minus(bytes, of_jobs[uid]));
    counted = minus(counted, bytes);
  }
  tree.keep_guarantees();
  const std::vector<std::uint64_t> lent = tree.lend(minus(limit_bytes_, counted));
  std::size_t next = 0;
  for (auto& [key, job] : jobs_) job.room_bytes = lent[next++];
}

// ---- leases -----------------------------------------------------------------------------------------------

std::uint64_t WriteShares::step_of(const Session& session) const {
  return session.has_written ? step_bytes : first_bytes;
}

// Who was told that there is no more is looked at again: another one may have given back.
bool WriteShares::wants_lease(const Session& session) const {
  if (!session.is_known) return false;
  return !session.is_told || session.ahead_bytes() < step_of(session) / 4 * 3;
}

bool WriteShares::is_due(std::uint64_t day) {
  if (may_be_due_)
    may_be_due_ = std::any_of(sessions_.begin(), sessions_.end(),
                              [this](const auto& one) { return wants_lease(one.second); });
  return may_be_due_ || day != day_;
}

void WriteShares::begin_day(Endurance* written) {
  if (written->day == day_) return;
  const bool is_first = day_ == 0;
  day_ = written->day;
  unreported_bytes_ = 0;
  if (is_first) return;
  past_.clear();
  for (auto& [key, job] : jobs_) job.charged_bytes = 0;
  for (auto& [id, session] : sessions_) {
    written->charge(session.job.uid, session.ahead_bytes());
    jobs_.at(session.job).charged_bytes += session.ahead_bytes();
  }
}

// True: something is to be told.
bool WriteShares::lease_to(Session& session, Endurance* written) {
  Job& job = jobs_.at(session.job);
  std::uint64_t& room = job.room_bytes;
  const std::uint64_t ahead = session.ahead_bytes(),
                      whole = std::max(room, room + ahead);  // room may be no_limit
  const std::uint64_t part = std::max(whole / (2 * job.sessions), std::min(whole, least_bytes));
  const std::uint64_t wanted = minus(std::min(step_of(session), part), ahead);
  const std::uint64_t given = room < none_bytes ? 0 : std::min(wanted, room);
  const bool is_limited = limit_bytes_ != no_limit;
  if (is_limited) room -= given;
  const bool is_last = room < none_bytes;
  const bool has_changed = given != 0 || is_last != session.is_last || !session.is_told;
  const bool is_news = is_limited ? has_changed : session.has_lease;
  session.has_lease = is_limited;
  session.most_bytes += given;
  session.is_last = is_last;
  session.is_told = true;
  job.charged_bytes += given;
  written->charge(session.job.uid, given);
  return is_news;
}

std::vector<WriteLease> WriteShares::lease(const WeightOf& weight_of, Endurance* written) {
  begin_day(written);
  divide(weight_of, *written);
  const bool is_limited = limit_bytes_ != no_limit;
  std::vector<WriteLease> leases;
  for (auto& [id, session] : sessions_) {
    if (!wants_lease(session) || !lease_to(session, written)) continue;
    leases.push_back({id, is_limited ? session.most_bytes : no_limit, session.is_last});
  }
  return leases;
}

}  // namespace terrace::daemon
