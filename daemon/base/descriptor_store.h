// Descriptors that systemd holds for the next daemon of the service, by name: sd_notify(3), FDSTORE=1. It
// hands them over with the sockets. Where systemd does not run, or the unit has no store, it holds nothing.
#pragma once

#include <map>
#include <string>

#include "daemon/base/unique_fd.h"

namespace terrace::daemon {

// Not thread-safe. What cannot be put is held no longer: nobody is told.
class DescriptorStore {
 public:
  using Held = std::map<std::string, UniqueFd>;

  // `held`: what systemd handed over. Each is taken once.
  explicit DescriptorStore(Held held = {}) : held_(std::move(held)) {}
  // Empty: it held none of that name.
  UniqueFd take(const std::string& name);
  // In place of what it holds under that name. The descriptor stays the caller's.
  void put(const std::string& name, int fd) const;
  void drop(const std::string& name) const;

 private:
  Held held_;
};

}  // namespace terrace::daemon
