// See greetings.h.
#include "daemon/packets/greetings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "daemon/base/size.h"

namespace terrace::daemon {
namespace {

constexpr std::uint64_t silence_ns = 5'000'000'000;  // to say Hello or Control

const char* pool_words(const wire::Welcome& welcome) {
  return (welcome.flags & wire::welcome_pool_fd) != 0 ? "a new pool" : "no new pool";
}

void log_admission(const Admission& admission, const wire::Hello& hello) {
  const Session& session = *admission.session;
  if (!admission.pool_problem.empty())
    spdlog::warn("job \"{}\": {}; the job has to find room by itself", session.job().name,
                 admission.pool_problem);
  if (!admission.is_expected)
    spdlog::warn(
        "job \"{}\": process {} came back, but no promise to this process is on record: terraced treats the "
        "process as new",
        session.job().name, session.peer().pid);
  if (admission.was_cut)
    spdlog::warn(
        "job \"{}\": process {} came back for {} of DRAM and a pool of {}; less is left, and the process "
        "gets what is left",
        session.job().name, session.peer().pid, format_size(hello.requested_budget_bytes),
        format_size(hello.pool_capacity_bytes));
}

}  // namespace

std::string Greetings::hello(ConnectionId id, const Packet& packet) {
  const auto hello = wire::read_as<wire::Hello>(packet.bytes);
  if (hello.version != wire::protocol_version) return "a greeting of another version than its header";
  constexpr std::uint32_t back_with_pool = wire::hello_reattach | wire::hello_has_pool_fd;
  const bool has_pool = (hello.flags & back_with_pool) == back_with_pool;
  if (packet.brings_files) return has_pool ? inspect(id, hello) : "descriptors out of place";
  return greet(id, hello, std::nullopt);
}

// The greeting waits until its pool file was looked at. Nothing is read meanwhile but by the thread that
// looks.
std::string Greetings::inspect(ConnectionId id, const wire::Hello& hello) {
  Connection& connection = handling_.connections.at(id);
  UniqueFd duplicate(::fcntl(connection.fd(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate) return "no descriptor is left to receive its pool file";
  connection.role = Connection::Role::inspected;
  connection.waiting = hello;
  handling_.connections.update_interest(id);
  handling_.files.inspect(id, connection.peer().uid, std::move(duplicate));
  return {};
}

void Greetings::inspected(ConnectionId id, const std::optional<PoolFile>& file) {
  Connection& connection = handling_.connections.at(id);
  connection.role = Connection::Role::fresh;
  handling_.connections.update_interest(id);
  const wire::Hello hello = *std::exchange(connection.waiting, std::nullopt);
  if (const auto fault = greet(id, hello, file); !fault.empty()) handling_.connections.drop(id, fault, true);
}

// After a start those go first who had a promise before.
std::string Greetings::greet(ConnectionId id, const wire::Hello& hello, const std::optional<PoolFile>& pool) {
  Connection& connection = handling_.connections.at(id);
  if (!is_holding() || handling_.registry.is_expected(hello, connection.peer().uid))
    return begin_session(id, hello, pool);
  connection.role = Connection::Role::waiting;
  connection.waiting = hello;
  connection.pool = pool;
  handling_.loop.tick_by(hold_until_ns_);
  return {};
}

std::string Greetings::begin_session(ConnectionId id, const wire::Hello& hello,
                                     const std::optional<PoolFile>& pool) {
  Connection& connection = handling_.connections.at(id);
  Admission admission = handling_.registry.admit(hello, connection.peer(), pool, handling_.loop.now_ns());
  if (admission.refusal) return connection.refuse(*admission.refusal);
  Session& session = *admission.session;
  log_admission(admission, hello);
  if (!session.reattached || !admission.is_expected)
    announcements_.announce();  // to the others; this one learns it from its welcome
  handling_.connections.make_job(id, session.id());
  session.watch(ProcessMemory(connection.peer().pid, connection.process.get()));
  return send_welcome(connection, session, std::move(admission));
}

std::string Greetings::send_welcome(Connection& connection, Session& session, Admission admission) {
  const Registry& registry = handling_.registry;
  const UniqueFd uffd(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  wire::Welcome welcome = wire::make<wire::Welcome>();
  std::vector<int> fds{session.segment().fd()};
  welcome.flags = wire::welcome_segment_fd;
  if (admission.pool_fd) {
    welcome.flags |= wire::welcome_pool_fd;
    fds.push_back(admission.pool_fd.get());
  }
  if (session.takes_tiers) welcome.features |= wire::feature_tiers;
  if (registry.pools().encrypts()) welcome.flags |= wire::welcome_encrypts;
  if (uffd) {
    welcome.flags |= wire::welcome_uffd_fd;
    fds.push_back(uffd.get());
  }
  welcome.session_id = session.id();
  welcome.budget_bytes = registry.granted_bytes(session.id());
  welcome.pool_capacity_bytes = registry.pools().capacity_bytes(session.id());
  welcome.pool_limit_bytes = registry.pools().limit_bytes(session.id());
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
std::string Greetings::send_tiers(Connection& connection, const Session& session, const UniqueFd& nvm_fd) {
  const std::optional<NvmPool>& nvm = handling_.registry.nvm();
  wire::Tiers message = wire::make<wire::Tiers>();
  std::vector<int> fds;
  if (nvm) message.flags = wire::tiers_shares_nvm;
  if (nvm_fd) {
    message.flags |= wire::tiers_nvm_fd;
    message.nvm_capacity_bytes = nvm->capacity_bytes(session.id());
    message.nvm_limit_bytes = nvm->limit_bytes(session.id());
    fds.push_back(nvm_fd.get());
    spdlog::info("job \"{}\": process {} has {} of NVM", session.job().name, session.peer().pid,
                 format_size(message.nvm_capacity_bytes));
  }
  if (const auto& compressed = handling_.config.tiers.compressed)
    wire::copy_text(message.text, sizeof message.text, ("compressed=" + wire::text_of(*compressed)).c_str());
  const int error = connection.send(&message, sizeof message, fds);
  return error == 0 ? "" : fmt::format("its tiers could not be sent: {}", std::strerror(error));
}

// As with a pool file, but that its session is there already.
std::string Greetings::nvm_held(ConnectionId id, const Packet& packet) {
  Connection& connection = handling_.connections.at(id);
  if (!packet.brings_files) return "NVM of an earlier terraced without its file";
  UniqueFd duplicate(::fcntl(connection.fd(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate) return "no descriptor is left to receive its file on NVM";
  connection.nvm = wire::read_as<wire::NvmHeld>(packet.bytes);
  handling_.connections.update_interest(id);
  handling_.files.inspect(id, connection.peer().uid, std::move(duplicate));
  return {};
}

// Less may be left than it had.
void Greetings::inspected_nvm(ConnectionId id, const std::optional<PoolFile>& file) {
  Connection& connection = handling_.connections.at(id);
  Registry& registry = handling_.registry;
  const wire::NvmHeld held = *std::exchange(connection.nvm, std::nullopt);
  handling_.connections.update_interest(id);
  const SessionId session = connection.session;
  if (const auto refusal = registry.hold_nvm(session, held, file))
    return handling_.connections.drop(id, "NVM of an earlier terraced: " + refusal->reason, true);
  if (!registry.nvm()) return;
  spdlog::info("job \"{}\": process {} is back with {} of NVM", registry.find(session)->job().name,
               connection.peer().pid, format_size(registry.nvm()->capacity_bytes(session)));
  announcements_.announce_nvm(session, registry.nvm()->limit_bytes(session));
}

void Greetings::let_in_waiting() {
  Connections& connections = handling_.connections;
  std::vector<ConnectionId> waiting;
  for (const ConnectionId id : connections.guests()) {
    if (connections.at(id).role == Connection::Role::waiting) waiting.push_back(id);
  }
  for (const ConnectionId id : waiting) {
    Connection& connection = connections.at(id);
    connection.role = Connection::Role::fresh;
    const wire::Hello hello = *std::exchange(connection.waiting, std::nullopt);
    std::optional<PoolFile> pool = std::exchange(connection.pool, std::nullopt);
    const uid_t uid = connection.peer().uid;
    if (const auto fault = begin_session(id, hello, pool); !fault.empty()) connections.drop(id, fault, true);
    handling_.files.give_back(uid, std::move(pool));
  }
}

void Greetings::drop_silent() {
  Connections& connections = handling_.connections;
  const std::uint64_t now_ns = handling_.loop.now_ns();
  std::vector<ConnectionId> silent;
  for (const ConnectionId id : connections.guests()) {
    const Connection& connection = connections.at(id);
    if (connection.role == Connection::Role::fresh && now_ns - connection.accepted_ns() > silence_ns)
      silent.push_back(id);
  }
  for (const ConnectionId id : silent) connections.drop(id, "it connected and said nothing", true);
}

}  // namespace terrace::daemon
