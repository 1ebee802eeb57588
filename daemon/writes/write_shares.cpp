// See write_shares.h.
#include "daemon/writes/write_shares.h"

#include <algorithm>

#include "daemon/base/size.h"
#include "daemon/shares/shares.h"

namespace terrace::daemon {

using records::Endurance;

void WriteShares::set_limit(std::uint64_t bytes) {
  if (bytes == limit_bytes_) return;
  limit_bytes_ = bytes;
  for (auto& [id, session] : sessions_) session.is_told = false;
}

void WriteShares::join(SessionId session, const JobKey& job, bool has_lease) {
  const Session fresh{.job = job, .is_known = !has_lease, .has_lease = has_lease};
  if (!sessions_.try_emplace(session, fresh).second) return;
  ++jobs_[job].sessions;
}

void WriteShares::observe(SessionId id, std::uint64_t written_bytes) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  if (!session.is_known) {
    // So that no lease passes the largest number.
    session.written_bytes = session.most_bytes = std::min(written_bytes, records::most_written_bytes);
    session.is_known = true;
    return;
  }
  const std::uint64_t counts = std::clamp(written_bytes, session.written_bytes, session.most_bytes);
  session.has_written = session.has_written || counts > session.written_bytes;
  reported_bytes_ += counts - session.written_bytes;
  session.written_bytes = counts;
}

std::uint64_t WriteShares::leave(SessionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return 0;
  const std::uint64_t ahead = found->second.ahead_bytes();
  const auto job = jobs_.find(found->second.job);
  job->second.charged_bytes = minus(job->second.charged_bytes, ahead);
  if (--job->second.sessions == 0) jobs_.erase(job);
  sessions_.erase(found);
  return ahead;
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

// What each user who has jobs may be leased beyond what he was charged with.
std::map<std::uint32_t, std::uint64_t> WriteShares::rooms_of_users(const Endurance& written) const {
  std::map<std::uint32_t, std::uint64_t> rooms;
  for (const auto& [job, state] : jobs_) rooms[job.uid] = 0;
  std::uint64_t absent_bytes = counted_bytes(written);
  std::vector<Holding> holders;
  for (const auto& [uid, room] : rooms) {
    const auto charged = written.today.find(uid);
    const std::uint64_t bytes = charged == written.today.end() ? 0 : charged->second;
    absent_bytes = minus(absent_bytes, bytes);
    holders.push_back(
        {.bytes = bytes, .borrows = true, .weight = users_.of(uid).weight, .most = users_.cap_of(uid)});
  }
  const std::vector<std::uint64_t> lent = loans(minus(limit_bytes_, absent_bytes), holders);
  std::size_t next = 0;
  for (auto& [uid, room] : rooms) room = lent[next++];
  return rooms;
}

void WriteShares::divide(const WeightOf& weight_of, const Endurance& written) {
  if (limit_bytes_ == no_limit) {
    for (auto& [key, job] : jobs_) job.room_bytes = no_limit;
    return;
  }
  const auto rooms = rooms_of_users(written);
  for (auto first = jobs_.begin(); first != jobs_.end();) {  // a user's jobs lie beside each other
    const std::uint32_t uid = first->first.uid;
    std::uint64_t whole = rooms.at(uid);
    std::vector<Holding> holders;
    for (auto job = first; job != jobs_.end() && job->first.uid == uid; ++job) {
      holders.push_back(
          {.bytes = job->second.charged_bytes, .borrows = true, .weight = weight_of(job->first)});
      whole += job->second.charged_bytes;
    }
    const std::vector<std::uint64_t> lent = loans(whole, holders);
    for (std::size_t i = 0; i < lent.size(); ++i, ++first) first->second.room_bytes = lent[i];
  }
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

bool WriteShares::is_due(std::uint64_t day) const {
  return day != day_ || std::any_of(sessions_.begin(), sessions_.end(),
                                    [this](const auto& one) { return wants_lease(one.second); });
}

void WriteShares::begin_day(Endurance* written) {
  if (written->day == day_) return;
  const bool is_first = day_ == 0;
  day_ = written->day;
  unreported_bytes_ = 0;
  if (is_first) return;
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
