// See descriptor_store.h.
#include "daemon/base/descriptor_store.h"

#include <systemd/sd-daemon.h>

namespace terrace::daemon {

UniqueFd DescriptorStore::take(const std::string& name) {
  auto node = held_.extract(name);
  return node.empty() ? UniqueFd() : std::move(node.mapped());
}

void DescriptorStore::put(const std::string& name, int fd) const {
  drop(name);
  // FDPOLL=0: a file is never ready or closed by its other end, for which systemd would watch it.
  ::sd_pid_notify_with_fds(0, 0, ("FDSTORE=1\nFDPOLL=0\nFDNAME=" + name).c_str(), &fd, 1);
}

void DescriptorStore::drop(const std::string& name) const {
  ::sd_notify(0, ("FDSTOREREMOVE=1\nFDNAME=" + name).c_str());
}

}  // namespace terrace::daemon
