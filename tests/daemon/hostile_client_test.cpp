// Clients that break the rules, each case named after how. After every one of them the daemon must serve an
// honest job, hold no descriptor of theirs, and promise nothing to them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "tests/daemon/support.h"

using namespace terrace;
using namespace terrace::tests;

namespace {

struct Fixture {
  ServerThread server;
  std::size_t descriptors_before = open_descriptors(::getpid());

  ~Fixture() {
    // The server is in this process: whatever it leaked would show.
    CHECK(eventually([&] { return open_descriptors(::getpid()) <= descriptors_before; }));
    {
      RawClient honest(server.socket());
      CHECK(join(honest, greeting("honest", gib)).as<wire::Welcome>().budget_bytes == gib);
    }
  }
  void expect_disconnect(const std::vector<std::byte>& packet) const {
    RawClient client(server.socket());
    client.send(packet.data(), packet.size());
    CHECK(client.is_closed());
  }
};

template <class Message>
std::vector<std::byte> bytes_of(const Message& message) {
  const auto* first = reinterpret_cast<const std::byte*>(&message);
  return {first, first + sizeof message};
}

}  // namespace

TEST_CASE_METHOD(Fixture, "GarbageIsDisconnected") {
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    std::vector<std::byte> packet(1 + random() % 3000);
    for (auto& byte : packet) byte = static_cast<std::byte>(random());
    expect_disconnect(packet);
  }
}

TEST_CASE_METHOD(Fixture, "FlippedBitsInAGreetingNeverHurt") {
  std::mt19937 random(4);
  for (int i = 0; i < 300; ++i) {
    auto packet = bytes_of(greeting("flipped", 4 * mib));
    packet[random() % packet.size()] ^= static_cast<std::byte>(1 << random() % 8);
    RawClient client(server.socket());
    client.send(packet.data(), packet.size());
  }
}

TEST_CASE_METHOD(Fixture, "TruncatedGreetingIsDisconnected") {
  const auto whole = bytes_of(greeting());
  for (const std::size_t size : {std::size_t{1}, std::size_t{15}, std::size_t{16}, whole.size() - 1})
    expect_disconnect({whole.begin(), whole.begin() + static_cast<long>(size)});
}

TEST_CASE_METHOD(Fixture, "HugeLengthIsDisconnected") {
  wire::Hello hello = greeting();
  hello.header.length = 0xFFFFFFFF;
  expect_disconnect(bytes_of(hello));
}

