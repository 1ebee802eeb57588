#include "tools/cli/daemon/control_client.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "liballoc/wire/protocol.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

constexpr std::size_t largest_answer = std::size_t{64} << 20;

int connect_to(const std::string& path, int fd) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // Long enough for a busy machine, short enough that `terrace status` never hangs on a stopped daemon.
  const timeval patience{5, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

std::string_view remedy_for(int error, std::string_view otherwise) {
  if (error == EACCES || error == EPERM)
    return "ask the administrator to add you to the group of that socket (terrace)";
  if (error == ENAMETOOLONG) return "a socket path has at most 107 characters";
  return otherwise;
}

}  // namespace

ControlClient::ControlClient(ControlClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), refused_with_(other.refused_with_) {}

ControlClient& ControlClient::operator=(ControlClient&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(refused_with_, other.refused_with_);
  return *this;
}

ControlClient::~ControlClient() {
  if (fd_ >= 0) close(fd_);
}

Result<ControlClient> ControlClient::connect(const std::string& socket_path, std::string_view otherwise,
                                             int* error_number) {
  ControlClient client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), socket_path);
  const int error = client.fd_ < 0 ? errno : connect_to(socket_path, client.fd_);
  if (error_number != nullptr) *error_number = error;
  if (error == 0) return ok(std::move(client));
  return refused<ControlClient>(fmt::format("no daemon answers at {}: {}; {}", socket_path,
                                            std::strerror(error), remedy_for(error, otherwise)));
}

std::string ControlClient::describe(const char* what, int error) const {
  const char* reason = error == EAGAIN ? "no answer within 5 s" : std::strerror(error);
  return fmt::format("{} the daemon at {}: {}", what, path_, reason);
}

int ControlClient::send_request(const std::string& text) const {
  if (text.size() > wire::max_control_bytes) return EMSGSIZE;
  wire::Header header;
  header.type = wire::Type::control;
  header.length = static_cast<std::uint32_t>(text.size());
  std::string packet(reinterpret_cast<const char*>(&header), sizeof header);
  packet += text;
  return send(fd_, packet.data(), packet.size(), MSG_NOSIGNAL) < 0 ? errno : 0;
}

Result<std::string> ControlClient::receive_answer() const {
  std::string answer;
  std::vector<char> packet(wire::max_packet_bytes);
  for (std::uint32_t flags = wire::reply_more; (flags & wire::reply_more) != 0;) {
    const ssize_t got = recv(fd_, packet.data(), packet.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return refused<std::string>(describe("lost", got < 0 ? errno : ECONNRESET));
    wire::Header header;
    const int error = wire::check_packet(packet.data(), static_cast<std::size_t>(got), &header);
    if (error != 0 || header.type != wire::Type::reply || answer.size() > largest_answer)
      return refused<std::string>(describe("cannot understand", error == 0 ? EBADMSG : error));
    flags = wire::read_as<wire::Reply>(packet.data()).flags;
    answer.append(packet.data() + sizeof(wire::Reply), static_cast<std::size_t>(got) - sizeof(wire::Reply));
  }
  return ok(std::move(answer));
}

Result<json> ControlClient::request(const json& what) {
  refused_with_ = 0;
  if (const int error = send_request(what.dump())) return refused<json>(describe("cannot ask", error));
  const auto text = receive_answer();
  if (!text) return refused<json>(text.error);
  auto answer = json::parse(*text, nullptr, false);
  if (!answer.is_object()) return refused<json>(describe("cannot understand", EBADMSG));
  if (const auto error = answer.find("error"); error != answer.end()) {
    const auto number = answer.find("errno");
    refused_with_ = number != answer.end() && number->is_number_integer() ? number->get<int>() : EPROTO;
    return refused<json>(error->is_string() ? error->get<std::string>() : error->dump());
  }
  return ok(std::move(answer));
}

std::filesystem::path private_directory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return std::filesystem::path(runtime) / "terrace";
  return fmt::format("/tmp/terrace-{}", getuid());
}

std::vector<std::filesystem::path> private_directories() {
  std::vector<std::filesystem::path> directories{private_directory(),
                                                 fmt::format("/run/user/{}/terrace", getuid()),
                                                 fmt::format("/tmp/terrace-{}", getuid())};
  std::sort(directories.begin() + 1, directories.end());
  const auto repeated = std::find(directories.begin() + 1, directories.end(), directories.front());
  if (repeated != directories.end()) directories.erase(repeated);
  return directories;
}

bool is_private_directory(const std::filesystem::path& directory) {
  struct stat found {};
  return lstat(directory.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == getuid() &&
         (found.st_mode & 077) == 0;
}

std::vector<std::string> sockets_in(const std::vector<std::filesystem::path>& directories) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const std::filesystem::path& directory : directories) {
    if (!is_private_directory(directory)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(directory, ignored))
      if (entry.path().extension() == ".sock") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

namespace {

std::vector<std::string> usual_sockets() {
  std::vector<std::string> paths = sockets_in(private_directories());
  paths.insert(paths.begin(), system_socket);
  return paths;
}

}  // namespace

Result<Daemons> Daemons::find(const std::string& socket_option) {
  const char* variable = std::getenv("TERRACE_SOCKET");
  const std::string wanted = !socket_option.empty() ? socket_option : variable != nullptr ? variable : "";
  Daemons daemons;
  std::string why_not;
  for (const std::string& path : wanted.empty() ? usual_sockets() : std::vector{wanted}) {
    auto client = ControlClient::connect(path);
    if (client) daemons.clients_.push_back(std::move(*client));
    if (!client && why_not.empty()) why_not = client.error;
  }
  return daemons.clients_.empty() ? refused<Daemons>(why_not) : ok(std::move(daemons));
}

Result<std::vector<json>> Daemons::request(const json& what) {
  std::vector<json> answers;
  std::string why_not = "no daemon is left";
  for (ControlClient& client : clients_) {
    auto answer = client.request(what);
    if (!answer) {
      why_not = answer.error;
      continue;
    }
    (*answer)["socket"] = client.socket_path();
    answers.push_back(std::move(*answer));
  }
  return answers.empty() ? refused<std::vector<json>>(why_not) : ok(std::move(answers));
}

}  // namespace terrace::cli
