// terraced itself as a service of several users, under a watchdog as systemd would have it, and what it
// costs.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/daemon/scale/client.h"
#include "tests/daemon/temporary_directory.h"

namespace terrace::tests::scale {

class MeasuredDaemon {
 public:
  static constexpr std::uint64_t watchdog_us = 2'000'000;  // the unit says 30 s

  explicit MeasuredDaemon(const std::string& program);
  ~MeasuredDaemon();
  MeasuredDaemon(const MeasuredDaemon&) = delete;

  bool is_serving() const { return serving_; }
  const std::string& socket() const { return socket_; }
  // Where it serves metrics, a path.
  const std::string& metrics() const { return metrics_; }
  pid_t pid() const { return pid_; }

  // Processor time of all its threads so far.
  std::uint64_t cpu_ns() const;
  std::uint64_t resident_bytes() const { return status_bytes("VmRSS:"); }
  std::uint64_t peak_resident_bytes() const { return status_bytes("VmHWM:"); }
  // What it said to the watchdog, and its longest silence, the present one included.
  std::uint64_t pings() const { return pings_; }
  std::uint64_t longest_silence_ns() const;

 private:
  std::uint64_t status_bytes(const std::string& label) const;
  void open_notify_socket();
  void start(const std::string& program);
  void listen();

  TemporaryDirectory directory_;
  std::string socket_ = directory_ / "t.sock";
  std::string metrics_ = directory_ / "m.sock";
  std::string notify_path_ = directory_ / "notify.sock";
  Fd notify_;
  std::thread listener_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> pings_{0}, longest_ns_{0}, last_ns_{0};
  pid_t pid_ = -1;
  bool serving_ = false;
};

}  // namespace terrace::tests::scale
