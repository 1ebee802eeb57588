// What the tests of sockets and processes share: a server in a thread, a terraced as a process, and a client
// that sends whatever it is told to, well formed or not.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "daemon/server/server.h"
#include "tests/daemon/temporary_directory.h"
#include "tests/units.h"

namespace terrace::tests {

// Gives up after 10 s, which no passing run comes near.
bool eventually(const std::function<bool()>& condition);

class ServerThread {
 public:
  explicit ServerThread(const std::function<void(daemon::ServerOptions&)>& change = {});
  ~ServerThread();
  const std::string& socket() const { return socket_; }
  const TemporaryDirectory& directory() const { return directory_; }
  void stop();

 private:
  TemporaryDirectory directory_;
  std::string socket_ = directory_ / "t.sock";
  std::unique_ptr<daemon::Server> server_;
  std::thread thread_;
};

// terraced itself, so that it can be killed.
class DaemonProcess {
 public:
  DaemonProcess(const std::string& socket, const std::vector<std::string>& more = {});
  ~DaemonProcess() { kill(); }
  void kill();      // SIGKILL, and reaped
  int terminate();  // SIGTERM; its exit code
  bool exits_by_itself();
  // Runs `action` while the process is stopped.
  void while_stopped(const std::function<void()>& action) const;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

struct Received {
  std::vector<std::byte> bytes;
  std::vector<daemon::UniqueFd> fds;
  std::optional<wire::Type> type() const;
  template <class Message>
  Message as() const {
    REQUIRE(bytes.size() >= sizeof(Message));
    return wire::read_as<Message>(bytes.data());
  }
};

class RawClient {
 public:
  explicit RawClient(const std::string& socket);
  int fd() const { return fd_.get(); }
  bool send(const void* bytes, std::size_t size, std::span<const int> fds = {});
  template <class Message>
  bool send(const Message& message, std::span<const int> fds = {}) {
    return send(&message, sizeof message, fds);
  }
  bool send_text(const std::string& json);
  // Nothing at the end of the connection, or after 10 s of silence.
  std::optional<Received> receive();
  bool is_closed();
  void close() { fd_.reset(); }

 private:
  daemon::UniqueFd fd_;
};

// A TCP socket with bytes that nobody reads: whoever closes it last waits for a minute, or until release().
class LingeringSocket {
 public:
  LingeringSocket();
  int fd() const { return sender_.get(); }
  // While a copy is on its way: its receiver is to be the last to have it.
  void let_go() { sender_.reset(); }
  void release() { reader_.reset(); }

 private:
  daemon::UniqueFd sender_, reader_;  // the reader goes first, and nobody lingers
};

wire::Hello greeting(const char* job = "test", std::uint64_t budget = 64 * mib, std::uint64_t pool = 0);
// Greets and expects a welcome.
Received join(RawClient& client, const wire::Hello& hello = greeting());
nlohmann::json ask(const std::string& socket, const nlohmann::json& request);
std::size_t open_descriptors(pid_t pid);

}  // namespace terrace::tests
