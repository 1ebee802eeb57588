// See server.h: the loop and the life of connections. What packets mean is server_packets.cpp.
#include "daemon/server/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "daemon/base/size.h"
#include "daemon/settings/settings_check.h"

namespace terrace::daemon {
namespace {

constexpr std::uint64_t millisecond = 1'000'000;
constexpr std::uint64_t second = 1000 * millisecond;
constexpr std::uint64_t busy_tick_ns = Registry::round_ns;
constexpr std::uint64_t idle_tick_ns = second;
constexpr std::uint64_t hold_ns = 400 * millisecond;  // jobs of an earlier daemon come back every 100 ms
constexpr std::uint64_t return_ns = 60 * second;      // what is on record waits for its job no longer
constexpr std::uint64_t silence_ns = 5 * second;      // to say Hello or Control
constexpr std::uint64_t linger_ns = 2 * second;       // of a private daemon
constexpr std::uint64_t unused_ns = 10 * second;
constexpr int accepts_per_round = 64;

std::uint64_t time_ns(clockid_t clock) {
  timespec now;
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * second + static_cast<std::uint64_t>(now.tv_nsec);
}

// systemd is told when a reload begins and when it is over, however it ends: what waits for one waits for it.
struct Reloading {
  Reloading() {
    const std::uint64_t now_us = clock_ns() / 1000;
    ::sd_notify(0, fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now_us).c_str());
  }
  ~Reloading() { ::sd_notify(0, "READY=1"); }
  Reloading(const Reloading&) = delete;
  Reloading& operator=(const Reloading&) = delete;
};

}  // namespace

std::uint64_t clock_ns() { return time_ns(CLOCK_MONOTONIC); }

