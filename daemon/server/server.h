// The daemon's loop: one thread, epoll, nothing that blocks.
//
//   listener ─ accept ─▶ fresh ─ Hello ──▶ job      (waiting first, while earlier jobs are coming back;
//                          └──── Control ▶ control   inspected first, when it brings its pool)
//
// Who joins waits for no more than one answer to a control request: answers are given one after the other,
// and between two of them everybody else has a turn.
//
// A client that breaks a rule is disconnected with one line in the log; the bounds are below. A job's session
// ends when its socket does or its process dies, whichever is seen first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "daemon/control/control.h"
#include "daemon/control/control_limit.h"
#include "daemon/planning/planning_thread.h"
#include "daemon/promises/record_file.h"
#include "daemon/server/connection.h"
#include "daemon/server/division.h"
#include "daemon/server/door.h"
#include "daemon/server/log_limit.h"
#include "daemon/server/metrics_endpoint.h"
#include "daemon/server/poller.h"
#include "daemon/server/pool_directory.h"
#include "daemon/server/watchdog.h"
#include "daemon/sessions/registry.h"
#include "daemon/settings/config.h"

namespace terrace::daemon {

// CLOCK_MONOTONIC.
std::uint64_t clock_ns();

struct ServerOptions {
  Config config;
  bool is_private = false;  // for one user; ends by itself when nobody needs it any more
  bool respawned = false;   // an earlier private daemon died: its jobs are about to come back
  std::function<std::optional<Config>()> reload = {};  // on SIGHUP; nothing: keep what is
  std::string pressure_root = {};  // where /proc says how short memory is; see MemoryPressure
};

class Server {
 public:
  static constexpr std::size_t max_connections = 1024 + 128;
  static constexpr std::size_t max_connections_per_user = 256 + 32;

  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;

  // "" or why it cannot serve, with the remedy. socket_taken() tells the one reason that is no failure for a
  // respawned daemon: another was faster.
  std::string open();
  bool socket_taken() const { return door_.listener().taken(); }
  // A signalfd: SIGTERM and SIGINT stop, SIGHUP reloads.
  void watch_signals(int signal_fd);
  // Serves until stop(), a signal, or (private) nobody is left.
  void run();
  // From any thread.
  void stop();

 private:
  using ConnectionId = std::uint64_t;
  // What an epoll event is about: a kind in the low bits, a connection's number above.
  enum Tag : std::uint64_t {
    tag_listener,
    tag_stop,
    tag_signal,
    tag_files,
    tag_plans,
    tag_connection,
    tag_process,
    tag_metrics
  };
  static constexpr std::uint64_t tag_bits = 3;
  static constexpr std::uint64_t tag_of(Tag kind, ConnectionId id = 0) { return id << tag_bits | kind; }

  int wait_ms() const;
  void handle(std::uint64_t tag, std::uint32_t events);
  void handle_signal();
  void reload();
  void expect_jobs();

  void accept_all();
  void accept_one(UniqueFd socket);
  bool has_room_for(uid_t uid) const;
  void handle_connection(ConnectionId id, std::uint32_t events);
  bool read_packets(ConnectionId id);
  std::string handle_packet(ConnectionId id, Packet& packet);
  std::string handle_hello(ConnectionId id, Packet& packet);
  std::string handle_control(ConnectionId id, const Packet& packet);
  std::string go_on_answering(ConnectionId id);
  ControlContext control_context();
  std::string handle_log(ConnectionId id, const Packet& packet);
  std::string inspect_pool(ConnectionId id, const wire::Hello& hello);
  std::string inspect_period(ConnectionId id, const Packet& packet);
  std::string inspect_nvm(ConnectionId id, const Packet& packet);
  void take_inspected();
  void take_inspected(ReceivedFiles::Result* result);
  void take_period(ConnectionId id, PeriodFile file);
  void take_nvm(ConnectionId id, const std::optional<PoolFile>& file);
  void use_nvm();
  void take_plans();
  void take_plan(PlanResult result);
  void note_plan(Session& session, const PlanResult& result);
  std::string greet(ConnectionId id, const wire::Hello& hello, const std::optional<PoolFile>& pool);
  std::string begin_session(ConnectionId id, const wire::Hello& hello, const std::optional<PoolFile>& pool);
  std::string send_welcome(Connection& connection, Session& session, Admission admission);
  void send_nvm_limit(SessionId session, std::uint64_t limit_bytes);
  std::string send_tiers(Connection& connection, const Session& session, const UniqueFd& nvm_fd);
  std::string refuse(Connection& connection, const Refusal& refusal);
  template <class Message>
  void send_to_session(SessionId session, const Message& message) {
    send_bytes_to_session(session, &message, sizeof message);
  }
  void send_bytes_to_session(SessionId session, const void* message, std::size_t bytes);
  void update_interest(ConnectionId id, Connection& connection);
  void drop(ConnectionId id, const std::string& why, bool is_fault);

  void tick();
  void answer_postponed();
  void begin_waiting_sessions();
  void drop_silent_connections();
  void announce();
  void announce_writes();
  std::string render_metrics();
  bool nobody_needs_us() const;

  ServerOptions options_;
  std::string socket_setting_;  // options_ has where the socket really is
  Poller poller_;
  LogLimit log_limit_;
  Door door_{poller_, log_limit_, tag_of(tag_listener)};
  UniqueFd stop_event_;
  int signal_fd_ = -1;
  std::unique_ptr<Registry> registry_;
  RecordFile record_;
  Division division_{options_.config, options_.is_private, options_.pressure_root};
  PoolDirectory pool_directory_{options_.config, options_.is_private};
  Watchdog watchdog_;
  MetricsEndpoint metrics_{poller_, door_, [](std::uint64_t number) { return tag_of(tag_metrics, number); },
                           [this] { return render_metrics(); }};
  PlanningThread planning_;
  std::unordered_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  std::unordered_map<SessionId, ConnectionId> session_connections_;
  std::set<ConnectionId> guests_;  // that are no jobs (yet): few, where jobs may be a thousand
  ControlLimit control_limit_;
  std::uint64_t answered_ns_ = 0;  // the time that answers took since the loop waited last
  ConnectionId last_answered_ = 0;
  bool has_more_to_answer_ = false;
  std::uint64_t kept_revision_ = 0;  // of the registry, when its promises were written last
  ConnectionId next_connection_ = 1;
  std::uint64_t started_ns_ = 0;
  std::uint64_t start_time_ns_ = 0;            // the same by CLOCK_REALTIME
  std::uint64_t renders_ = 0, render_ns_ = 0;  // of the metrics, and the time they took
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_tick_ns_ = 0;
  std::uint64_t hold_until_ns_ = 0;
  std::uint64_t lonely_since_ns_ = 0;
  bool stopping_ = false;
};

}  // namespace terrace::daemon
