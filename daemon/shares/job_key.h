// Which job: of whom, and under which name. A job chooses its name itself; whose it is the kernel says.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

namespace terrace::daemon {

struct JobKey {
  std::uint32_t uid = 0;
  std::string name;
  friend bool operator==(const JobKey&, const JobKey&) = default;
  friend bool operator<(const JobKey& a, const JobKey& b) {
    return std::tie(a.uid, a.name) < std::tie(b.uid, b.name);
  }
};

}  // namespace terrace::daemon