Server::Server(ServerOptions options) : options_(std::move(options)) {
  started_ns_ = now_ns_ = lonely_since_ns_ = clock_ns();
  start_time_ns_ = time_ns(CLOCK_REALTIME);
  stop_event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

Server::~Server() {
  for (const auto& [id, connection] : connections_)
    door_.dispose(connection->take_socket(), connection->is_inspected());
  metrics_.close();
  door_.close();
}

void Server::use_nvm() {
  const Config& config = options_.config;
  if (!config.tiers.nvm) return;
  NvmRule rule = *config.tiers.nvm;
  rule.must_be_encrypted = config.encrypts_pool;
  if (const std::string lost = lost_nvm_directory(rule); !lost.empty())
    spdlog::warn("{}; until it is there, jobs have no NVM", lost);
  registry_->use_nvm(rule);
}

std::string Server::open() {
  const Config& config = options_.config;
  if (auto error = check_settings(config, options_.is_private); !error.empty()) return error;
  HandedOver handed_over = take_handed_over();
  if (auto error = door_.open(config, options_.is_private, std::move(handed_over.control)); !error.empty())
    return error;
  socket_setting_ = std::exchange(options_.config.socket, door_.listener().path());
  const std::uint64_t budget = division_.budget_bytes();
  Pools pools(config.pool_directory, division_.pool_quota(), options_.is_private);
  if (auto error = pool_directory_.open(&pools); !error.empty()) return error;
  registry_ = std::make_unique<Registry>(budget, std::move(pools), Limits{.jobs_apart = config.metrics.jobs});
  use_nvm();
  if (!registry_->pools().is_closed()) division_.keep_writes(&registry_->writes());
  division_.divide(registry_.get());
  expect_jobs();
  const bool metrics_elsewhere = handed_over.metrics && !config.metrics.listen.empty();
  if (metrics_elsewhere)
    spdlog::warn(
        "[metrics] listen {} is not used: systemd hands over another socket (terraced-metrics.socket)",
        config.metrics.listen);
  if (auto error = metrics_.open(config, options_.is_private, std::move(handed_over.metrics)); !error.empty())
    spdlog::error("{}", error);
  poller_.add(stop_event_.get(), tag_of(tag_stop), EPOLLIN);
  poller_.add(door_.files().event_fd(), tag_of(tag_files), EPOLLIN);
  poller_.add(planning_.event_fd(), tag_of(tag_plans), EPOLLIN);
  const bool expect_old_jobs = !options_.is_private || options_.respawned || door_.listener().found_remains();
  hold_until_ns_ = expect_old_jobs ? clock_ns() + hold_ns : 0;
  watchdog_.open();
  spdlog::info("serving {}: {} of DRAM, {}pools of {} in {}", config.socket, format_size(budget),
               config.encrypts_pool ? "encrypted " : "", format_size(registry_->pools().quota_bytes()),
               config.pool_directory);
  return {};
}

// Of an earlier daemon. A private one's one user needs no record against himself.
void Server::expect_jobs() {
  if (options_.is_private) return;
  registry_->expect(Claims(record_.open(options_.config.socket + ".promises")), clock_ns() + return_ns);
}

void Server::watch_signals(int signal_fd) {
  signal_fd_ = signal_fd;
  poller_.add(signal_fd, tag_of(tag_signal), EPOLLIN);
}

void Server::stop() {
  const std::uint64_t one = 1;
  if (::write(stop_event_.get(), &one, sizeof one) < 0) {
    // Full: it was told already.
  }
}

int Server::wait_ms() const {
  if (has_more_to_answer_) return 0;
  const std::uint64_t next = watchdog_.next_ns(next_tick_ns_);
  return next <= now_ns_ ? 0 : static_cast<int>((next - now_ns_) / millisecond) + 1;
}

void Server::run() {
  ::sd_notify(0, "READY=1");
  std::array<epoll_event, 64> events;
  while (!stopping_) {
    const std::span<epoll_event> happened = poller_.wait(events, wait_ms());
    now_ns_ = clock_ns();
    answered_ns_ = 0;
    for (const epoll_event& event : happened) {
      handle(event.data.u64, event.events);
      now_ns_ = clock_ns();
      watchdog_.feed(now_ns_);
    }
    if (now_ns_ >= next_tick_ns_) tick();
    answer_postponed();
    watchdog_.feed(now_ns_);
  }
  ::sd_notify(0, "STOPPING=1");
  record_.finish(registry_->promises());
  registry_->writes().finish();
  spdlog::info("stopping; {} jobs' processes carry on within their last budgets",
               registry_->sessions().size());
}

void Server::handle(std::uint64_t tag, std::uint32_t events) {
  const std::uint64_t id = tag >> tag_bits;
  switch (static_cast<Tag>(tag & ((1 << tag_bits) - 1))) {
    case tag_listener:
      return accept_all();
    case tag_stop:
      stopping_ = true;
      return;
    case tag_signal:
      return handle_signal();
    case tag_files:
      return take_inspected();
    case tag_plans:
      return take_plans();
    case tag_connection:
      return handle_connection(id, events);
    case tag_process:
      return drop(id, "its process ended", false);
    case tag_metrics:
      return metrics_.handle(id, events, now_ns_);
  }
}

void Server::handle_signal() {
  signalfd_siginfo info;
  if (::read(signal_fd_, &info, sizeof info) != sizeof info) return;
  if (info.ssi_signo == SIGHUP) return reload();
  stopping_ = true;
}

void Server::reload() {
  const Reloading reloading;
  auto config = options_.reload ? options_.reload() : std::nullopt;
  if (!config) return;
  if (const auto error = check_settings(*config, options_.is_private); !error.empty())
    return spdlog::error("{}; the old settings stay", error);
  if (config->socket != socket_setting_ || config->group != options_.config.group ||
      config->pool_directory != options_.config.pool_directory ||
      config->encrypts_pool != options_.config.encrypts_pool || config->state != options_.config.state ||
      config->tiers.nvm != options_.config.tiers.nvm || config->metrics != options_.config.metrics)
    spdlog::warn(
        "the socket, its group, the pool directory, its encryption, NVM, metrics and the state directory "
        "change "
        "only with a restart of terraced");
  options_.config.tiers.compressed = config->tiers.compressed;
  config->pool_directory = options_.config.pool_directory;
  spdlog::set_level(spdlog::level::from_str(config->log_level));
  options_.config.dram = config->dram;
  options_.config.per_user = config->per_user;
  options_.config.per_job = config->per_job;
  options_.config.lends_idle = config->lends_idle;
  options_.config.shares = std::move(config->shares);
  options_.config.groups = std::move(config->groups);
  options_.config.jobs = std::move(config->jobs);
  options_.config.writes_per_day = config->writes_per_day;
  options_.config.writes_per_user = config->writes_per_user;
  options_.config.policy = config->policy;
  options_.config.pool_per_user = config->pool_per_user;
  options_.config.gpu_memory = config->gpu_memory;
  options_.config.gpu_per_user = config->gpu_per_user;
  options_.config.gpu_lends_idle = config->gpu_lends_idle;
  // Of the disk that is free, pools have taken a part by now: that is no reason to change the quota.
  if (std::exchange(options_.config.pool_bytes, config->pool_bytes) != config->pool_bytes)
    registry_->pools().set_quota(division_.pool_quota());
  division_.divide(registry_.get());
  options_.config.log_level = config->log_level;
  spdlog::info("reloaded: {} of DRAM, pools of {}", format_size(registry_->arbiter().machine_bytes()),
               format_size(registry_->pools().quota_bytes()));
}

void Server::accept_all() {
  for (int i = 0; i < accepts_per_round; ++i) {
    UniqueFd socket = door_.accept(now_ns_);
    if (!socket) return;
    accept_one(std::move(socket));
  }
}

bool Server::has_room_for(uid_t uid) const {
  if (connections_.size() >= max_connections) return false;
  const auto of_user = std::count_if(connections_.begin(), connections_.end(),
                                     [uid](const auto& c) { return c.second->peer().uid == uid; });
  return static_cast<std::size_t>(of_user) + door_.files().closing_of(uid) < max_connections_per_user;
}

void Server::accept_one(UniqueFd socket) {
  const auto peer = peer_of(socket.get());
  if (!peer) return door_.dispose(std::move(socket));
  auto connection = std::make_unique<Connection>(std::move(socket), *peer, now_ns_);
  if (!has_room_for(peer->uid)) {
    refuse(*connection, {EUSERS, 0, "too many connections of this user; close some"});
    std::uint64_t suppressed = 0;
    if (log_limit_.allow(now_ns_, &suppressed))
      spdlog::warn("turned away process {} of user {}: too many connections ({} earlier lines left out)",
                   peer->pid, peer->uid, suppressed);
    return door_.dispose(connection->take_socket());
  }
  const ConnectionId id = next_connection_++;
  poller_.add(connection->fd(), tag_of(tag_connection, id), EPOLLIN | EPOLLRDHUP);
  connections_[id] = std::move(connection);
  guests_.insert(id);
  next_tick_ns_ = std::min(next_tick_ns_, now_ns_ + busy_tick_ns);
}

void Server::handle_connection(ConnectionId id, std::uint32_t events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;  // dropped earlier in this round
  if ((events & EPOLLIN) != 0 && !read_packets(id)) return;
  Connection& connection = *found->second;
  if ((events & EPOLLOUT) != 0) {
    if (const int error = connection.flush(); error != 0) return drop(id, std::strerror(error), false);
    update_interest(id, connection);
  }
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) drop(id, "closed", false);
}

