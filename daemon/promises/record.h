// What jobs were promised, written down for the next daemon: docs/formats/promises.md.
//
// A job that comes back to a new daemon says itself what it had. What is on record is given back to it ahead
// of others; the rest of what it says is a request like any other.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "daemon/shares/arbiter.h"

namespace terrace::daemon {

struct Promise {
  std::uint64_t promised_bytes = 0;  // of DRAM; 0: the job shares what is left
  std::uint64_t granted_bytes = 0;   // to its processes, all together
  std::uint64_t pool_bytes = 0;
  Arbiter::JobLimit limit = {};  // of DRAM
  std::uint32_t weight = 0;      // 0: nothing is said of it
  bool is_paused = false;        // then it has its limits and weight only, and asks for the rest anew
  Arbiter::JobLimit pool_limit = {}, writes_limit = {}, gpu_limit = {};
  std::uint64_t nvm_bytes = 0;  // promised, also to one that is paused: what lies there stays there
  friend bool operator==(const Promise&, const Promise&) = default;
};

using Promises = std::map<JobKey, Promise>;

// Of one record. Twice what a daemon has sessions: those that it has, and those that have not come back yet.
inline constexpr std::size_t most_promises = 2048;

// `boot`: which start of the machine it is of. No job survives the next one. `number`: of two records in a
// file the one with the greater number is the newer one.
std::string encode_promises(const Promises& promises, std::string_view boot, std::uint32_t number = 0);

struct DecodedPromises {
  Promises promises;
  std::uint32_t number = 0;
  std::string problem;  // "" or what is wrong: then there are none
};
// Of bytes that may be anything, of this version or one before: the first knew neither limits nor weights,
// the second a limit of DRAM alone, the third no number.
DecodedPromises decode_promises(std::string_view bytes, std::string_view boot);
std::size_t most_record_bytes();

// A file has places for two records, which are written in turn: a daemon that is killed while it writes one
// of them leaves the other. Offsets of the two, and the most bytes of such a file.
inline constexpr std::size_t record_places[] = {0, 299'008};
std::size_t most_record_file_bytes();
// Of bytes that may be anything: the newer one of those that are whole, or what is wrong with the first.
DecodedPromises decode_record_file(std::string_view bytes, std::string_view boot);

}  // namespace terrace::daemon
