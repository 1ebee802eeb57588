// What has been written to a drive by all jobs, today and in total, and how much of its endurance budget is
// left.
//
// One file in the drive's directory, .terrace-endurance (docs/formats/endurance.md), shared by all jobs
// there. A job charges a coarse step of bytes before it writes them, so that one that is killed leaves the
// count too high, by a step at most, never too low; an orderly end gives the rest of its last step back, and
// so does the first write of another day, which is charged to that day.
//
// All who may make files in the directory share the file: it has the directory's permissions to read and
// write, and is changed in place, in one write, under a lock on the directory; in a sticky one, such as
// /var/tmp, nobody could replace another user's. Whatever is read from it is checked: a damaged one, a link,
// and what has a second name are refused.
//
// Days are UTC. Not thread-safe. Errors are errno values.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::liballoc::offload {

struct EnduranceCounts {
  std::uint64_t day = 0;  // since 1970-01-01
  std::uint64_t today_bytes = 0;
  std::uint64_t total_bytes = 0;
};

// The file's 64 bytes. decode: false if they are not what encode() makes.
struct EnduranceRecord {
  static constexpr std::size_t bytes = 64;
  static void encode(const EnduranceCounts& counts, std::byte* out);
  static bool decode(const std::byte* record, std::size_t size, EnduranceCounts* out);
};

class EnduranceLedger {
 public:
  static constexpr const char* file_name = ".terrace-endurance";
  static constexpr std::uint64_t step_bytes = std::uint64_t{256} << 20;

  EnduranceLedger() = default;
  EnduranceLedger(const EnduranceLedger&) = delete;
  EnduranceLedger& operator=(const EnduranceLedger&) = delete;
  ~EnduranceLedger() { close(); }

  // Budgets of 0 are none. 0 or errno with *reason: EBADMSG for a damaged file, the errno of a directory that
  // cannot be written to, EAGAIN when another process does not let go of it.
  int open(const std::string& directory, std::uint64_t per_day_bytes, std::uint64_t total_bytes,
           std::string* reason);
  // Gives back what was charged and not taken.
  void close();

  // Before `bytes` are written. 0, EDQUOT when that would pass a budget, or the errno of the file.
  int take(std::uint64_t bytes);
  // The drive did not take them.
  void untake(std::uint64_t bytes) { charged_bytes_ += bytes; }

  // As of the last charge, less what this job has not written of it.
  std::uint64_t today_bytes() const;
  std::uint64_t total_bytes() const;

 private:
  int update(std::uint64_t needed, bool gives_back);
  int apply(std::uint64_t needed, bool gives_back, EnduranceCounts* counts, std::uint64_t* charged) const;
  int read(int file, EnduranceCounts* out) const;
  int write(int file, const EnduranceCounts& counts) const;
  int create(const EnduranceCounts& counts) const;
  int lock_directory() const;
  std::string remedy_for(int error) const;
  std::uint64_t room(const EnduranceCounts& counts) const;

  int directory_fd_ = -1;
  std::uint64_t per_day_bytes_ = 0;
  std::uint64_t budget_bytes_ = 0;
  std::uint64_t charged_bytes_ = 0;  // ahead of what was written
  std::uint64_t charge_day_ = 0;     // when that was
  EnduranceCounts counts_;
};

}  // namespace terrace::liballoc::offload