TEST_CASE_METHOD(Fixture, "HugePacketIsDisconnected") { expect_disconnect(std::vector<std::byte>(60'000)); }

TEST_CASE_METHOD(Fixture, "WrongVersionIsToldWhichOneIsRight") {
  wire::Hello hello = greeting();
  hello.header.version = 9;
  RawClient client(server.socket());
  client.send(hello);
  const auto received = client.receive();
  REQUIRE(received);
  CHECK(received->as<wire::Refused>().error == EPROTO);
  CHECK(client.is_closed());
}

TEST_CASE_METHOD(Fixture, "MessagesOutOfPlaceAreDisconnected") {
  expect_disconnect(bytes_of(wire::make<wire::Goodbye>()));
  expect_disconnect(bytes_of(wire::make<wire::Log>()));
  expect_disconnect(bytes_of(wire::make<wire::Welcome>()));
  expect_disconnect(bytes_of(wire::make<wire::Budget>()));
  expect_disconnect(bytes_of(wire::make<wire::Reply>()));
}

TEST_CASE_METHOD(Fixture, "TwoGreetingsAreDisconnected") {
  RawClient client(server.socket());
  join(client);
  client.send(greeting());
  CHECK(client.is_closed());
}

TEST_CASE_METHOD(Fixture, "RequestsOnAJobsConnectionAreDisconnected") {
  RawClient client(server.socket());
  join(client);
  client.send_text(R"({"verb":"ping"})");
  CHECK(client.is_closed());
}

TEST_CASE_METHOD(Fixture, "UnexpectedDescriptorsAreClosed") {
  const daemon::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int three[] = {null.get(), null.get(), null.get()};
  {
    RawClient client(server.socket());
    client.send(greeting("fds", 4 * mib), three);
    CHECK(client.receive()->type() == wire::Type::welcome);
    for (int i = 0; i < 100; ++i) client.send(wire::make<wire::Log>(), three);
  }
}

TEST_CASE_METHOD(Fixture, "MoreDescriptorsThanTheProtocolHasAreDisconnected") {
  const daemon::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<int> many(250, null.get());
  RawClient client(server.socket());
  client.send(greeting(), many);
  CHECK(client.is_closed());
}

TEST_CASE_METHOD(Fixture, "PoolThatIsADirectoryIsRefused") {
  const daemon::UniqueFd directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  wire::Hello hello = greeting();
  hello.flags = wire::hello_reattach | wire::hello_has_pool_fd;
  const int fds[] = {directory.get()};
  RawClient client(server.socket());
  client.send(hello, fds);
  CHECK(client.receive()->as<wire::Refused>().error == EBADMSG);
}

TEST_CASE_METHOD(Fixture, "ClientThatNeverReadsItsAnswersIsDisconnected") {
  RawClient client(server.socket());
  const std::string request = R"({"verb":"status"})";
  int sent = 0;
  while (sent < 200'000 && client.send_text(request)) ++sent;  // until the daemon has had enough
  CHECK(sent < 200'000);
}

TEST_CASE_METHOD(Fixture, "JobThatNeverReadsItsBudgetsIsDisconnected") {
  RawClient deaf(server.socket());
  join(deaf, greeting("deaf", 64 * mib));
  RawClient control(server.socket());
  bool gone = false;
  for (int i = 0; i < 100'000 && !gone; ++i) {
    control.send_text(R"({"verb":"trim","job":"deaf"})");
    const auto reply = control.receive();
    REQUIRE(reply);
    const std::string text(reinterpret_cast<const char*>(reply->bytes.data()) + sizeof(wire::Reply),
                           reply->bytes.size() - sizeof(wire::Reply));
    gone = text.find("\"ok\":false") != std::string::npos;
  }
  CHECK(gone);
}

TEST_CASE_METHOD(Fixture, "CorruptRingAndCountersHurtNobody") {
  RawClient client(server.socket());
  const Received received = join(client, greeting("corrupt", 64 * mib));
  const auto welcome = received.as<wire::Welcome>();
  auto* base = static_cast<std::uint64_t*>(
      ::mmap(nullptr, welcome.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, received.fds[0].get(), 0));
  REQUIRE(base != MAP_FAILED);
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    for (std::uint64_t i = 0; i < welcome.segment_bytes / 8; ++i) base[i] = random();
    CHECK(ask(server.socket(), {{"verb", "jobs"}})["ok"] == true);
    CHECK(ask(server.socket(), {{"verb", "lifetimes"}, {"job", "corrupt"}})["ok"] == true);
  }
  ::munmap(base, welcome.segment_bytes);
}

TEST_CASE_METHOD(Fixture, "ClosingAtAnyPointIsNoticed") {
  for (int i = 0; i < 50; ++i) {
    RawClient(server.socket()).close();
    RawClient greeted(server.socket());
    greeted.send(greeting("gone", 4 * mib));
    greeted.close();
    RawClient asked(server.socket());
    asked.send_text(R"({"verb":"status"})");
    asked.close();
    RawClient half(server.socket());
    half.send(greeting("half", 4 * mib));
    ::shutdown(half.fd(), SHUT_WR);
  }
  CHECK(eventually([&] { return ask(server.socket(), {{"verb", "jobs"}})["jobs"].empty(); }));
}

TEST_CASE_METHOD(Fixture, "AThousandConnectionsOfOneUserAreBounded") {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8192);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 4096) {
    WARN("SKIP: the hard limit on descriptors is below 4096");
    return;
  }
  std::vector<std::unique_ptr<RawClient>> clients;
  clients.reserve(1000);
  for (int i = 0; i < 1000; ++i) clients.push_back(std::make_unique<RawClient>(server.socket()));
  // The last ones are refused; the daemon keeps no more than its bound.
  CHECK(clients.back()->receive()->as<wire::Refused>().error == EUSERS);
  CHECK(clients.back()->is_closed());
  clients.clear();
}

TEST_CASE_METHOD(Fixture, "RequestTooLongIsDisconnected") {
  RawClient client(server.socket());
  client.send_text(std::string(wire::max_control_bytes + 1, ' '));
  CHECK(client.is_closed());
}

TEST_CASE_METHOD(Fixture, "DeeplyNestedRequestIsAnswered") {
  RawClient client(server.socket());
  client.send_text(std::string(wire::max_control_bytes, '['));
  const auto reply = client.receive();
  REQUIRE(reply);
  CHECK(reply->type() == wire::Type::reply);
}
