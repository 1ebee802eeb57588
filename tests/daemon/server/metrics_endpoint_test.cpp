// The endpoint of metrics by itself, with a clock of the test's: what clients may cost.
#include "daemon/server/metrics_endpoint.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "tests/daemon/temporary_directory.h"

using namespace terrace;
using namespace terrace::daemon;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

constexpr const char* request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr std::uint64_t second_ns = 1'000'000'000;

struct EndpointFixture {
  tests::TemporaryDirectory directory;
  Poller poller;
  LogLimit log_limit;
  Door door{poller, log_limit, 0};
  std::string text = "# EOF\n";
  int renders = 0;
  std::uint64_t now_ns = 1000 * second_ns;
  MetricsEndpoint endpoint{poller, door, [](std::uint64_t number) { return number; },
                           [this] {
                             ++renders;
                             return text;
                           }};

  EndpointFixture() {
    Config config;
    config.metrics.listen = directory / "m.sock";
    REQUIRE_THAT(endpoint.open(config, true, UniqueFd()), Equals(""));
  }
  UniqueFd connect() const {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (directory / "m.sock").c_str());
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
    return fd;
  }
  // Serves what has happened, until nothing does.
  void serve() {
    std::array<epoll_event, 64> events;
    for (int rounds = 0; rounds < 1000; ++rounds) {
      const auto happened = poller.wait(events, 0);
      if (happened.empty()) return;
      for (const epoll_event& event : happened) endpoint.handle(event.data.u64, event.events, now_ns);
    }
  }
  void say(const UniqueFd& client, std::string_view words) {
    CHECK(::send(client.get(), words.data(), words.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(words.size()));
    serve();
  }
  // What has come so far.
  static std::string heard(const UniqueFd& client) {
    std::string all;
    char chunk[65536];
    ssize_t got = 0;
    while ((got = ::recv(client.get(), chunk, sizeof chunk, 0)) > 0)
      all.append(chunk, static_cast<std::size_t>(got));
    return all;
  }
  static bool is_closed(const UniqueFd& client) {
    char byte = 0;
    return ::recv(client.get(), &byte, 1, 0) == 0 || errno == ECONNRESET;
  }
};

}  // namespace

TEST_CASE_METHOD(EndpointFixture, "ARequestInPiecesIsAnsweredOnce") {
  const UniqueFd client = connect();
  for (const char* c = request; *c != '\0'; ++c) say(client, std::string_view(c, 1));
  CHECK_THAT(heard(client), StartsWith("HTTP/1.1 200 ") && EndsWith("\r\n\r\n# EOF\n"));
  CHECK(is_closed(client));
  CHECK(renders == 1);
}

