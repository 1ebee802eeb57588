// The record of one drive, kept by all programs of one user that write to it: each reads it, changes it and
// replaces it, under a lock on the directory, which nobody else can enter.
//
// Not thread-safe. Errors are errno values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tiers/records/endurance.h"
#include "tiers/records/private_file.h"

namespace terrace::records {

class EnduranceFile {
 public:
  EnduranceFile() = default;
  EnduranceFile(const EnduranceFile&) = delete;
  EnduranceFile& operator=(const EnduranceFile&) = delete;
  ~EnduranceFile() { close(); }

  // For the drive of `pool_directory`, in `state`, which is made; begins the day. 0, or errno with *reason,
  // which names the remedy: EBADMSG for a damaged record.
  int open(const std::string& state, const std::string& pool_directory, std::uint64_t now_day,
           Outlives outlives, std::string* reason);
  void close();
  bool is_open() const { return directory_fd_ >= 0; }
  const std::string& path() const { return path_; }

  // Reads the record, begins the day, lets `change` change it, and writes it unless that returns an error.
  // Waits for other programs for `patience_ns` at most: 0, EAGAIN after that, EBADMSG for a damaged record,
  // or any errno of the file or of `change`. Without a file there is a record of nothing.
  using Change = std::function<int(Endurance*)>;
  int update(std::uint64_t now_day, std::uint64_t patience_ns, const Change& change);

 private:
  int lock(std::uint64_t patience_ns) const;
  int change_locked(std::uint64_t now_day, const Change& change);
  std::string reason_of(int error) const;

  int directory_fd_ = -1;
  std::string path_;
  Outlives outlives_ = Outlives::programs;
};

}  // namespace terrace::records
