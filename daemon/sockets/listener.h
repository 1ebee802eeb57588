// The socket that jobs connect to: handed over by systemd, or made here.
//
// Whoever holds the lock on "<socket>.lock" is the daemon of that socket; the kernel lets go of it when its
// owner dies, so a socket file that is there while we hold the lock was left by one that died.
#pragma once

#include <string>

#include "daemon/base/descriptor_store.h"
#include "daemon/base/unique_fd.h"
#include "daemon/settings/config.h"

namespace terrace::daemon {

// What systemd hands over, told apart by its type: a listening SOCK_SEQPACKET is for jobs, a listening
// SOCK_STREAM for metrics, and files are what an earlier daemon had it hold, by their names. Nothing where it
// started no socket unit and holds nothing. Gives them at its first call only.
struct HandedOver {
  UniqueFd control, metrics;
  DescriptorStore::Held held;
};
HandedOver take_handed_over();

class Listener {
 public:
  Listener() = default;
  Listener(Listener&&) = default;
  Listener& operator=(Listener&&) = default;

  // "" or what failed, on what, and the remedy. `only_owner`: mode 0600 instead of 0660 for the group. A
  // socket that is handed over is given to the group, too, where we may; its place is its maker's choice.
  std::string open(const Config& config, bool only_owner, UniqueFd handed_over);
  // Another daemon serves this socket: the reason that open() failed.
  bool taken() const { return taken_; }
  // An earlier daemon of this socket did not end by itself: its jobs are about to come back.
  bool found_remains() const { return found_remains_; }
  int fd() const { return socket_.get(); }
  // Where it really is.
  const std::string& path() const { return path_; }
  // Removes the socket and its lock, if they are ours to remove.
  void close();

 private:
  void adopt(UniqueFd socket);
  std::string share_adopted(const Config& config);
  std::string lock();
  bool try_lock(const std::string& path);
  std::string bind(const Config& config, bool only_owner);

  UniqueFd socket_;
  UniqueFd lock_;
  std::string path_;
  bool bound_ = false;  // the socket file is ours
  bool taken_ = false;
  bool found_remains_ = false;
};

}  // namespace terrace::daemon
