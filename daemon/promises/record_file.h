// The file that the record of promises is in: beside the socket, "<socket>.promises", mode 0600, the daemon's
// own.
//
// It is replaced as a whole (a new file, then rename), so that a reader finds the old one or the new one. It
// is not synchronised: it need not outlive the machine, for no job does.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/promises/record.h"

namespace terrace::daemon {

class RecordFile {
 public:
  static constexpr std::uint64_t pause_ns = 200'000'000;  // changes within it are written together

  // What an earlier daemon left. A missing or broken record is said once, and is as good as an empty one.
  Promises open(std::string path);
  bool is_due(std::uint64_t now_ns) const { return !path_.empty() && now_ns >= next_ns_; }
  // Writes what has changed, unless it wrote a moment ago. A failure is said once.
  void keep(const Promises& promises, std::uint64_t now_ns);
  // The same at once, at the daemon's end; with nothing to say the file goes.
  void finish(const Promises& promises);

 private:
  void write(const Promises& promises);

  std::string path_;  // "": not open
  std::string boot_;
  Promises written_;
  bool is_written_ = false;
  bool has_failed_ = false;
  std::uint64_t next_ns_ = 0;
};

}  // namespace terrace::daemon
