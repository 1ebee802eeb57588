// See support.h.
#include "tests/daemon/support.h"

#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>

namespace terrace::tests {
namespace {

constexpr int patience_ms = 10'000;

int connect_to(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), sizeof address.sun_path - 1));
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

ServerThread::ServerThread(const std::function<void(daemon::ServerOptions&)>& change) {
  spdlog::set_level(spdlog::level::off);
  daemon::ServerOptions options;
  options.config.socket = socket_;
  options.config.dram = {daemon::Amount::Unit::bytes, gib};
  options.config.pool_directory = directory_.path();
  options.config.pool_bytes = gib;
  options.is_private = true;
  if (change) change(options);
  server_ = std::make_unique<daemon::Server>(options);
  REQUIRE_THAT(server_->open(), Catch::Matchers::Equals(""));
  thread_ = std::thread([this] { server_->run(); });
}

void ServerThread::stop() {
  server_->stop();
  if (thread_.joinable()) thread_.join();
  server_.reset();
}

ServerThread::~ServerThread() {
  if (server_) stop();
}

DaemonProcess::DaemonProcess(const std::string& socket, const std::vector<std::string>& more) {
  std::vector<std::string> words{TERRACED_PATH, "--socket", socket, "--log-level", "error"};
  const bool has_file = std::find(more.begin(), more.end(), "--config") != more.end();
  if (!has_file) words.insert(words.end(), {"--dram", "1G", "--pool-size", "1G"});
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  REQUIRE(eventually([&] { return daemon::UniqueFd(connect_to(socket)) ? true : false; }));
}

void DaemonProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int DaemonProcess::terminate() {
  int status = -1;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool DaemonProcess::exits_by_itself() {
  const bool exited = eventually([&] { return ::waitpid(pid_, nullptr, WNOHANG) == pid_; });
  if (exited) pid_ = -1;
  return exited;
}

void DaemonProcess::while_stopped(const std::function<void()>& action) const {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);
  action();
  ::kill(pid_, SIGCONT);
}

std::optional<wire::Type> Received::type() const {
  wire::Header header;
  if (wire::check_packet(bytes.data(), bytes.size(), &header) != 0) return std::nullopt;
  return header.type;
}

RawClient::RawClient(const std::string& socket) : fd_(connect_to(socket)) { REQUIRE(fd_); }

bool RawClient::send(const void* bytes, std::size_t size, std::span<const int> fds) {
  iovec part{const_cast<void*>(bytes), size};
  std::vector<char> control(CMSG_SPACE(fds.size_bytes()) + 1);
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  return ::sendmsg(fd_.get(), &header, MSG_NOSIGNAL) >= 0;
}

bool RawClient::send_text(const std::string& json) {
  wire::Header header;
  header.type = wire::Type::control;
  header.length = static_cast<std::uint32_t>(json.size());
  std::string packet(reinterpret_cast<const char*>(&header), sizeof header);
  packet += json;
  return send(packet.data(), packet.size());
}

std::optional<Received> RawClient::receive() {
  pollfd waiting{fd_.get(), POLLIN, 0};
  if (::poll(&waiting, 1, patience_ms) <= 0) return std::nullopt;
  Received received;
  received.bytes.resize(wire::max_packet_bytes);
  iovec part{received.bytes.data(), received.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC);
  if (got <= 0) return std::nullopt;
  received.bytes.resize(static_cast<std::size_t>(got));
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    for (std::size_t i = 0; i < (item->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(item) + i * sizeof fd, sizeof fd);
      received.fds.emplace_back(fd);
    }
  }
  return received;
}

bool RawClient::is_closed() {
  pollfd waiting{fd_.get(), POLLIN, 0};
  while (::poll(&waiting, 1, patience_ms) > 0) {
    char packet[wire::max_packet_bytes];
    if (::recv(fd_.get(), packet, sizeof packet, MSG_DONTWAIT) <= 0) return true;
  }
  return false;
}

LingeringSocket::LingeringSocket() {
  const daemon::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* name = reinterpret_cast<sockaddr*>(&address);
  const int little = 2048;  // all else stays with the sender
  REQUIRE(::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little) == 0);
  REQUIRE(::bind(listener.get(), name, length) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), name, &length) == 0);
  sender_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(sender_.get(), name, length) == 0);
  reader_.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::vector<char> bytes(64 << 10);
  while (::send(sender_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
  }
  const linger minute{1, 60};
  REQUIRE(::setsockopt(sender_.get(), SOL_SOCKET, SO_LINGER, &minute, sizeof minute) == 0);
}

wire::Hello greeting(const char* job, std::uint64_t budget, std::uint64_t pool) {
  wire::Hello hello = wire::make<wire::Hello>();
  wire::copy_text(hello.job, sizeof hello.job, job);
  wire::copy_text(hello.program, sizeof hello.program, "test program");
  hello.requested_budget_bytes = budget;
  hello.pool_wanted_bytes = pool;
  return hello;
}

Received join(RawClient& client, const wire::Hello& hello) {
  REQUIRE(client.send(hello));
  auto received = client.receive();
  REQUIRE(received);
  REQUIRE(received->type() == wire::Type::welcome);
  return std::move(*received);
}

nlohmann::json ask(const std::string& socket, const nlohmann::json& request) {
  RawClient client(socket);
  REQUIRE(client.send_text(request.dump()));
  std::string text;
  for (std::uint32_t flags = wire::reply_more; (flags & wire::reply_more) != 0;) {
    const auto received = client.receive();
    REQUIRE(received);
    flags = received->as<wire::Reply>().flags;
    text.append(reinterpret_cast<const char*>(received->bytes.data()) + sizeof(wire::Reply),
                received->bytes.size() - sizeof(wire::Reply));
  }
  return nlohmann::json::parse(text);
}

std::size_t open_descriptors(pid_t pid) {
  const std::filesystem::directory_iterator entries("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace terrace::tests
