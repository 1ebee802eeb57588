// See askers.h.
#include "tests/daemon/scale/askers.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "tests/daemon/scale/client.h"
#include "tests/daemon/scale/sessions.h"

namespace terrace::tests::scale {
namespace {

// What a first session of this user belongs to; a name that nobody has for users without one.
std::string request(std::uint64_t number, uid_t uid) {
  const std::size_t first =
      uid < Sessions::first_user ? 0 : (uid - Sessions::first_user) * Sessions::per_user;
  const std::string job = R"(,"job":")" + Sessions::job_name(first) + "\"";
  switch (number % 8) {
    case 0:
    case 4:
      return R"({"verb":"jobs"})";
    case 1:
      return R"({"verb":"status"})";
    case 2:
      return R"({"verb":"set_budget","bytes":)" + std::to_string((8 + number % 16) << 20) + job + "}";
    case 3:
      return R"({"verb":"tiers"})";
    case 5:
      return R"({"verb":"events","last":100})";
    case 6:
      return R"({"verb":"summary")" + job + "}";
    default:
      return R"({"verb":"ping"})";
  }
}

}  // namespace

void Askers::start(const std::string& socket, const std::vector<uid_t>& users, std::uint64_t per_second) {
  for (const uid_t uid : users)
    threads_.emplace_back([this, socket, uid, per_second] { ask_on(socket, uid, per_second); });
}

void Askers::ask_on(const std::string& path, uid_t uid, std::uint64_t per_second) {
  const Fd socket = connect_as(uid, path);
  const std::uint64_t began = clock_ns();
  for (std::uint64_t number = 0; socket && !stopping_; ++number) {
    const std::uint64_t due = began + number * 1'000'000'000 / per_second;
    std::uint64_t now = clock_ns();
    do {
      pollfd waiting{socket.get(), POLLIN, 0};
      const int wait_ms = due > now ? static_cast<int>((due - now) / 1'000'000) : 0;
      if (::poll(&waiting, 1, wait_ms) > 0 && !read_answers(socket.get())) {
        ++disconnected_;
        return;
      }
      now = clock_ns();
    } while (now + 1'000'000 < due);
    send_request(socket.get(), request(number, uid)) ? ++asked_ : ++held_back_;
  }
  if (!socket) ++disconnected_;
}

// False at the end of the connection.
bool Askers::read_answers(int socket) {
  std::vector<char> packet(wire::max_packet_bytes);
  ssize_t got = 0;
  while ((got = ::recv(socket, packet.data(), packet.size(), MSG_DONTWAIT)) > 0) {
    const auto reply = wire::read_as<wire::Reply>(packet.data());
    if ((reply.flags & wire::reply_more) == 0) ++answered_;
  }
  return got < 0 && (errno == EAGAIN || errno == EINTR);
}

void Askers::stop() {
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace terrace::tests::scale
