// The command line's end of the connection to terraced: one JSON request, one JSON answer, as many times as
// wanted (liballoc/wire/protocol.h, messages Control and Reply). Every wait has a bound, and what comes back
// is checked: the daemon may be of another version, or something else may listen there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "liballoc/wire/result.h"

namespace terrace::cli {

inline constexpr const char* system_socket = "/run/terrace/terraced.sock";

class ControlClient {
 public:
  // `otherwise` ends the message where nobody listens: what can be done then. `error` is given errno's value.
  static Result<ControlClient> connect(const std::string& socket_path, std::string_view otherwise = start_one,
                                       int* error = nullptr);
  ControlClient(ControlClient&& other) noexcept;
  ControlClient& operator=(ControlClient&& other) noexcept;
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;
  ~ControlClient();

  const std::string& socket_path() const { return path_; }
  // The answer, or why not: no daemon any more, a malformed reply, or the error the daemon answered with.
  Result<nlohmann::json> request(const nlohmann::json& what);
  // The errno value that the daemon's last answer was an error by; 0: it was none.
  int refused_with() const { return refused_with_; }

 private:
  static constexpr std::string_view start_one =
      "start one with 'systemctl start terraced', or start a job with 'terrace run', which brings its own";
  ControlClient(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int send_request(const std::string& text) const;
  Result<std::string> receive_answer() const;
  std::string describe(const char* what, int error) const;

  int fd_ = -1;
  std::string path_;
  int refused_with_ = 0;
};

// The socket that was asked for (option, then TERRACE_SOCKET), alone; else the system's daemon and the
// private ones that this user's `terrace run` started, as far as they answer.
class Daemons {
 public:
  static Result<Daemons> find(const std::string& socket_option);
  std::vector<ControlClient>& all() { return clients_; }
  // Asks every daemon; the answers in the order of all(), each with "socket" added. Daemons that went away
  // are left out; an error when none is left.
  Result<std::vector<nlohmann::json>> request(const nlohmann::json& what);

 private:
  std::vector<ControlClient> clients_;
};

// Where private daemons of this user put their sockets: $XDG_RUNTIME_DIR/terrace or /tmp/terrace-<uid>.
std::filesystem::path private_directory();

// That directory first, then where it would be in another session of this user: a job that cron or su started
// has no XDG_RUNTIME_DIR, and who asks for it may have one, or the other way around.
std::vector<std::filesystem::path> private_directories();

// A directory (no link) of this user that nobody else can enter: whoever owns it could pose as the daemon.
bool is_private_directory(const std::filesystem::path& directory);

// The sockets in those of the directories that are private; the others are passed over.
std::vector<std::string> sockets_in(const std::vector<std::filesystem::path>& directories);

}  // namespace terrace::cli
