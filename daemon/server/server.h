// The daemon's loop: one thread, epoll, nothing that blocks.
//
//   door ─▶ connections ─▶ packets ─▶ greetings, answers, plans ─▶ registry ─▶ announcements
//
// The loop waits, hands what happened to whom it concerns, and ticks: a budget that follows the machine's
// memory, rounds of the registry, promises kept on disk. Nobody waits for long: of each kind of work a round
// does a bounded part. A job's session ends when its socket does or its process dies, whichever is seen
// first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/packets/packets.h"
#include "daemon/promises/record_file.h"
#include "daemon/server/division.h"
#include "daemon/server/metrics_endpoint.h"
#include "daemon/server/pool_directory.h"
#include "daemon/server/watchdog.h"
#include "daemon/sessions/registry.h"
#include "daemon/settings/config.h"
#include "daemon/sockets/connections.h"
#include "daemon/sockets/door.h"
#include "daemon/sockets/log_limit.h"
#include "daemon/sockets/loop.h"
#include "daemon/sockets/poller.h"

namespace terrace::daemon {

struct ServerOptions {
  Config config;
  bool is_private = false;  // for one user; ends by itself when nobody needs it any more
  bool respawned = false;   // an earlier private daemon died: its jobs are about to come back
  std::function<std::optional<Config>()> reload = {};  // on SIGHUP; nothing: keep what is
  std::string pressure_root = {};  // where /proc says how short memory is; see MemoryPressure
};

class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;

  // "" or why it cannot serve, with the remedy. socket_taken() tells the one reason that is no failure for a
  // respawned daemon: another was faster.
  std::string open();
  bool socket_taken() const { return door_.listener().taken(); }
  // A signalfd: SIGTERM and SIGINT stop, SIGHUP reloads.
  void watch_signals(int signal_fd);
  // Serves until stop(), a signal, or (private) nobody is left. After open().
  void run();
  // From any thread.
  void stop();

 private:
  std::string open_registry();
  void use_nvm();
  void expect_jobs();
  void open_metrics(UniqueFd handed_over);

  int wait_ms() const;
  void handle(std::uint64_t tag, std::uint32_t events);
  void handle_signal();
  void reload();
  void tick();
  void keep_promises();
  bool nobody_needs_us() const;

  ControlContext control_context();
  std::string render_metrics();

  ServerOptions options_;
  std::string socket_setting_;  // options_ has where the socket really is
  Loop loop_;
  Poller poller_;
  LogLimit log_limit_;
  Door door_{poller_, log_limit_, tag_of(EventKind::listener)};
  UniqueFd stop_event_;
  int signal_fd_ = -1;
  DescriptorStore store_;
  std::unique_ptr<Registry> registry_;  // both from open() on
  std::unique_ptr<Packets> packets_;
  RecordFile record_;
  Division division_{options_.config, options_.is_private, options_.pressure_root};
  PoolDirectory pool_directory_{options_.config, options_.is_private};
  Watchdog watchdog_;
  MetricsEndpoint metrics_{poller_, door_,
                           [](std::uint64_t number) { return tag_of(EventKind::metrics, number); },
                           [this] { return render_metrics(); }};
  Connections connections_{
      poller_, door_, log_limit_, loop_,
      [this](const Connection& connection, const std::string& why) { packets_->left(connection, why); }};
  std::uint64_t kept_revision_ = 0;  // of the registry, when its promises were written last
  std::uint64_t started_ns_ = loop_.now_ns();
  std::uint64_t start_time_ns_ = wall_clock_ns();
  std::uint64_t renders_ = 0, render_ns_ = 0;  // of the metrics, and the time they took
};

}  // namespace terrace::daemon
