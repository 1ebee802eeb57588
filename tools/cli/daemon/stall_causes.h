// Why a job waits: the time between a fault and the event that ended it, sorted by what had to happen in
// between.
//
//   fault ── read_done ── restore     the bytes were in the pool: read, verified and, if compressed, decoded;
//   events do
//                                     not tell these apart
//   fault ── restore                  they were still in DRAM and only had to be put back
//   fault ── cancel                   they were just leaving and were taken back
//   fault, and nothing of the above   first touch of fresh memory, or waiting for a free frame
//
// The last kind has no end that is told, so it is what the job's own stall counter has more than the others.
// Events may have been missed (the journal is bounded): then the shares are a sample and nothing is left
// over.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

namespace terrace::cli {

struct StallCauses {
  double pool_seconds = 0;
  double put_back_seconds = 0;
  double leaving_seconds = 0;
  std::uint64_t waits = 0;  // that were followed from fault to end
  bool is_hidden = false;   // another user's: the daemon does not say which runs its events are of

  double known_seconds() const { return pool_seconds + put_back_seconds + leaving_seconds; }
};

class StallAttribution {
 public:
  // One entry of the "events" answer of the daemon at `socket`, in order.
  void take(const std::string& socket, const nlohmann::json& event);
  // What was found for a job since the last call.
  StallCauses collect(const std::string& socket, const std::string& job);

 private:
  struct Wait {
    std::uint64_t since_ns = 0;
    bool read = false;
  };
  struct Run {  // of pages: which process, which address
    std::string socket;
    std::uint64_t session = 0;
    std::uint64_t address = 0;
    friend bool operator<(const Run& a, const Run& b) {
      return std::tie(a.socket, a.session, a.address) < std::tie(b.socket, b.session, b.address);
    }
  };
  void finish(const Run& run, const nlohmann::json& event, bool cancelled);

  std::map<Run, Wait> waiting_;
  std::map<std::pair<std::string, std::string>, StallCauses> found_;
};

// Whether a job's row, or its rates, tell of work that a codec did.
bool compresses(const nlohmann::json& row);

// One sentence for the user. `rates` is a row of job_columns() as rates_of() gives it, `complete` whether
// every event of the interval was seen.
std::string why_slow(const nlohmann::json& rates, const StallCauses& causes, bool complete);

}  // namespace terrace::cli