TEST_CASE_METHOD(EndpointFixture, "HeadHasNoBody") {
  const UniqueFd client = connect();
  say(client, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK_THAT(heard(client), Contains("Content-Length: 6\r\n") && EndsWith("\r\n\r\n"));
}

TEST_CASE_METHOD(EndpointFixture, "PipelinedRequestsGetOneAnswer") {
  const UniqueFd client = connect();
  std::string many;
  for (int i = 0; i < 100; ++i) many += request;
  say(client, many);
  const std::string answer = heard(client);
  CHECK(answer.find("HTTP/1.1", 1) == std::string::npos);
  CHECK(is_closed(client));
  ::shutdown(client.get(), SHUT_WR);
  serve();
  CHECK(endpoint.connections() == 0);
}

TEST_CASE_METHOD(EndpointFixture, "AHeaderWithoutEndIsRefusedAndTheRestThrownAway") {
  const UniqueFd client = connect();
  say(client, "GET /metrics HTTP/1.1\r\nX: ");
  const std::string more(1000, 'x');
  for (int i = 0; i < 9; ++i) say(client, more);
  CHECK_THAT(heard(client), StartsWith("HTTP/1.1 431 "));
  for (int i = 0; i < 1000 && endpoint.connections() != 0; ++i) {
    ::send(client.get(), more.data(), more.size(), MSG_NOSIGNAL);
    serve();
  }
  CHECK(endpoint.connections() == 0);
}

TEST_CASE_METHOD(EndpointFixture, "HalfARequestIsToldThatItIsLate") {
  const UniqueFd client = connect();
  say(client, "GET /met");
  now_ns += MetricsEndpoint::patience_ns - 1;
  endpoint.tick(now_ns);
  CHECK(endpoint.connections() == 1);
  endpoint.tick(++now_ns);
  CHECK_THAT(heard(client), StartsWith("HTTP/1.1 408 "));
  CHECK(is_closed(client));
  CHECK(endpoint.connections() == 0);
}

TEST_CASE_METHOD(EndpointFixture, "WhoReadsNothingIsClosedInTime") {
  text = std::string(8 << 20, 'x');
  const UniqueFd client = connect();
  say(client, request);
  now_ns += MetricsEndpoint::patience_ns;
  CHECK(endpoint.connections() == 1);
  endpoint.tick(now_ns);
  CHECK(endpoint.connections() == 0);
  CHECK(heard(client).size() < text.size());
}

TEST_CASE_METHOD(EndpointFixture, "WhoReadsSlowlyGetsAll") {
  text = std::string(8 << 20, 'x');
  const UniqueFd client = connect();
  say(client, request);
  std::string all;
  for (int i = 0; i < 10'000 && all.size() < text.size(); ++i) {
    all += heard(client);
    serve();
  }
  CHECK(all.size() > text.size());
  CHECK_THAT(all.substr(all.size() - 10), Equals("xxxxxxxxxx"));
}

TEST_CASE_METHOD(EndpointFixture, "WhoDoesNotHangUpIsHungUpOn") {
  const UniqueFd client = connect();
  say(client, request);
  CHECK(endpoint.connections() == 1);
  endpoint.tick(now_ns + MetricsEndpoint::linger_ns);
  CHECK(endpoint.connections() == 0);
}

TEST_CASE_METHOD(EndpointFixture, "TheTextIsWrittenOnceASecond") {
  for (int i = 0; i < 10; ++i) {
    say(connect(), request);
    now_ns += second_ns / 10;
  }
  CHECK(renders == 1);
  say(connect(), request);
  CHECK(renders == 2);
}

TEST_CASE_METHOD(EndpointFixture, "TheOldestConnectionMakesRoom") {
  std::vector<UniqueFd> silent;
  for (std::size_t i = 0; i < 2 * MetricsEndpoint::max_connections; ++i) {
    silent.push_back(connect());
    serve();
    now_ns += second_ns / 8;  // all within their time
    endpoint.tick(now_ns);
  }
  CHECK(endpoint.connections() == MetricsEndpoint::max_connections);
  CHECK(is_closed(silent.front()));
  CHECK_FALSE(is_closed(silent.back()));
  const UniqueFd honest = connect();
  serve();
  say(honest, request);
  CHECK_THAT(heard(honest), StartsWith("HTTP/1.1 200 "));
}

TEST_CASE_METHOD(EndpointFixture, "ConnectionsWithoutEndWaitInTheBacklog") {
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(connect());
    if (clients.back()) ::send(clients.back().get(), request, std::strlen(request), MSG_NOSIGNAL);
    serve();
  }
  std::size_t answered = 0;
  for (const UniqueFd& client : clients) answered += client && !heard(client).empty() ? 1 : 0;
  CHECK(answered == 16);
  CHECK_FALSE(clients.back());  // the backlog is full
  now_ns += second_ns;
  endpoint.tick(now_ns);
  serve();
  for (const UniqueFd& client : clients) answered += client && !heard(client).empty() ? 1 : 0;
  CHECK(answered == 26);
}

TEST_CASE_METHOD(EndpointFixture, "GarbageNeverHurts") {
  for (int i = 0; i < 200; ++i) {
    const UniqueFd client = connect();
    std::string garbage;
    for (int k = 0; k < 50 + i; ++k) garbage += static_cast<char>(i * 31 + k * 17);
    say(client, garbage + (i % 2 == 0 ? "\r\n\r\n" : ""));
    if (i % 2 == 0) CHECK_THAT(heard(client), StartsWith("HTTP/1.1 400 "));
    now_ns += second_ns;
    endpoint.tick(now_ns);
  }
}
