// The job's client against a server in the same process: what a grant looks like, what is shared, what a
// child forgets, and what a bad daemon cannot do to a job.
#include "liballoc/agent/client/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/sockets/connection.h"
#include "liballoc/base/os.h"
#include "tests/daemon/support.h"

using namespace terrace;
using namespace terrace::tests;
using liballoc::Client;
using liballoc::ClientConfig;
using liballoc::Notice;
using os::now_ns;

namespace {

Notice await_notice(Client& client) {
  Notice notice = Notice::nothing;
  eventually([&] { return (notice = client.step(now_ns())) != Notice::nothing; });
  return notice;
}

ClientConfig config_for(const std::string& socket, std::uint64_t budget = 256 * mib, std::uint64_t pool = 0) {
  return {.socket_path = socket.c_str(),
          .job = "train",
          .program = "python3",
          .requested_budget_bytes = budget,
          .pool_wanted_bytes = pool};
}

// A daemon that answers every greeting with the same packet.
class FalseDaemon {
 public:
  FalseDaemon() {
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_.get(), 5) == 0);
  }
  int start_against(const void* answer, std::size_t size, std::span<const int> fds = {}) {
    std::thread serving([&] {
      daemon::Connection connection(daemon::UniqueFd(::accept(listener_.get(), nullptr, nullptr)), {}, 0);
      pollfd waiting{connection.fd(), POLLIN, 0};
      ::poll(&waiting, 1, 5000);
      connection.send(answer, size, fds);
      ::poll(&waiting, 1, 5000);
      daemon::Packet packet;
      connection.receive(&packet);
      ::poll(&waiting, 1, 5000);  // until the client hangs up
    });
    const int error = client.start(config_for(path_));
    client.shutdown();
    serving.join();
    return error;
  }
  daemon::UniqueFd accepted() { return daemon::UniqueFd(::accept(listener_.get(), nullptr, nullptr)); }
  const std::string& path() const { return path_; }
  Client client;

 private:
  TemporaryDirectory directory_;
  std::string path_ = directory_ / "false.sock";
  daemon::UniqueFd listener_;
};

}  // namespace

TEST_CASE("a client is usable before it is started, and needs no constructor") {
  static constinit Client client;
  client.push({.address = 1, .kind = wire::EventKind::alloc});
  for (int i = 0; i < 100; ++i) client.push({.address = 2, .kind = wire::EventKind::free});
  client.stats()->set(wire::Stat::faults, 3);
  CHECK(client.stats()->get(wire::Stat::faults) == 3);
  CHECK(client.wait_fd() == -1);
  CHECK(client.step(now_ns()) == Notice::nothing);
  CHECK_FALSE(client.connected());
}