void Server::update_interest(ConnectionId id, Connection& connection) {
  const bool reads_nothing = connection.waits_for_answer() || connection.is_inspected();
  const std::uint32_t reads = reads_nothing ? 0U : EPOLLIN | EPOLLRDHUP;
  const std::uint32_t events = reads | (connection.has_queued() ? EPOLLOUT : 0U);
  if (events == connection.events) return;
  connection.events = events;
  poller_.change(connection.fd(), tag_of(tag_connection, id), events);
}

void Server::drop(ConnectionId id, const std::string& why, bool is_fault) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const Connection& connection = *found->second;
  std::uint64_t suppressed = 0;
  if (is_fault && log_limit_.allow(now_ns_, &suppressed))
    spdlog::warn("disconnected process {} of user {}: {} ({} earlier lines left out)", connection.peer().pid,
                 connection.peer().uid, why, suppressed);
  if (connection.role == Connection::Role::job) {
    const Session* session = registry_->find(connection.session);
    if (session != nullptr)
      spdlog::info("job \"{}\": process {} left: {}", session->job().name, connection.peer().pid, why);
    session_connections_.erase(connection.session);
    planning_.forget(connection.session);
    registry_->end(connection.session, why, now_ns_);
    next_tick_ns_ = now_ns_;  // what it held goes to the others at once
  }
  const auto dropped = std::move(found->second);
  connections_.erase(found);
  guests_.erase(id);
  door_.files().give_back(dropped->peer().uid, std::move(dropped->pool));
  door_.dispose(dropped->take_socket(), dropped->is_inspected());
  if (connections_.empty()) lonely_since_ns_ = now_ns_;
}

void Server::tick() {
  next_tick_ns_ = now_ns_ + (connections_.empty() ? idle_tick_ns : busy_tick_ns);
  division_.follow_pressure(registry_.get(), now_ns_);
  pool_directory_.look_again(registry_.get(), division_, now_ns_);
  registry_->take_turn(now_ns_);
  if (now_ns_ >= hold_until_ns_) {
    begin_waiting_sessions();
    announce();
    announce_writes();
  }
  if (record_.is_due(now_ns_) && kept_revision_ != registry_->revision()) {
    kept_revision_ = registry_->revision();
    record_.keep(registry_->promises(), now_ns_);
  }
  drop_silent_connections();
  door_.let_in();
  metrics_.tick(now_ns_);
  if (nobody_needs_us()) stopping_ = true;
}

void Server::begin_waiting_sessions() {
  std::vector<ConnectionId> waiting;
  for (const ConnectionId id : guests_) {
    if (connections_.at(id)->role == Connection::Role::waiting) waiting.push_back(id);
  }
  for (const ConnectionId id : waiting) {
    Connection& connection = *connections_.at(id);
    connection.role = Connection::Role::fresh;
    const wire::Hello hello = *std::exchange(connection.waiting, std::nullopt);
    std::optional<PoolFile> pool = std::exchange(connection.pool, std::nullopt);
    const uid_t uid = connection.peer().uid;
    if (const auto fault = begin_session(id, hello, pool); !fault.empty()) drop(id, fault, true);
    door_.files().give_back(uid, std::move(pool));
  }
}

void Server::drop_silent_connections() {
  std::vector<ConnectionId> silent;
  for (const ConnectionId id : guests_) {
    const Connection& connection = *connections_.at(id);
    if (connection.role == Connection::Role::fresh && now_ns_ - connection.accepted_ns() > silence_ns)
      silent.push_back(id);
  }
  for (const ConnectionId id : silent) drop(id, "it connected and said nothing", true);
}

bool Server::nobody_needs_us() const {
  if (!options_.is_private || !connections_.empty() || now_ns_ - lonely_since_ns_ < linger_ns) return false;
  return registry_->sessions_seen() > 0 || now_ns_ - started_ns_ > unused_ns;
}

}  // namespace terrace::daemon
