// [metrics] in terraced.toml: where the daemon serves its metrics, and how many jobs it tells apart. Off
// without an address. Who reads them is not asked for a password, so that the address is one of this machine
// alone: a socket in the file system, whose group may connect, or a port of the loopback interface.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace terrace::daemon {

struct MetricsRule {
  static constexpr std::size_t most_jobs = 1000;

  std::string listen;      // "/PATH", "127.0.0.1:PORT" or "[::1]:PORT"; empty: nowhere
  std::size_t jobs = 100;  // jobs that have series of their own, and users; from 1 to most_jobs

  friend bool operator==(const MetricsRule&, const MetricsRule&) = default;
};

// An address as the kernel takes it.
struct MetricsAddress {
  sockaddr_storage address{};
  socklen_t bytes = 0;
  std::string error;  // or what is wrong with the text, and what would be right

  bool is_unix() const { return address.ss_family == AF_UNIX; }
  // Reached from this machine alone.
  bool is_local() const;
};

// No names are looked up but "localhost", which is 127.0.0.1.
MetricsAddress parse_metrics_address(std::string_view text);

}  // namespace terrace::daemon
