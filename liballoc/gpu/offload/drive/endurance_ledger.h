// What has been written to a drive by all of a user's jobs, today and in total, and how much of its endurance
// budget is left.
//
// One record of the user's for each drive, in his state directory (tiers/records/endurance_file.h), which a
// daemon that counts for the pager shares. Nobody else can enter that directory, so that no file which
// somebody leaves beside the pool keeps a job from counting. A job charges a coarse step of bytes before it
// writes them, so that one that is killed leaves the count too high, by a step at most, never too low; an
// orderly end gives the rest of its last step back, and so does the first write of another day, which is
// charged to that day.
//
// Days are UTC. Not thread-safe. Errors are errno values.
#pragma once

#include <cstdint>
#include <string>

#include "tiers/records/endurance_file.h"

namespace terrace::liballoc::offload {

class EnduranceLedger {
 public:
  static constexpr std::uint64_t step_bytes = std::uint64_t{256} << 20;

  EnduranceLedger() = default;
  EnduranceLedger(const EnduranceLedger&) = delete;
  EnduranceLedger& operator=(const EnduranceLedger&) = delete;
  ~EnduranceLedger() { close(); }

  // Of the drive with `directory`. Budgets of 0 are none. 0 or errno with *reason: EBADMSG for a damaged
  // record, the errno of a state directory that cannot be used, EAGAIN when another process does not let go
  // of the record.
  int open(const std::string& directory, std::uint64_t per_day_bytes, std::uint64_t total_bytes,
           std::string* reason);
  // Gives back what was charged and not taken.
  void close();

  // Before `bytes` are written. 0, EDQUOT when that would pass a budget, or the errno of the record.
  int take(std::uint64_t bytes);
  // The drive did not take them.
  void untake(std::uint64_t bytes) { charged_bytes_ += bytes; }

  // As of the last charge, less what this job has not written of it.
  std::uint64_t today_bytes() const;
  std::uint64_t total_bytes() const;

 private:
  int update(std::uint64_t needed, bool gives_back);
  int apply(std::uint64_t needed, bool gives_back, records::Endurance* written, std::uint64_t* charged) const;
  std::uint64_t room(const records::Endurance& written) const;

  records::EnduranceFile file_;
  std::uint64_t per_day_bytes_ = 0;
  std::uint64_t budget_bytes_ = 0;
  std::uint64_t charged_bytes_ = 0;  // ahead of what was written
  std::uint64_t charge_day_ = 0;     // when that was
  records::Endurance written_;
};

}  // namespace terrace::liballoc::offload
