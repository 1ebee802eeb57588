// What is written to the drive behind the pool: counted for the day, over restarts, and leased to sessions
// (write_shares.h). The record is one file of the daemon's user for the drive
// (tiers/records/endurance_file.h), which private daemons of that user share. A machine that has the file
// under a lock too long is no reason to wait: nothing is leased until the next round.
//
// The thread of the loop only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/writes/drive_counter.h"
#include "daemon/writes/write_shares.h"
#include "tiers/records/endurance_file.h"

namespace terrace::daemon {

class Writes {
 public:
  static constexpr std::uint64_t look_ns = 1'000'000'000;  // between two looks at the drive's own count

  explicit Writes(std::function<std::uint64_t()> day = records::day_of_clock) : day_(std::move(day)) {}

  // Keeps the record in `state` from now on. "" or why it cannot: then it is kept in memory only.
  std::string open(const std::string& state, const std::string& pool_directory);
  // What the drive itself counts is looked at.
  void watch(DriveCounter drive) { drive_ = std::move(drive); }
  // A day's, or no_limit; weights and caps of users.
  void set_limit(std::uint64_t bytes, UserShares users);

  void join(SessionId session, const JobKey& job, bool has_lease = false) {
    shares_.join(session, job, has_lease);
  }
  void observe(SessionId session, std::uint64_t written_bytes) { shares_.observe(session, written_bytes); }
  void leave(SessionId session, std::uint32_t user);
  // Leases what is due. What is to be told.
  std::vector<WriteLease> round(std::uint64_t now_ns, const WriteShares::WeightOf& weight_of);
  // At the daemon's end: gives back what nobody was leased.
  void finish();

  std::optional<Refusal> set_job_limit(const JobKey& job, const JobLimit& limit) {
    return shares_.set_job_limit(job, limit);
  }
  void forget_job(const JobKey& job) { shares_.forget_job(job); }

  std::uint64_t limit_bytes() const { return shares_.limit_bytes(); }
  const UserShares& users() const { return shares_.users(); }
  // Of today, leases included.
  std::uint64_t today_bytes() const { return record_.today_bytes(); }
  std::uint64_t total_bytes() const { return record_.total_bytes; }
  // no_limit where there is none.
  std::uint64_t left_bytes() const { return shares_.left_bytes(record_); }
  std::uint64_t left_bytes(const JobKey& job) const { return shares_.left_bytes(job); }
  std::uint64_t charged_bytes(const JobKey& job) const { return shares_.charged_bytes(job); }
  std::uint64_t ahead_bytes() const { return shares_.ahead_bytes(); }
  std::uint64_t ahead_bytes(SessionId session) const { return shares_.ahead_bytes(session); }
  // What the drive took today beyond what was reported, since the daemon runs; nothing where it does not say.
  std::optional<std::uint64_t> unreported_bytes() const { return unreported_bytes_; }

 private:
  void look_at_drive(std::uint64_t now_ns);
  void update(const std::function<void(records::Endurance*)>& change);

  std::function<std::uint64_t()> day_;
  WriteShares shares_;
  records::EnduranceFile file_;
  records::Endurance record_;  // as it was read or written last
  records::UserBytes given_back_;
  DriveCounter drive_;
  struct Mark {
    std::uint64_t day = 0, drive_bytes = 0, reported_bytes = 0;
  };
  std::optional<Mark> mark_;
  std::optional<std::uint64_t> unreported_bytes_;
  std::uint64_t next_look_ns_ = 0;
  bool has_failed_ = false;
};

}  // namespace terrace::daemon
