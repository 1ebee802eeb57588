// The file that the record of promises is in: "<socket>.promises" (kept_file.h). It has two records, written
// in turn, of which the next daemon takes the newer one that is whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/kept_file.h"
#include "daemon/promises/record.h"

namespace terrace::daemon {

class RecordFile {
 public:
  static constexpr std::uint64_t pause_ns = 200'000'000;  // changes within it are written together

  // What an earlier daemon left. A missing or broken record is said once, and is as good as an empty one.
  Promises open(KeptFile file);
  bool is_due(std::uint64_t now_ns) const { return !file_.path().empty() && now_ns >= next_ns_; }
  // Writes what has changed, unless it wrote a moment ago. A failure is said once.
  void keep(const Promises& promises, std::uint64_t now_ns);
  // The same at once, at the daemon's end; with nothing to say the file goes.
  void finish(const Promises& promises);

 private:
  void write(const Promises& promises);
  int put(std::string_view record);

  KeptFile file_;
  std::size_t place_ = 0;  // of the newer record
  std::uint32_t number_ = 0;
  std::string boot_;
  Promises written_;
  bool is_written_ = false;
  bool has_failed_ = false;
  std::uint64_t next_ns_ = 0;
};

}  // namespace terrace::daemon
