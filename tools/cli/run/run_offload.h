// What the Python package tells of a job's offloading: each process appends one line of JSON, with the fields
// of terrace_offload_statistics, to the file that TERRACE_OFFLOAD_SUMMARY names, when it ends.
//
//   {"stored": 1204, "stored_bytes": 3328599654, "nvme_written_bytes": 1288490188, "host_wait_ns": 200000000,
//   …}
//
// The file is the job's to write, so nothing in it is believed: lines that are no such object are counted and
// left out, numbers that are none or negative do not count, sums stay at the largest number there is, and
// what is beyond the first mebibyte is not read.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "liballoc/wire/result.h"

namespace terrace::cli {

// The sums over a job's processes, by the fields' names (of "…_peak_bytes" the largest), and "processes".
// Null when there is no line at all; "damaged_lines" where there are any.
nlohmann::json sum_offload_lines(std::string_view lines);

// The file, which nobody else may read; it goes with this object. Read through the descriptor that made it,
// so that whatever the job puts in its place is never opened.
class OffloadFile {
 public:
  static Result<OffloadFile> create();
  OffloadFile() = default;
  OffloadFile(OffloadFile&& other) noexcept;
  OffloadFile& operator=(OffloadFile&& other) noexcept;
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;
  ~OffloadFile();

  const std::string& path() const { return path_; }  // empty: there is none
  nlohmann::json totals() const;

 private:
  int file_ = -1;
  std::string path_;
};

// "  offload  3.10 GiB stored in 1.20 k tensors, 1.20 GiB to NVMe, waited 200 ms", and a line about damage if
// any.
std::string offload_text(const nlohmann::json& totals);

}  // namespace terrace::cli
