// See scrapes.h.
#include "tests/daemon/scale/scrapes.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/daemon/scale/client.h"

namespace terrace::tests::scale {

std::string scrape(const std::string& path) {
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), sizeof address.sun_path - 1));
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0)
    return {};
  std::string answer;
  std::array<char, 65536> chunk;
  pollfd waiting{socket.get(), POLLIN, 0};
  while (::poll(&waiting, 1, 10'000) > 0) {
    const ssize_t got = ::recv(socket.get(), chunk.data(), chunk.size(), 0);
    if (got <= 0) break;
    answer.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return answer;
}

std::optional<double> sample_of(const std::string& text, const std::string& name) {
  const std::string begin = "\n" + name + " ";
  const std::size_t at = text.find(begin);
  return at == std::string::npos ? std::nullopt : std::optional(std::atof(text.c_str() + at + begin.size()));
}

void Scraper::start(const std::string& socket, unsigned per_second) {
  thread_ = std::thread([this, socket, per_second] {
    while (!stopping_) {
      scrape(socket).ends_with("# EOF\n") ? ++answers_ : ++failures_;
      ::usleep(1'000'000 / per_second);
    }
  });
}

void Scraper::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

}  // namespace terrace::tests::scale
