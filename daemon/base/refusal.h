// Why something that was asked for is not given.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::daemon {

struct Refusal {
  int error = 0;  // errno
  std::uint64_t available_bytes = 0;
  std::string reason;
};

}  // namespace terrace::daemon
