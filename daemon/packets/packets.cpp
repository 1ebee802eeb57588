// See packets.h.
#include "daemon/packets/packets.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "daemon/base/names.h"

namespace terrace::daemon {
namespace {

constexpr int packets_per_round = 16;  // then the others get a turn

Refusal wrong_version(const wire::Header& header) {
  return {EPROTO, 0,
          fmt::format("it speaks protocol version {}, this terraced {}; install the same version of both",
                      header.version, wire::protocol_version)};
}

bool may_bring_files(wire::Type type, bool is_job) {
  return type == wire::Type::hello ||
         (is_job && (type == wire::Type::period || type == wire::Type::nvm_held));
}

std::string out_of_place(wire::Type type) {
  return fmt::format("message {} out of place", static_cast<unsigned>(type));
}

}  // namespace

void Packets::handle(ConnectionId id, std::uint32_t events) {
  Connections& connections = handling_.connections;
  Connection* const connection = connections.find(id);
  if (connection == nullptr) return;  // dropped earlier in this round
  if ((events & EPOLLIN) != 0 && !read(id)) return;
  if ((events & EPOLLOUT) != 0) {
    if (const int error = connection->flush(); error != 0)
      return connections.drop(id, std::strerror(error), false);
    connections.update_interest(id);
  }
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) connections.drop(id, "closed", false);
}

// False when the connection is gone.
bool Packets::read(ConnectionId id) {
  Connections& connections = handling_.connections;
  Packet packet;
  for (int i = 0; i < packets_per_round; ++i) {
    const int error = connections.at(id).receive(&packet);
    if (error == EAGAIN) return true;
    std::string fault;
    if (error == 0)
      fault = handle_packet(id, packet);
    else if (error == EMSGSIZE)
      fault = "a packet exceeds the protocol's bounds";
    else
      return connections.drop(id, "closed", false), false;
    const Connection* const connection = connections.find(id);
    if (connection == nullptr) return false;
    if (!fault.empty()) return connections.drop(id, fault, true), false;
    if (connection->is_inspected() || connection->waits_for_answer()) return true;
  }
  return true;
}

std::string Packets::handle_packet(ConnectionId id, const Packet& packet) {
  Connection& connection = handling_.connections.at(id);
  wire::Header header;
  const int error = wire::check_packet(packet.bytes, packet.size, &header);
  if (error == EPROTO) return connection.refuse(wrong_version(header));
  if (error != 0) return "a malformed packet";
  using Role = Connection::Role;
  const Role role = connection.role;
  if (packet.brings_files && !may_bring_files(header.type, role == Role::job))
    return "descriptors out of place";
  if (role == Role::job) return handle_job_packet(id, header.type, packet);
  if (header.type == wire::Type::hello && role == Role::fresh) return greetings_.hello(id, packet);
  if (header.type == wire::Type::control && (role == Role::fresh || role == Role::control))
    return answers_.request(id, packet);
  return out_of_place(header.type);
}

std::string Packets::handle_job_packet(ConnectionId id, wire::Type type, const Packet& packet) {
  switch (type) {
    case wire::Type::log:
      return log(id, packet);
    case wire::Type::period:
      return plans_.period(id, packet);
    case wire::Type::nvm_held:
      return greetings_.nvm_held(id, packet);
    case wire::Type::goodbye:
      return handling_.connections.drop(id, "goodbye", false), std::string();
    default:
      return out_of_place(type);
  }
}

std::string Packets::log(ConnectionId id, const Packet& packet) {
  const auto message = wire::read_as<wire::Log>(packet.bytes);
  Registry& registry = handling_.registry;
  const SessionId session = handling_.connections.at(id).session;
  const std::uint64_t now_ns = handling_.loop.now_ns();
  std::string text = clean_text(message.text, sizeof message.text);
  std::uint64_t suppressed = 0;
  if (message.severity <= wire::Severity::info && handling_.log_limit.allow(now_ns, &suppressed))
    spdlog::info("job \"{}\" says: {}", registry.find(session)->job().name, text);
  registry.note(session, "log", std::move(text), now_ns);
  return {};
}

void Packets::take_inspected() {
  ReceivedFiles& files = handling_.files;
  for (ReceivedFiles::Result& result : files.results()) {
    take_inspected(&result);
    files.give_back(result.uid, std::move(result.file));
    if (result.period.descriptor) files.close(result.uid, std::move(result.period.descriptor));
  }
}

// A period that is to be planned is taken out of the result.
void Packets::take_inspected(ReceivedFiles::Result* result) {
  const ConnectionId id = result->ticket;
  const Connection* const connection = handling_.connections.find(id);
  if (connection == nullptr) return;  // it did not wait
  if (connection->period) return plans_.inspected(id, std::move(result->period));
  if (connection->nvm) return greetings_.inspected_nvm(id, result->file);
  greetings_.inspected(id, result->file);
}

void Packets::left(const Connection& connection, const std::string& why) {
  Registry& registry = handling_.registry;
  Loop& loop = handling_.loop;
  const Session* session = registry.find(connection.session);
  if (session != nullptr)
    spdlog::info("job \"{}\": process {} left: {}", session->job().name, connection.peer().pid, why);
  plans_.forget(connection.session);
  registry.end(connection.session, why, loop.now_ns());
  loop.tick_by(loop.now_ns());  // what it held goes to the others at once
}

void Packets::tick() {
  if (!greetings_.is_holding()) {
    greetings_.let_in_waiting();
    announcements_.announce();
    announcements_.announce_writes();
  }
  greetings_.drop_silent();
}

}  // namespace terrace::daemon
