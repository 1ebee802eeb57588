// See metrics_rule.h.
#include "daemon/settings/metrics_rule.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <charconv>
#include <cstring>
#include <optional>

namespace terrace::daemon {
namespace {

constexpr std::string_view forms = "give /PATH, 127.0.0.1:PORT or [::1]:PORT";

MetricsAddress wrong(std::string what) {
  MetricsAddress result;
  result.error = std::move(what);
  return result;
}

template <class Address>
MetricsAddress address_of(const Address& address) {
  MetricsAddress result;
  std::memcpy(&result.address, &address, sizeof address);
  result.bytes = sizeof address;
  return result;
}

MetricsAddress unix_address(std::string_view path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return wrong(fmt::format("the socket path has {} characters; the kernel allows {}", path.size(),
                             sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address_of(address);
}

std::optional<in_port_t> port_of(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0 || port > 0xffff)
    return std::nullopt;
  return htons(static_cast<std::uint16_t>(port));
}

MetricsAddress internet_address(const std::string& host, in_port_t port) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = port;
  if (::inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), &four.sin_addr) == 1)
    return address_of(four);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = port;
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (has_brackets && ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &six.sin6_addr) == 1)
    return address_of(six);
  return wrong(fmt::format("\"{}\" is not an address in numbers; {}", host, forms));
}

}  // namespace

bool MetricsAddress::is_local() const {
  if (address.ss_family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, &address, sizeof four);
    return ntohl(four.sin_addr.s_addr) >> 24U == IN_LOOPBACKNET;
  }
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 six;
    std::memcpy(&six, &address, sizeof six);
    return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
  }
  return is_unix();
}

MetricsAddress parse_metrics_address(std::string_view text) {
  if (text.starts_with('/')) return unix_address(text);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return wrong(
        fmt::format("\"{}\" is neither an absolute path nor an address with a port; {}", text, forms));
  const auto port = port_of(text.substr(colon + 1));
  if (!port)
    return wrong(fmt::format("\"{}\" is not a port from 1 to 65535; {}", text.substr(colon + 1), forms));
  MetricsAddress result = internet_address(std::string(text.substr(0, colon)), *port);
  if (result.error.empty() && !result.is_local())
    return wrong(
        fmt::format("{} can be reached from other machines, and metrics name users and their jobs to whoever "
                    "asks; {}, and let a proxy that asks for a password serve others",
                    text, forms));
  return result;
}

}  // namespace terrace::daemon
