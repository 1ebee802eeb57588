// See boot.h.
#include "daemon/base/boot.h"

#include <fstream>

namespace terrace::daemon {

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

}  // namespace terrace::daemon
