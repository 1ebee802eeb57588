// Memory files that do not change any more: periods that come from jobs, and schedules that go to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/unique_fd.h"
#include "liballoc/wire/result.h"

namespace terrace::daemon {

// A job's memfd that holds a period, as far as its descriptor tells.
struct PeriodFile {
  std::string problem;  // why it cannot be one, as words behind "a period"; empty: it is fine
  std::uint64_t image_bytes = 0;
  UniqueFd descriptor{};  // to close it takes as long as at most most_period_bytes need to be given back
};

// Asks the kernel alone: a file that somebody else's program serves is refused before it is asked anything.
// Takes the descriptor if it is fine; to close one that is not may take any time.
PeriodFile look_at_period_file(UniqueFd* descriptor, std::uint64_t image_bytes);

// The first bytes of a file that was found fine; fewer where it cannot be read. Aligned to 16.
std::vector<std::byte> read_file(const PeriodFile& file);

// A new memfd with that content, sealed against all changes and further seals.
Result<UniqueFd> make_sealed_file(std::string_view content);

}  // namespace terrace::daemon
