// See server.h.
#include "daemon/server/server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>

#include <array>
#include <csignal>
#include <span>
#include <utility>

#include "daemon/base/size.h"
#include "daemon/metrics/metrics_text.h"
#include "daemon/settings/reload.h"
#include "daemon/settings/settings_check.h"

namespace terrace::daemon {
namespace {

constexpr std::uint64_t millisecond = 1'000'000;
constexpr std::uint64_t second = 1000 * millisecond;
constexpr std::uint64_t busy_tick_ns = Registry::round_ns;
constexpr std::uint64_t idle_tick_ns = second;
constexpr std::uint64_t hold_ns = 400 * millisecond;  // jobs of an earlier daemon come back every 100 ms
constexpr std::uint64_t return_ns = 60 * second;      // what is on record waits for its job no longer
constexpr std::uint64_t linger_ns = 2 * second;       // of a private daemon
constexpr std::uint64_t unused_ns = 10 * second;

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

Server::Server(ServerOptions options) : options_(std::move(options)) {
  stop_event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

Server::~Server() {
  connections_.close();
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

// Of an earlier daemon. A private one's one user needs no record against himself, and nobody asks it once it
// has ended.
void Server::expect_jobs() {
  if (options_.is_private) return;
  const std::string& socket = options_.config.socket;
  registry_->journal().keep_in(KeptFile(socket, "events", &store_));
  registry_->expect(Claims(record_.open(KeptFile(socket, "promises", &store_))), clock_ns() + return_ns);
}

std::string Server::open_registry() {
  const Config& config = options_.config;
  Pools pools(config.pool_directory, division_.pool_quota(), options_.is_private);
  if (auto error = pool_directory_.open(&pools); !error.empty()) return error;
  registry_ = std::make_unique<Registry>(division_.budget_bytes(), std::move(pools),
                                         Limits{.jobs_apart = config.metrics.jobs});
  use_nvm();
  if (!registry_->pools().is_closed()) division_.keep_writes(&registry_->writes());
  division_.divide(registry_.get());
  expect_jobs();
  packets_ =
      std::make_unique<Packets>(Handling{config, loop_, log_limit_, connections_, door_.files(), *registry_},
                                [this] { return control_context(); });
  return {};
}

// Jobs are served without metrics, too.
void Server::open_metrics(UniqueFd handed_over) {
  const Config& config = options_.config;
  if (handed_over && !config.metrics.listen.empty())
    spdlog::warn(
        "[metrics] listen {} is not used: systemd hands over another socket (terraced-metrics.socket)",
        config.metrics.listen);
  if (auto error = metrics_.open(config, options_.is_private, std::move(handed_over)); !error.empty())
    spdlog::error("{}", error);
}

std::string Server::open() {
  const Config& config = options_.config;
  if (auto error = check_settings(config, options_.is_private); !error.empty()) return error;
  HandedOver handed_over = take_handed_over();
  store_ = DescriptorStore(std::move(handed_over.held));
  if (auto error = door_.open(config, options_.is_private, std::move(handed_over.control)); !error.empty())
    return error;
  socket_setting_ = std::exchange(options_.config.socket, door_.listener().path());
  if (auto error = open_registry(); !error.empty()) return error;
  open_metrics(std::move(handed_over.metrics));
  poller_.add(stop_event_.get(), tag_of(EventKind::stop), EPOLLIN);
  poller_.add(door_.files().event_fd(), tag_of(EventKind::files), EPOLLIN);
  poller_.add(packets_->plans().event_fd(), tag_of(EventKind::plans), EPOLLIN);
  const bool expect_old_jobs = !options_.is_private || options_.respawned || door_.listener().found_remains();
  packets_->greetings().hold_until(expect_old_jobs ? clock_ns() + hold_ns : 0);
  watchdog_.open();
  spdlog::info("serving {}: {} of DRAM, {}pools of {} in {}", config.socket,
               format_size(division_.budget_bytes()), config.encrypts_pool ? "encrypted " : "",
               format_size(registry_->pools().quota_bytes()), config.pool_directory);
  return {};
}

void Server::watch_signals(int signal_fd) {
  signal_fd_ = signal_fd;
  poller_.add(signal_fd, tag_of(EventKind::signal), EPOLLIN);
}

void Server::stop() {
  const std::uint64_t one = 1;
  if (::write(stop_event_.get(), &one, sizeof one) < 0) {
    // Full: it was told already.
  }
}

int Server::wait_ms() const {
  if (packets_->answers().has_more()) return 0;
  const std::uint64_t next = watchdog_.next_ns(loop_.next_tick_ns());
  const std::uint64_t now_ns = loop_.now_ns();
  return next <= now_ns ? 0 : static_cast<int>((next - now_ns) / millisecond) + 1;
}

void Server::run() {
  ::sd_notify(0, "READY=1");
  std::array<epoll_event, 64> events;
  while (!loop_.is_ending()) {
    const std::span<epoll_event> happened = poller_.wait(events, wait_ms());
    loop_.look_at_clock();
    packets_->answers().begin_round();
    for (const epoll_event& event : happened) {
      handle(event.data.u64, event.events);
      loop_.look_at_clock();
      watchdog_.feed(loop_.now_ns());
    }
    if (loop_.is_tick_due()) tick();
    packets_->answers().answer_postponed();
    watchdog_.feed(loop_.now_ns());
  }
  ::sd_notify(0, "STOPPING=1");
  record_.finish(registry_->promises());
  registry_->writes().finish();
  spdlog::info("stopping; {} jobs' processes carry on within their last budgets",
               registry_->sessions().size());
}

void Server::handle(std::uint64_t tag, std::uint32_t events) {
  const ConnectionId id = connection_of(tag);
  switch (kind_of(tag)) {
    case EventKind::listener:
      return connections_.accept_all();
    case EventKind::stop:
      return loop_.end();
    case EventKind::signal:
      return handle_signal();
    case EventKind::files:
      return packets_->take_inspected();
    case EventKind::plans:
      return packets_->plans().send();
    case EventKind::connection:
      return packets_->handle(id, events);
    case EventKind::process:
      return connections_.drop(id, "its process ended", false);
    case EventKind::metrics:
      return metrics_.handle(id, events, loop_.now_ns());
  }
}

void Server::handle_signal() {
  signalfd_siginfo info;
  if (::read(signal_fd_, &info, sizeof info) != sizeof info) return;
  if (info.ssi_signo == SIGHUP) return reload();
  loop_.end();
}

void Server::reload() {
  const Reloading reloading;
  auto next = options_.reload ? options_.reload() : std::nullopt;
  if (!next) return;
  Config& config = options_.config;
  if (const auto error = check_settings(*next, options_.is_private); !error.empty())
    return spdlog::error("{}; the old settings stay", error);
  if (takes_restart(*next, config, socket_setting_))
    spdlog::warn(
        "terraced has to be restarted for new settings of its socket, the socket's group, the pool directory "
        "and its encryption, the state directory, NVM and metrics; until then the old ones stay");
  const std::optional<std::uint64_t> old_pool_bytes = config.pool_bytes;
  take_over(std::move(*next), &config);
  spdlog::set_level(spdlog::level::from_str(config.log_level));
  // Of the disk that is free, pools have taken a part by now: that is no reason to change the quota.
  if (config.pool_bytes != old_pool_bytes) registry_->pools().set_quota(division_.pool_quota());
  division_.divide(registry_.get());
  spdlog::info("reloaded: {} of DRAM, pools of {}", format_size(registry_->arbiter().machine_bytes()),
               format_size(registry_->pools().quota_bytes()));
}

void Server::tick() {
  loop_.tick_again_in(connections_.is_empty() ? idle_tick_ns : busy_tick_ns);
  division_.follow_pressure(registry_.get(), loop_.now_ns());
  pool_directory_.look_again(registry_.get(), division_, loop_.now_ns());
  registry_->take_turn(loop_.now_ns());
  packets_->tick();
  keep_promises();
  door_.let_in();
  metrics_.tick(loop_.now_ns());
  if (nobody_needs_us()) loop_.end();
}

void Server::keep_promises() {
  if (!record_.is_due(loop_.now_ns()) || kept_revision_ == registry_->revision()) return;
  kept_revision_ = registry_->revision();
  record_.keep(registry_->promises(), loop_.now_ns());
}

bool Server::nobody_needs_us() const {
  if (!options_.is_private || !connections_.is_empty()) return false;
  if (loop_.now_ns() - connections_.empty_since_ns() < linger_ns) return false;
  return registry_->sessions_seen() > 0 || loop_.now_ns() - started_ns_ > unused_ns;
}

ControlContext Server::control_context() {
  return {*registry_,  options_.config,           options_.is_private,           loop_.now_ns(),
          started_ns_, division_.lowered_bytes(), division_.is_pressure_known(), true};
}

std::string Server::render_metrics() {
  const std::uint64_t began_ns = clock_ns();
  std::string text =
      metrics_text({*registry_, start_time_ns_, division_.lowered_bytes(), renders_, render_ns_});
  const std::uint64_t spent_ns = clock_ns() - began_ns;
  ++renders_;
  render_ns_ += spent_ns;
  packets_->answers().charge(spent_ns);
  return text;
}

}  // namespace terrace::daemon
