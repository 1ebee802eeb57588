// The socket that who reads metrics connects to: handed over by systemd, or made here by [metrics] listen.
#pragma once

#include <string>

#include "daemon/base/unique_fd.h"
#include "daemon/settings/config.h"

namespace terrace::daemon {

class ListeningSocket {
 public:
  ListeningSocket() = default;
  ~ListeningSocket() { close(); }
  ListeningSocket(const ListeningSocket&) = delete;

  // "" or what failed, on what, and the remedy: then there is none, and nothing else is the worse for it. A
  // socket that is handed over goes before what the settings say. Neither: none is opened, and that is no
  // failure. `only_owner`: a socket in the file system has mode 0600 instead of 0660 for the daemon's group.
  std::string open(const Config& config, bool only_owner, UniqueFd handed_over);
  bool is_open() const { return static_cast<bool>(socket_); }
  bool is_unix() const { return is_unix_; }
  int fd() const { return socket_.get(); }
  // Removes the socket's file, if it is ours.
  void close();

 private:
  std::string adopt(UniqueFd socket);
  std::string make(const Config& config, bool only_owner);
  std::string clear_path(const std::string& path);

  UniqueFd socket_;
  std::string path_;  // of our file; empty: there is none
  bool is_unix_ = false;
};

}  // namespace terrace::daemon