TEST_CASE("a grant is what the daemon has promised") {
  ServerThread server;
  auto client = std::make_unique<Client>();
  REQUIRE(client->start(config_for(server.socket(), 256 * mib, 128 * mib)) == 0);
  CHECK(client->connected());
  CHECK(client->grant().budget_bytes == 256 * mib);
  CHECK(client->grant().pool_capacity_bytes == 128 * mib);
  CHECK(client->grant().pool_limit_bytes == 128 * mib);
  REQUIRE(client->grant().pool_fd >= 0);
  CHECK((::fcntl(client->grant().pool_fd, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(client->wait_fd(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(client->start(config_for(server.socket())) == EALREADY);
  client->shutdown();
  CHECK(eventually([&] { return ask(server.socket(), {{"verb", "jobs"}})["jobs"].empty(); }));
}

TEST_CASE("a client that wants tiers is connected when it knows them, and hears of a new limit") {
  ServerThread server([](daemon::ServerOptions& options) {
    options.config.tiers.compressed = wire::Amount::percent(25);
    options.config.tiers.nvm = daemon::NvmRule{.bytes = 256 * mib, .directory = "/var/tmp"};
  });
  ClientConfig wants = config_for(server.socket(), 64 * mib);
  wants.wants_tiers = true;
  Client first, second, other;
  REQUIRE(first.start(wants) == 0);
  CHECK(std::string(first.grant().tiers) == "compressed=25%");
  REQUIRE(first.grant().nvm_fd >= 0);
  CHECK((::fcntl(first.grant().nvm_fd, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(first.grant().nvm_capacity_bytes == 128 * mib);
  CHECK(first.grant().nvm_limit_bytes == 128 * mib);
  REQUIRE(second.start(wants) == 0);
  CHECK(eventually([&] {
    static_cast<void>(first.step(now_ns()));
    return first.grant().nvm_limit_bytes == 64 * mib;
  }));
  REQUIRE(other.start(config_for(server.socket(), 64 * mib)) == 0);
  CHECK(other.grant().nvm_fd == -1);
  CHECK(other.grant().tiers[0] == '\0');
  const int fd = first.grant().nvm_fd;
  for (Client* client : {&first, &second, &other}) client->shutdown();
  CHECK(::fcntl(fd, F_GETFD) == -1);
}

TEST_CASE("a client that wants tiers starts without any where the daemon has none") {
  ServerThread server;
  ClientConfig wants = config_for(server.socket());
  wants.wants_tiers = true;
  Client client;
  REQUIRE(client.start(wants) == 0);
  CHECK(client.connected());
  CHECK(client.grant().nvm_fd == -1);
  client.shutdown();
}

TEST_CASE("low descriptor numbers stay the program's") {
  ServerThread server;
  const int next = ::dup(0);
  ::close(next);
  auto client = std::make_unique<Client>();
  REQUIRE(client->start(config_for(server.socket(), 256 * mib, 128 * mib)) == 0);
  CHECK(client->wait_fd() > next);
  CHECK(client->grant().pool_fd > next);
  client->shutdown();
}

TEST_CASE("a refusal is told with its reason, and not asked again") {
  ServerThread server;
  Client client;
  CHECK(client.start(config_for(server.socket(), 2 * gib)) == ENOSPC);
  CHECK_THAT(std::string(client.refused_text()), Catch::Matchers::Contains("1.0 GiB"));
  CHECK(client.wait_fd() == -1);
  CHECK(client.step(now_ns() + 60'000'000'000) == Notice::nothing);
  CHECK(client.wait_fd() == -1);
}

TEST_CASE("nobody there and senseless settings are errors at once") {
  Client client;
  CHECK(client.start(config_for("/nonexistent/t.sock")) == ENOENT);
  Client second;
  CHECK(second.start(config_for("")) == EINVAL);
  CHECK(second.start(ClientConfig{}) == EINVAL);
  CHECK(second.start(config_for(std::string(200, 'x'))) == EINVAL);
}

TEST_CASE("a daemon that comes later is found") {
  Client client;
  const TemporaryDirectory directory;
  const std::string socket = directory / "late.sock";
  CHECK(client.start(config_for(socket)) == ENOENT);
  ServerThread server([&](daemon::ServerOptions& options) { options.config.socket = socket; });
  CHECK(await_notice(client) == Notice::reconnected);
  CHECK(client.grant().budget_bytes == 256 * mib);
  client.shutdown();
}

TEST_CASE("a job with a pool file of its own takes none of a daemon that comes later") {
  Client client;
  const TemporaryDirectory directory;
  const std::string socket = directory / "late.sock";
  CHECK(client.start(config_for(socket, 256 * mib, 128 * mib)) == ENOENT);
  client.use_no_pool();
  ServerThread server([&](daemon::ServerOptions& options) { options.config.socket = socket; });
  CHECK(await_notice(client) == Notice::reconnected);
  CHECK(client.grant().pool_fd == -1);
  CHECK(client.grant().pool_capacity_bytes == 0);
  client.shutdown();
}

TEST_CASE("counters and events reach the daemon") {
  ServerThread server;
  Client client;
  client.stats()->set(wire::Stat::evictions, 4);  // before the start: carried over
  REQUIRE(client.start(config_for(server.socket())) == 0);
  client.stats()->set(wire::Stat::faults, 17);
  client.stats()->set_state(wire::Stat::pager, wire::Pager::active);
  client.push({.time_ns = 1, .address = 0xABC000, .bytes = 4096, .kind = wire::EventKind::evict});
  client.log(wire::Severity::warning, "hello");
  const auto jobs = ask(server.socket(), {{"verb", "jobs"}});
  const auto& session = jobs["jobs"][0]["sessions"][0];
  CHECK(session["statistics"]["faults"] == 17);
  CHECK(session["statistics"]["evictions"] == 4);
  CHECK(session["pager"] == "active");
  CHECK(session["program"] == "python3");
  CHECK(eventually([&] {
    const auto events = ask(server.socket(), {{"verb", "events"}}).dump();
    return events.find("\"evict\"") != std::string::npos && events.find("hello") != std::string::npos;
  }));
  client.shutdown();
}

TEST_CASE("budget changes and trims are noticed") {
  ServerThread server;
  Client client;
  REQUIRE(client.start(config_for(server.socket())) == 0);
  ask(server.socket(), {{"verb", "trim"}, {"job", "train"}});
  CHECK(await_notice(client) == Notice::trim);
  ask(server.socket(), {{"verb", "set_budget"}, {"job", "train"}, {"bytes", 128 * mib}});
  CHECK(await_notice(client) == Notice::budget_changed);
  CHECK(client.grant().budget_bytes == 128 * mib);
  CHECK(client.step(now_ns()) == Notice::nothing);
  client.shutdown();
}

TEST_CASE("a forked child forgets the session and disturbs nothing") {
  ServerThread server;
  Client client;
  REQUIRE(client.start(config_for(server.socket(), 256 * mib, 128 * mib)) == 0);
  client.stats()->set(wire::Stat::faults, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    client.after_fork_in_child();
    client.stats()->set(wire::Stat::faults, 999);
    client.push({.address = 666, .kind = wire::EventKind::alloc});
    const bool forgot = client.wait_fd() == -1 && client.step(now_ns()) == Notice::nothing &&
                        ::fcntl(client.grant().pool_fd, F_GETFD) >= 0;
    client.shutdown();
    ::_exit(forgot ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(client.step(now_ns()) == Notice::nothing);
  CHECK(client.connected());
  CHECK(client.stats()->get(wire::Stat::faults) == 1);
  const auto answer = ask(server.socket(), {{"verb", "events"}});
  REQUIRE_FALSE(answer["events"].empty());
  for (const auto& event : answer["events"]) CHECK(event.value("address", std::uint64_t{0}) != 666);
  client.shutdown();
}

TEST_CASE("a child that forgets its parent's grant is a process like any, with a pool of its own") {
  ServerThread server;
  Client client;
  const ClientConfig config = config_for(server.socket(), 256 * mib, 128 * mib);
  REQUIRE(client.start(config) == 0);
  const auto file_of = [&] {
    struct stat status {};
    return ::fstat(client.grant().pool_fd, &status) == 0 ? status.st_ino : 0;
  };
  const ino_t parents = file_of();
  const pid_t child = ::fork();
  if (child == 0) {
    const int parents_fd = client.grant().pool_fd;
    client.after_fork_in_child();
    client.forget_grant();
    if (::fcntl(parents_fd, F_GETFD) >= 0) ::_exit(1);
    if (client.start(config) != 0) ::_exit(2);
    ::_exit(client.connected() && file_of() != 0 && file_of() != parents ? 0 : 3);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(file_of() == parents);
  client.shutdown();
}

TEST_CASE("a program that closes descriptors it did not open loses the session, not its own files") {
  ServerThread server;
  Client client;
  REQUIRE(client.start(config_for(server.socket())) == 0);
  const int number = client.wait_fd();
  const daemon::UniqueFd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  REQUIRE(::dup2(file.get(), number) == number);  // what the number is now is the program's
  CHECK(await_notice(client) == Notice::disconnected);
  CHECK(::fcntl(number, F_GETFD) >= 0);
  ::close(number);
  CHECK(await_notice(client) == Notice::reconnected);
  client.shutdown();
}

TEST_CASE_METHOD(FalseDaemon, "DaemonThatSendsGarbageIsLeft") {
  CHECK(start_against("garbage", 7) == EBADMSG);
}

TEST_CASE_METHOD(FalseDaemon, "DaemonThatAnswersOutOfPlaceIsLeft") {
  const auto trim = wire::make<wire::Trim>();
  CHECK(start_against(&trim, sizeof trim) == EBADMSG);
}

TEST_CASE_METHOD(FalseDaemon, "WelcomeWithoutASegmentIsLeft") {
  const auto welcome = wire::make<wire::Welcome>();
  CHECK(start_against(&welcome, sizeof welcome) == EBADMSG);
}

namespace {

wire::Welcome sound_welcome() {
  wire::Welcome welcome = wire::make<wire::Welcome>();
  welcome.flags = wire::welcome_segment_fd;
  welcome.segment_bytes = 16384;
  welcome.stats_offset = 0;
  welcome.ring_offset = 4096;
  welcome.ring_capacity = 64;
  return welcome;
}

daemon::UniqueFd segment(unsigned seals, off_t bytes = 16384) {
  daemon::UniqueFd fd(::memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(fd.get(), bytes) == 0);
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

}  // namespace

TEST_CASE_METHOD(FalseDaemon, "WelcomeWithASoundSegmentIsTaken") {
  const auto fd = segment(F_SEAL_SHRINK);
  const int fds[] = {fd.get()};
  const auto welcome = sound_welcome();
  CHECK(start_against(&welcome, sizeof welcome, fds) == 0);
}

TEST_CASE_METHOD(FalseDaemon, "SegmentThatCouldShrinkIsNotMapped") {
  const auto fd = segment(F_SEAL_GROW);
  const int fds[] = {fd.get()};
  const auto welcome = sound_welcome();
  CHECK(start_against(&welcome, sizeof welcome, fds) == EBADMSG);
}

TEST_CASE_METHOD(FalseDaemon, "SegmentShorterThanItSaysIsNotMapped") {
  const auto fd = segment(F_SEAL_SHRINK, 4096);
  const int fds[] = {fd.get()};
  const auto welcome = sound_welcome();
  CHECK(start_against(&welcome, sizeof welcome, fds) == EBADMSG);
}

TEST_CASE_METHOD(FalseDaemon, "OffsetsOutsideTheSegmentAreNotUsed") {
  const auto fd = segment(F_SEAL_SHRINK);
  const int fds[] = {fd.get()};
  auto welcome = sound_welcome();
  SECTION("counters behind the end") { welcome.stats_offset = 16384; }
  SECTION("counters across the end") { welcome.stats_offset = 16384 - 64; }
  SECTION("counters misaligned") { welcome.stats_offset = 8; }
  SECTION("ring in the counters") { welcome.ring_offset = 512; }
  SECTION("counters in the ring") { welcome.stats_offset = 4096 + 64; }
  SECTION("ring behind the end") { welcome.ring_offset = std::uint64_t{1} << 63; }
  SECTION("ring longer than the segment") { welcome.ring_capacity = 1024; }
  SECTION("ring of no power of two") { welcome.ring_capacity = 63; }
  SECTION("empty ring") { welcome.ring_capacity = 0; }
  SECTION("ring of overflowing size") { welcome.ring_capacity = std::uint64_t{1} << 62; }
  SECTION("huge segment") { welcome.segment_bytes = std::uint64_t{1} << 40; }
  CHECK(start_against(&welcome, sizeof welcome, fds) == EBADMSG);
}

namespace {

// What comes next: the bytes of the packet, and the descriptor that came with it.
template <class Message>
daemon::UniqueFd receive_with_fd(int socket, Message* message) {
  iovec part{message, sizeof *message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  if (::recvmsg(socket, &header, MSG_CMSG_CLOEXEC) != sizeof *message) return {};
  const cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  int fd = -1;
  if (rights != nullptr) std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
  return daemon::UniqueFd(fd);
}

}  // namespace

TEST_CASE_METHOD(FalseDaemon, "A period goes to the daemon with its file") {
  const auto shared = segment(F_SEAL_SHRINK);
  const auto file = segment(F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW, 4096);
  CHECK(client.send_period(1, 2, 3, file.get()) == ENOTCONN);
  daemon::UniqueFd socket;
  std::thread serving([&] {
    socket = accepted();
    daemon::Connection connection(daemon::UniqueFd(::dup(socket.get())), {}, 0);
    const int fds[] = {shared.get()};
    auto welcome = sound_welcome();
    welcome.features = wire::feature_write_lease;
    connection.send(&welcome, sizeof welcome, fds);
  });
  const int error = client.start(config_for(path()));
  serving.join();
  REQUIRE(error == 0);
  wire::Hello hello;
  receive_with_fd(socket.get(), &hello);
  CHECK(client.has_feature(wire::feature_write_lease));
  CHECK_FALSE(client.has_feature(wire::feature_write_lease | wire::feature_pool_limit));
  REQUIRE(client.send_period(7, 99, 4000, file.get()) == 0);
  wire::Period period;
  const daemon::UniqueFd received = receive_with_fd(socket.get(), &period);
  wire::Header header;
  REQUIRE(wire::check_packet(&period, sizeof period, &header) == 0);
  CHECK(header.type == wire::Type::period);
  CHECK(period.phase == 7);
  CHECK(period.period_hash == 99);
  CHECK(period.image_bytes == 4000);
  struct stat sent, got;
  REQUIRE(::fstat(file.get(), &sent) == 0);
  REQUIRE(::fstat(received.get(), &got) == 0);
  CHECK(got.st_ino == sent.st_ino);
  // A daemon that does not read: asked again later, not waited for.
  int answer = 0;
  for (int i = 0; i < 100'000 && answer == 0; ++i) answer = client.send_period(7, 99, 4000, file.get());
  CHECK(answer == EAGAIN);
  client.shutdown();
  CHECK_FALSE(client.has_feature(wire::feature_write_lease));
}

TEST_CASE("a daemon that never answers holds a job for 2 s at most") {
  const TemporaryDirectory directory;
  FalseDaemon silent;  // listens, never accepts
  Client client;
  CHECK(client.start(config_for(silent.path())) == ETIMEDOUT);
  CHECK(client.wait_fd() == -1);
}

TEST_CASE("leases of writes are noticed and kept while no daemon is there") {
  ServerThread server([](daemon::ServerOptions& options) {
    options.config.writes_per_day = 256 * mib;
    options.config.state = options.config.pool_directory + "/state";
  });
  Client client;
  REQUIRE(client.start(config_for(server.socket(), 256 * mib, 128 * mib)) == 0);
  client.stats()->set(wire::Stat::heartbeat_ns, 1);
  CHECK(await_notice(client) == Notice::budget_changed);
  CHECK(client.grant().most_written_bytes == 128 * mib);
  CHECK_FALSE(client.grant().is_last_lease);
  server.stop();
  CHECK(await_notice(client) == Notice::disconnected);
  CHECK(client.grant().most_written_bytes == 128 * mib);
  client.shutdown();
}
