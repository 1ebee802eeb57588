// What packets mean; see server.h. Every handler returns "" or the rule that the client broke, after which it
// is disconnected.
#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/base/names.h"
#include "daemon/base/size.h"
#include "daemon/metrics/metrics_text.h"
#include "daemon/server/server.h"

namespace terrace::daemon {
namespace {

constexpr int packets_per_round = 16;              // then the others get a turn
constexpr std::uint64_t answering_ns = 5'000'000;  // likewise: no answer is begun after that

wire::Refused refused_message(const Refusal& refusal) {
  wire::Refused message = wire::make<wire::Refused>();
  message.error = refusal.error;
  message.available_bytes = refusal.available_bytes;
  wire::copy_text(message.text, sizeof message.text, refusal.reason.c_str());
  return message;
}

Refusal wrong_version(const wire::Header& header) {
  return {EPROTO, 0,
          fmt::format("it speaks protocol version {}, this terraced {}; install the same version of both",
                      header.version, wire::protocol_version)};
}

const char* pool_words(const wire::Welcome& welcome) {
  return (welcome.flags & wire::welcome_pool_fd) != 0 ? "a new pool" : "no new pool";
}

void log_admission(const Admission& admission, const wire::Hello& hello) {
  const Session& session = *admission.session;
  if (!admission.pool_problem.empty())
    spdlog::warn("job \"{}\": {}; it has to find room by itself", session.job().name, admission.pool_problem);
  if (!admission.is_expected)
    spdlog::warn("job \"{}\": process {} came back, and no promise to it is on record: it is treated as new",
                 session.job().name, session.peer().pid);
  if (admission.was_cut)
    spdlog::warn(
        "job \"{}\": process {} came back for {} of DRAM and a pool of {}; less is left, it gets that",
        session.job().name, session.peer().pid, format_size(hello.requested_budget_bytes),
        format_size(hello.pool_capacity_bytes));
}

std::string spent_words(const Registry& registry, SessionId session) {
  const Writes& writes = registry.writes();
  return fmt::format(
      "may write no more to {} today than {} that it was leased: {} of {} a day are charged to all jobs",
      registry.pools().directory(), format_size(writes.ahead_bytes(session)),
      format_size(writes.today_bytes()), format_size(writes.limit_bytes()));
}

}  // namespace

// False when the connection is gone.
bool Server::read_packets(ConnectionId id) {
  Packet packet;
  for (int i = 0; i < packets_per_round; ++i) {
    const int error = connections_.at(id)->receive(&packet);
    if (error == EAGAIN) return true;
    std::string fault;
    if (error == 0)
      fault = handle_packet(id, packet);
    else if (error == EMSGSIZE)
      fault = "a packet exceeds the protocol's bounds";
    else
      return drop(id, "closed", false), false;
    if (!connections_.contains(id)) return false;
    if (!fault.empty()) return drop(id, fault, true), false;
    const Connection& connection = *connections_.at(id);
    if (connection.is_inspected() || connection.waits_for_answer()) return true;
  }
  return true;
}

std::string Server::handle_packet(ConnectionId id, Packet& packet) {
  Connection& connection = *connections_.at(id);
  wire::Header header;
  const int error = wire::check_packet(packet.bytes, packet.size, &header);
  if (error == EPROTO) return refuse(connection, wrong_version(header));
  if (error != 0) return "a malformed packet";
  using Role = Connection::Role;
  const bool is_job = connection.role == Role::job;
  const bool may_bring_files =
      header.type == wire::Type::hello ||
      (is_job && (header.type == wire::Type::period || header.type == wire::Type::nvm_held));
  if (packet.brings_files && !may_bring_files) return "descriptors out of place";
  switch (header.type) {
    case wire::Type::hello:
      if (connection.role == Role::fresh) return handle_hello(id, packet);
      break;
    case wire::Type::control:
      if (connection.role == Role::fresh || connection.role == Role::control)
        return handle_control(id, packet);
      break;
    case wire::Type::log:
      if (is_job) return handle_log(id, packet);
      break;
    case wire::Type::period:
      if (is_job) return inspect_period(id, packet);
      break;
    case wire::Type::nvm_held:
      if (is_job) return inspect_nvm(id, packet);
      break;
    case wire::Type::goodbye:
      if (is_job) return drop(id, "goodbye", false), std::string();
      break;
    default:
      break;
  }
  return fmt::format("message {} out of place", static_cast<unsigned>(header.type));
}

std::string Server::refuse(Connection& connection, const Refusal& refusal) {
  const wire::Refused message = refused_message(refusal);
  connection.send(&message, sizeof message);
  return fmt::format("refused: {}", refusal.reason);
}

std::string Server::handle_hello(ConnectionId id, Packet& packet) {
  const auto hello = wire::read_as<wire::Hello>(packet.bytes);
  if (hello.version != wire::protocol_version) return "a greeting of another version than its header";
  constexpr std::uint32_t back_with_pool = wire::hello_reattach | wire::hello_has_pool_fd;
  const bool has_pool = (hello.flags & back_with_pool) == back_with_pool;
  if (packet.brings_files) return has_pool ? inspect_pool(id, hello) : "descriptors out of place";
  return greet(id, hello, std::nullopt);
}

// After a start those go first who had a promise before.
std::string Server::greet(ConnectionId id, const wire::Hello& hello, const std::optional<PoolFile>& pool) {
  Connection& connection = *connections_.at(id);
  if (now_ns_ >= hold_until_ns_ || registry_->is_expected(hello, connection.peer().uid))
    return begin_session(id, hello, pool);
  connection.role = Connection::Role::waiting;
  connection.waiting = hello;
  connection.pool = pool;
  next_tick_ns_ = std::min(next_tick_ns_, hold_until_ns_);
  return {};
}

std::string Server::begin_session(ConnectionId id, const wire::Hello& hello,
                                  const std::optional<PoolFile>& pool) {
  Connection& connection = *connections_.at(id);
  Admission admission = registry_->admit(hello, connection.peer(), pool, now_ns_);
  if (admission.refusal) return refuse(connection, *admission.refusal);
  Session& session = *admission.session;
  log_admission(admission, hello);
  connection.role = Connection::Role::job;
  guests_.erase(id);
  connection.session = session.id();
  connection.process.reset(open_peer_process(connection.fd(), connection.peer().pid));
  if (connection.process) poller_.add(connection.process.get(), tag_of(tag_process, id), EPOLLIN);
  session.watch(ProcessMemory(connection.peer().pid, connection.process.get()));
  if (!session.reattached || !admission.is_expected)
    announce();  // to the others; this one learns it from its welcome
  session_connections_[session.id()] = id;
  return send_welcome(connection, session, std::move(admission));
}

std::string Server::send_welcome(Connection& connection, Session& session, Admission admission) {
  const UniqueFd uffd(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  wire::Welcome welcome = wire::make<wire::Welcome>();
  std::vector<int> fds{session.segment().fd()};
  welcome.flags = wire::welcome_segment_fd;
  if (admission.pool_fd) {
    welcome.flags |= wire::welcome_pool_fd;
    fds.push_back(admission.pool_fd.get());
  }
  if (session.takes_tiers) welcome.features |= wire::feature_tiers;
  if (registry_->pools().encrypts()) welcome.flags |= wire::welcome_encrypts;
  if (uffd) {
    welcome.flags |= wire::welcome_uffd_fd;
    fds.push_back(uffd.get());
  }
  welcome.session_id = session.id();
  welcome.budget_bytes = registry_->granted_bytes(session.id());
  welcome.pool_capacity_bytes = registry_->pools().capacity_bytes(session.id());
  welcome.pool_limit_bytes = registry_->pools().limit_bytes(session.id());
  welcome.segment_bytes = session.segment().bytes();
  welcome.stats_offset = session.segment().stats_offset();
  welcome.ring_offset = session.segment().ring_offset();
  welcome.ring_capacity = Segment::ring_capacity;
  const int error = connection.send(&welcome, sizeof welcome, fds);
  session.segment().close_fd();
  if (error != 0) return fmt::format("the welcome could not be sent: {}", std::strerror(error));
  spdlog::info("job \"{}\": process {} ({}) {}: {} of {}, {}", session.job().name, session.peer().pid,
               session.program(), session.reattached ? "is back" : "joined",
               format_size(welcome.budget_bytes), session.is_gpu_heap() ? "its memory" : "DRAM",
               pool_words(welcome));
  return session.takes_tiers ? send_tiers(connection, session, admission.nvm_fd) : "";
}

// Behind the welcome, for who asked: what there is before the pool for jobs that name nothing themselves.
std::string Server::send_tiers(Connection& connection, const Session& session, const UniqueFd& nvm_fd) {
  wire::Tiers message = wire::make<wire::Tiers>();
  std::vector<int> fds;
  if (registry_->nvm()) message.flags = wire::tiers_shares_nvm;
  if (nvm_fd) {
    message.flags |= wire::tiers_nvm_fd;
    message.nvm_capacity_bytes = registry_->nvm()->capacity_bytes(session.id());
    message.nvm_limit_bytes = registry_->nvm()->limit_bytes(session.id());
    fds.push_back(nvm_fd.get());
    spdlog::info("job \"{}\": process {} has {} of NVM", session.job().name, session.peer().pid,
                 format_size(message.nvm_capacity_bytes));
  }
  if (const auto& compressed = options_.config.tiers.compressed)
    wire::copy_text(message.text, sizeof message.text, ("compressed=" + wire::text_of(*compressed)).c_str());
  const int error = connection.send(&message, sizeof message, fds);
  return error == 0 ? "" : fmt::format("its tiers could not be sent: {}", std::strerror(error));
}

std::string Server::handle_log(ConnectionId id, const Packet& packet) {
  const auto message = wire::read_as<wire::Log>(packet.bytes);
  const SessionId session = connections_.at(id)->session;
  std::string text = clean_text(message.text, sizeof message.text);
  std::uint64_t suppressed = 0;
  if (message.severity <= wire::Severity::info && log_limit_.allow(now_ns_, &suppressed))
    spdlog::info("job \"{}\" says: {}", registry_->find(session)->job().name, text);
  registry_->note(session, "log", std::move(text), now_ns_);
  return {};
}

std::string Server::handle_control(ConnectionId id, const Packet& packet) {
  Connection& connection = *connections_.at(id);
  connection.role = Connection::Role::control;
  const bool has_turn = answered_ns_ < answering_ns && !has_more_to_answer_;
  if (!has_turn || !control_limit_.may_ask(connection.peer().uid, now_ns_)) {
    connection.postponed = std::make_unique<Packet>(packet);
    has_more_to_answer_ = has_more_to_answer_ || !has_turn;
    update_interest(id, connection);
    return {};
  }
  const std::uint64_t began_ns = clock_ns();
  registry_->take_in(now_ns_);
  const std::string_view request(reinterpret_cast<const char*>(packet.bytes) + sizeof(wire::Header),
                                 packet.size - sizeof(wire::Header));
  const ControlOutcome outcome = daemon::answer(request, connection.peer(), control_context());
  for (const SessionId session : outcome.trim) send_to_session(session, wire::make<wire::Trim>());
  if (outcome.shut_down) stopping_ = true;
  if (outcome.budgets_changed) next_tick_ns_ = now_ns_;
  if (outcome.jobs_follow) connection.unfinished = std::make_unique<LongAnswer>(outcome.reply, *registry_);
  const int error = outcome.jobs_follow ? 0 : connection.answer(text_of(outcome.reply));
  answered_ns_ += control_limit_.charge(connection.peer().uid, now_ns_, clock_ns() - began_ns);
  if (error != 0) return "it does not read its answers";
  return go_on_answering(id);
}

ControlContext Server::control_context() {
  return {*registry_,  options_.config,           options_.is_private,           now_ns_,
          started_ns_, division_.lowered_bytes(), division_.is_pressure_known(), true};
}

std::string Server::render_metrics() {
  const std::uint64_t began_ns = clock_ns();
  std::string text =
      metrics_text({*registry_, start_time_ns_, division_.lowered_bytes(), renders_, render_ns_});
  const std::uint64_t spent_ns = clock_ns() - began_ns;
  ++renders_;
  render_ns_ += spent_ns;
  answered_ns_ += spent_ns;
  return text;
}

// A turn of an answer that takes more than one, if there is one.
std::string Server::go_on_answering(ConnectionId id) {
  Connection& connection = *connections_.at(id);
  int error = 0;
  if (connection.unfinished) {
    const std::uint64_t began_ns = clock_ns();
    connection.unfinished->write(control_context());
    if (connection.unfinished->is_whole())
      error = connection.answer(std::exchange(connection.unfinished, nullptr)->text());
    answered_ns_ += control_limit_.charge(connection.peer().uid, now_ns_, clock_ns() - began_ns);
  }
  if (error != 0) return "it does not read its answers";
  has_more_to_answer_ = has_more_to_answer_ || connection.unfinished;
  update_interest(id, connection);
  return {};
}

// Those whose user has waited long enough, whoever was answered last as the last.
void Server::answer_postponed() {
  has_more_to_answer_ = false;
  std::vector<ConnectionId> waiting;
  for (const ConnectionId id : guests_) {
    const Connection& connection = *connections_.at(id);
    if (connection.waits_for_answer() && control_limit_.may_ask(connection.peer().uid, now_ns_))
      waiting.push_back(id);
  }
  std::rotate(waiting.begin(), std::upper_bound(waiting.begin(), waiting.end(), last_answered_),
              waiting.end());
  // What is begun is ended first: who asks on many connections would else wait for all of them to get one.
  std::stable_partition(waiting.begin(), waiting.end(),
                        [this](ConnectionId id) { return connections_.at(id)->unfinished != nullptr; });
  for (const ConnectionId id : waiting) {
    if (answered_ns_ >= answering_ns) {
      has_more_to_answer_ = true;
      return;
    }
    last_answered_ = id;
    const auto packet = std::exchange(connections_.at(id)->postponed, nullptr);
    if (const auto fault = packet ? handle_control(id, *packet) : go_on_answering(id); !fault.empty())
      drop(id, fault, true);
  }
}

void Server::send_bytes_to_session(SessionId session, const void* message, std::size_t bytes) {
  const auto found = session_connections_.find(session);
  if (found == session_connections_.end()) return;
  const ConnectionId id = found->second;
  Connection& connection = *connections_.at(id);
  if (connection.send(message, bytes) != 0) return drop(id, "it does not read its messages", true);
  update_interest(id, connection);
}

void Server::announce() {
  for (const Announcement& announcement : registry_->announcements()) {
    wire::Budget message = wire::make<wire::Budget>();
    message.budget_bytes = announcement.budget_bytes;
    message.pool_limit_bytes = announcement.pool_limit_bytes;
    send_to_session(announcement.session, message);
    if (announcement.nvm_limit_bytes) send_nvm_limit(announcement.session, *announcement.nvm_limit_bytes);
  }
}

void Server::send_nvm_limit(SessionId session, std::uint64_t limit_bytes) {
  wire::Tiers tiers = wire::make<wire::Tiers>();
  tiers.nvm_capacity_bytes = registry_->nvm()->capacity_bytes(session);
  tiers.nvm_limit_bytes = limit_bytes;
  send_to_session(session, tiers);
}

// Not before the welcome of who has just joined.
void Server::announce_writes() {
  const Arbiter& arbiter = registry_->arbiter();
  const auto weight_of = [&](const JobKey& job) { return std::max(1U, arbiter.job_weight(job)); };
  for (const WriteLease& lease : registry_->writes().round(now_ns_, weight_of)) {
    const Session* session = registry_->find(lease.session);
    if (session == nullptr) continue;
    if (lease.is_last)
      registry_->note(lease.session, "spent", spent_words(*registry_, lease.session), now_ns_);
    if (!session->takes_write_leases) continue;
    wire::Writes message = wire::make<wire::Writes>();
    message.flags = lease.is_last ? wire::writes_are_last : 0;
    message.most_written_bytes = lease.most_written_bytes;
    send_to_session(lease.session, message);
  }
}

}  // namespace terrace::daemon
