// Metrics as terraced serves them: on a Unix socket and on a port, beside jobs.
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>

#include "tests/daemon/support.h"

using namespace terrace;
using namespace terrace::tests;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

daemon::UniqueFd connect_stream(const std::string& where) {
  const daemon::MetricsAddress address = daemon::parse_metrics_address(where);
  daemon::UniqueFd fd(::socket(address.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.address), address.bytes) != 0)
    fd.reset();
  return fd;
}

// Up to the end of the connection, or 10 s of silence.
std::string read_all(int fd) {
  std::string all;
  pollfd waiting{fd, POLLIN, 0};
  char chunk[65536];
  while (::poll(&waiting, 1, 10'000) > 0) {
    const ssize_t got = ::recv(fd, chunk, sizeof chunk, 0);
    if (got <= 0) break;
    all.append(chunk, static_cast<std::size_t>(got));
  }
  return all;
}

std::string get(const std::string& where,
                const std::string& words = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") {
  const daemon::UniqueFd fd = connect_stream(where);
  if (!fd || ::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL) < 0) return {};
  return read_all(fd.get());
}

// One that nobody has at the moment.
std::string free_port() {
  const daemon::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0);
  REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

// A port, or a socket in the server's directory for "".
struct MetricsServer {
  std::string where;
  ServerThread server;
  explicit MetricsServer(const std::string& listen = "")
      : server([&](daemon::ServerOptions& options) {
          where = listen.empty() ? options.config.pool_directory + "/m.sock" : listen;
          options.config.metrics.listen = where;
        }) {}
};

}  // namespace

TEST_CASE("MetricsAreServedOnAUnixSocketOfItsUser") {
  MetricsServer metrics;
  CHECK_THAT(get(metrics.where),
             StartsWith("HTTP/1.1 200 OK\r\n") && Contains("\nterrace_jobs 0\n") && Contains("# EOF\n"));
  struct stat status {};
  REQUIRE(::stat(metrics.where.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  metrics.server.stop();
  CHECK(::stat(metrics.where.c_str(), &status) != 0);
}

TEST_CASE("MetricsAreServedOnAPort") {
  const MetricsServer metrics(free_port());
  RawClient job(metrics.server.socket());
  join(job, greeting("train", 64 * mib));
  CHECK_THAT(get(metrics.where), Contains(R"(terrace_job_budget_bytes{job_name="train",uid=")") &&
                                     Contains("\nterrace_jobs 1\n"));
  CHECK_THAT(get(metrics.where, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"),
             StartsWith("HTTP/1.1 405 "));
  CHECK_THAT(get(metrics.where, "GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
}

TEST_CASE("NothingIsServedWithoutAnAddress") {
  ServerThread server;
  CHECK_FALSE(connect_stream(server.directory() / "m.sock"));
}

TEST_CASE("APortThatIsTakenCostsTheMetricsAlone") {
  const MetricsServer first(free_port());
  const MetricsServer second(first.where);
  CHECK(ask(second.server.socket(), {{"verb", "ping"}})["ok"] == true);
  CHECK_THAT(get(first.where), StartsWith("HTTP/1.1 200 "));
}

TEST_CASE("ASocketThatIsServedIsNotTakenAndAnOldOneIs") {
  const TemporaryDirectory directory;
  const std::string where = directory / "m.sock";
  {
    const MetricsServer first(where);
    { const MetricsServer second(where); }
    CHECK_THAT(get(where), StartsWith("HTTP/1.1 200 "));
  }
  const daemon::UniqueFd killed(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const daemon::MetricsAddress address = daemon::parse_metrics_address(where);
  REQUIRE(::bind(killed.get(), reinterpret_cast<const sockaddr*>(&address.address), address.bytes) == 0);
  const MetricsServer third(where);
  CHECK_THAT(get(where), StartsWith("HTTP/1.1 200 "));
}

TEST_CASE("WhatIsNoSocketIsLeftAlone") {
  const TemporaryDirectory directory;
  const std::string where = directory / "m.sock";
  std::ofstream(where) << "precious";
  { const MetricsServer metrics(where); }
  std::string word;
  std::ifstream(where) >> word;
  CHECK(word == "precious");
}

// The last close of a descriptor may take a minute; the loop must not be who closes it.
TEST_CASE("DescriptorsThatComeAlongHoldUpNobody") {
  const TemporaryDirectory directory;
  const std::string socket = directory / "t.sock", where = directory / "m.sock", file = directory / "t.toml";
  std::ofstream(file) << "[budget]\ndram = \"1G\"\n[pool]\nsize = \"64M\"\ndirectory = \"" << directory.path()
                      << "\"\n[metrics]\nlisten = \"" << where << "\"\n";
  DaemonProcess process(socket, {"--private", "--config", file});
  LingeringSocket slow;
  daemon::UniqueFd client;  // this socket is there a moment after the other one, for which the process waits
  REQUIRE(eventually([&] { return static_cast<bool>(client = connect_stream(where)); }));
  const char words[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  const int fds[] = {slow.fd()};
  const auto send = [&](std::size_t bytes, bool with_descriptor) {
    iovec part{const_cast<char*>(words), bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (with_descriptor) {
      header.msg_control = control;
      header.msg_controllen = sizeof control;
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof fds);
      std::memcpy(CMSG_DATA(rights), fds, sizeof fds);
    }
    CHECK(::sendmsg(client.get(), &header, MSG_NOSIGNAL) > 0);
  };
  process.while_stopped([&] {
    SECTION("with the request") { send(sizeof words - 1, true); }
    SECTION("within it") {
      send(10, false);
      send(5, true);
    }
    SECTION("behind it") {
      send(sizeof words - 1, false);
      send(5, true);
    }
    SECTION("behind much else") {
      const int much = 1 << 20;
      ::setsockopt(client.get(), SOL_SOCKET, SO_SNDBUF, &much, sizeof much);
      send(sizeof words - 1, false);
      const std::string more(std::size_t{32} << 10, 'x');
      for (int i = 0; i < 5; ++i)
        CHECK(::send(client.get(), more.data(), more.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
              static_cast<ssize_t>(more.size()));
      send(5, true);
    }
    slow.let_go();
  });
  client.reset();
  CHECK_THAT(get(where), StartsWith("HTTP/1.1 200 "));
  CHECK(ask(socket, {{"verb", "ping"}})["ok"] == true);
}

// The job's own process writes into the segment; so does this one, as if it were that.
TEST_CASE("TotalsOfAJobStayWhenItEnds") {
  const MetricsServer metrics(free_port());
  {
    RawClient job(metrics.server.socket());
    const Received received = join(job, greeting("train", 64 * mib));
    const auto welcome = received.as<wire::Welcome>();
    void* base =
        ::mmap(nullptr, welcome.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, received.fds[0].get(), 0);
    REQUIRE(base != MAP_FAILED);
    auto* stats = reinterpret_cast<wire::JobStats*>(static_cast<std::byte*>(base) + welcome.stats_offset);
    stats->set(wire::Stat::faults, 42);
    ::munmap(base, welcome.segment_bytes);
  }
  CHECK(eventually([&] {
    const std::string text = get(metrics.where);
    return text.find("\nterrace_jobs 0\n") != std::string::npos &&
           text.find(R"(terrace_job_faults_total{job_name="train",uid=")" + std::to_string(::getuid()) +
                     "\"} 42\n") != std::string::npos;
  }));
}
