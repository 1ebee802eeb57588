// See writes.h.
#include "daemon/writes/writes.h"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstring>

#include "daemon/base/size.h"

namespace terrace::daemon {

using records::Endurance;

std::string Writes::open(const std::string& state, const std::string& pool_directory) {
  std::string reason;
  if (file_.open(state, pool_directory, day_(), records::Outlives::programs, &reason) != 0) return reason;
  update([](Endurance*) {});
  return {};
}

void Writes::set_limit(std::uint64_t bytes, UserShares users) {
  shares_.set_limit(bytes);
  shares_.set_users(std::move(users));
}

void Writes::leave(SessionId session, std::uint32_t user) {
  if (const std::uint64_t bytes = shares_.leave(session); bytes != 0) given_back_[user] += bytes;
}

// What is given back goes into the record with the next change of it.
void Writes::update(const std::function<void(Endurance*)>& change) {
  bool is_done = false;
  const auto once = [&](Endurance* written) {
    if (written->day == record_.day)
      for (const auto& [user, bytes] : given_back_) written->give_back(user, bytes);
    given_back_.clear();
    change(written);
    record_ = *written;
    is_done = true;
    return 0;
  };
  const int error = file_.is_open() ? file_.update(day_(), 0, once) : 0;
  if (error == EAGAIN) return;
  if (error != 0 && !has_failed_)
    spdlog::warn(
        "cannot keep {}: {}; terraced counts in memory what is written to the drive, and forgets the count "
        "when it ends",
        file_.path(), std::strerror(error));
  has_failed_ = error != 0;
  if (is_done) return;
  Endurance written = record_;
  written.begin_day(day_());
  once(&written);
}

// Both counts go up; the drive's is ahead of the reports by what was written since they were read.
void Writes::look_at_drive(std::uint64_t now_ns) {
  if (now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + look_ns;
  const auto drive_bytes = drive_.written_bytes();
  if (!drive_bytes) return;
  if (!mark_ || mark_->day != day_() || *drive_bytes < mark_->drive_bytes)
    mark_ = Mark{day_(), *drive_bytes, shares_.reported_bytes()};
  unreported_bytes_ =
      minus(*drive_bytes - mark_->drive_bytes, shares_.reported_bytes() - mark_->reported_bytes);
  shares_.set_unreported(*unreported_bytes_);
}

std::vector<WriteLease> Writes::round(std::uint64_t now_ns, const WriteShares::WeightOf& weight_of) {
  const bool looks = now_ns >= next_look_ns_;
  if (!looks && given_back_.empty() && !shares_.is_due(day_())) return {};
  look_at_drive(now_ns);
  std::vector<WriteLease> leases;
  update([&](Endurance* written) { leases = shares_.lease(weight_of, written); });
  return leases;
}

void Writes::finish() {
  if (!given_back_.empty()) update([](Endurance*) {});
}

}  // namespace terrace::daemon
