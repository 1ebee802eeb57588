// Clients that break the rules, each case named after how. After every one of them the daemon must serve an
// honest job, hold no descriptor of theirs, and promise nothing to them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
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

// The daemon is a process here, which is stopped until a descriptor is nobody else's any more.
struct SlowClosing {
  TemporaryDirectory directory;
  std::string socket = directory / "t.sock";
  DaemonProcess process{socket, {"--private", "--pool", directory.path()}};
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

TEST_CASE_METHOD(Fixture, "DescriptorsOutOfPlaceAreDisconnected") {
  const daemon::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int three[] = {null.get(), null.get(), null.get()};
  RawClient greeted(server.socket());
  greeted.send(greeting("fds", 4 * mib), three);
  CHECK(greeted.is_closed());
  RawClient job(server.socket());
  join(job, greeting("fds", 4 * mib));
  for (int i = 0; i < 100; ++i) job.send(wire::make<wire::Log>(), three);
  CHECK(job.is_closed());
}

// Wherever the daemon would close it: in a message, behind one, with a connection that is one too many.
TEST_CASE_METHOD(SlowClosing, "DescriptorThatIsSlowToCloseHoldsUpNobody") {
  LingeringSocket slow;
  const int fds[] = {slow.fd()};
  RawClient client(socket);
  std::vector<std::unique_ptr<RawClient>> others;
  const auto send_slow = [&](const std::function<void()>& send) {
    process.while_stopped([&] {
      send();
      slow.let_go();
    });
  };
  SECTION("with a request") {
    send_slow([&] { client.send(wire::make<wire::Goodbye>(), fds); });
    CHECK(client.is_closed());
  }
  SECTION("as a pool") {
    wire::Hello hello = greeting();
    hello.flags = wire::hello_reattach | wire::hello_has_pool_fd;
    send_slow([&] { client.send(hello, fds); });
    CHECK(client.receive()->as<wire::Refused>().error == EBADMSG);
  }
  SECTION("behind a packet that ends the connection, and one of no bytes") {
    send_slow([&] {
      client.send(wire::make<wire::Goodbye>());
      client.send(nullptr, 0);
      client.send(wire::make<wire::Goodbye>(), fds);
    });
    CHECK(client.is_closed());
  }
  SECTION("over a connection that is turned away") {
    while (others.size() < daemon::Connections::most_of_user)
      others.push_back(std::make_unique<RawClient>(socket));
    send_slow([&] { others.back()->send(wire::make<wire::Goodbye>(), fds); });
    CHECK(others.back()->is_closed());
  }
  if (!others.empty()) others.front().reset();  // makes room, as soon as the daemon sees it
  CHECK(eventually([&] {
    RawClient asking(socket);  // a new one: the daemon drops connections that say nothing for five seconds
    asking.send_text(R"({"verb":"ping"})");
    const auto reply = asking.receive();
    return reply && reply->type() == wire::Type::reply;
  }));
}

TEST_CASE_METHOD(SlowClosing, "SlowDescriptorsCountAgainstTheirUsersConnections") {
  std::vector<LingeringSocket> slow(3);
  std::vector<std::unique_ptr<RawClient>> hostile;
  process.while_stopped([&] {  // once: a signal ends a linger
    for (LingeringSocket& each : slow) {
      const int fds[] = {each.fd()};
      hostile.push_back(std::make_unique<RawClient>(socket));
      hostile.back()->send(wire::make<wire::Goodbye>(), fds);
      each.let_go();
    }
  });
  for (const auto& each : hostile) CHECK(each->is_closed());
  std::vector<std::unique_ptr<RawClient>> clients;
  while (clients.size() < daemon::Connections::most_of_user - 3)
    clients.push_back(std::make_unique<RawClient>(socket));
  clients.back()->send_text(R"({"verb":"ping"})");
  CHECK(clients.back()->receive()->type() == wire::Type::reply);
  RawClient late(socket);
  const auto refused = late.receive();
  REQUIRE(refused);
  CHECK(refused->as<wire::Refused>().error == EUSERS);
  const std::size_t held = open_descriptors(process.pid());
  for (LingeringSocket& each : slow) each.release();
  CHECK(eventually([&] { return open_descriptors(process.pid()) < held; }));
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
  const std::string request = R"({"verb":"jobs"})";
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

// 80 MiB in a pool of 64, and 512 MiB in memory, of which it says nothing.
TEST_CASE_METHOD(Fixture, "WhatAJobDoesNotReportIsSeenAllTheSame") {
  RawClient client(server.socket());
  const Received received = join(client, greeting("silent", 64 * mib, 64 * mib));
  REQUIRE(::fallocate(received.fds[1].get(), 0, 0, 80 << 20) == 0);
  void* memory =
      ::mmap(nullptr, 512 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  CHECK(eventually([&] {
    const auto tiers = ask(server.socket(), {{"verb", "tiers"}})["tiers"];
    return tiers[0]["used_bytes"] >= 512 * mib && tiers[0]["reported_bytes"] == 0 &&
           tiers[1]["used_bytes"] >= 80 * mib && tiers[1]["reported_bytes"] == 0;
  }));
  const auto session = ask(server.socket(), {{"verb", "jobs"}})["jobs"][0]["sessions"][0];
  CHECK(session["kernel_resident_bytes"] >= 512 * mib);
  CHECK(session["pool_disk_bytes"] >= 80 * mib);
  CHECK(session["statistics"]["resident_bytes"] == 0);
  ::munmap(memory, 512 * mib);
}

// A file of another file system may take any time to close: it is not kept.
TEST_CASE_METHOD(Fixture, "PoolOfAnotherFileSystemIsNotKept") {
  const daemon::UniqueFd elsewhere(static_cast<int>(::memfd_create("pool", MFD_CLOEXEC)));
  wire::Hello hello = greeting();
  hello.flags = wire::hello_reattach | wire::hello_has_pool_fd;
  hello.pool_capacity_bytes = 64 * mib;
  const int fds[] = {elsewhere.get()};
  // The server, in this process, opens files of /proc for a moment now and then: the least of some counts.
  std::size_t before = open_descriptors(::getpid());
  for (int i = 0; i < 100; ++i) before = std::min(before, open_descriptors(::getpid()));
  RawClient client(server.socket());
  REQUIRE(client.send(hello, fds));
  REQUIRE(client.receive()->type() == wire::Type::welcome);
  // Both ends of the socket, the pidfd of the session's process and that process's status.
  CHECK(eventually([&] { return open_descriptors(::getpid()) == before + 4; }));
}

TEST_CASE_METHOD(Fixture, "ClosingAtAnyPointIsNoticed") {
  for (int i = 0; i < 50; ++i) {
    RawClient(server.socket()).close();
    RawClient greeted(server.socket());
    greeted.send(greeting("gone", 4 * mib));
    greeted.close();
    RawClient asked(server.socket());
    asked.send_text(R"({"verb":"jobs"})");
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

// Answers to the many sessions' events take long; who has had his share waits, and is answered in the end.
TEST_CASE_METHOD(Fixture, "RequestsWithoutEndHoldUpNoGrant") {
  constexpr int sessions = 240, clients = 40, requests = 50;
  std::vector<std::unique_ptr<RawClient>> jobs, askers;
  for (int i = 0; i < sessions; ++i) {
    jobs.push_back(std::make_unique<RawClient>(server.socket()));
    join(*jobs.back(), greeting(("job" + std::to_string(i)).c_str(), 0));
  }
  for (int i = 0; i < clients; ++i) {
    askers.push_back(std::make_unique<RawClient>(server.socket()));
    for (int k = 0; k < requests; ++k) askers.back()->send_text(R"({"verb":"jobs"})");
  }
  const auto began = std::chrono::steady_clock::now();
  RawClient honest(server.socket());
  join(honest, greeting("honest", 64 * mib));
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  CHECK(waited.count() < 1.5);  // 3 s if all of them are answered first
  REQUIRE(askers.front()->receive());
}

namespace {

// A job with a pool that says of itself what it likes.
struct Liar {
  RawClient client;
  daemon::UniqueFd segment;
  wire::JobStats* stats = nullptr;
  void* base = MAP_FAILED;
  std::size_t bytes = 0;

  Liar(const std::string& socket, const char* job) : client(socket) {
    Received received = join(client, greeting(job, 64 * mib, 64 * mib));
    const auto welcome = received.as<wire::Welcome>();
    segment = std::move(received.fds.at(0));
    bytes = welcome.segment_bytes;
    base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment.get(), 0);
    REQUIRE(base != MAP_FAILED);
    stats = reinterpret_cast<wire::JobStats*>(static_cast<std::byte*>(base) + welcome.stats_offset);
  }
  ~Liar() { ::munmap(base, bytes); }
  void report(std::uint64_t written) const {
    stats->set(wire::Stat::written_bytes, written);
    stats->set(wire::Stat::heartbeat_ns, 1);
  }
};

nlohmann::json pool_of(const std::string& socket) {
  const nlohmann::json answer = ask(socket, {{"verb", "tiers"}});
  for (const auto& tier : answer["tiers"])
    if (tier["tier"] == "nvme") return tier;
  return {};
}

}  // namespace

TEST_CASE("WhoSaysThatHeWroteEverythingSpendsHisOwnLeasesOnly") {
  ServerThread server([](daemon::ServerOptions& options) {
    options.is_private = false;
    options.config.per_user = daemon::Amount::percent(100);
    options.config.writes_per_day = gib;
    options.config.state = options.config.pool_directory + "/state";
  });
  const Liar liar(server.socket(), "liar");
  // Where the count stands; a claim from the start is no more than a beginning.
  liar.report(0);
  REQUIRE(eventually([&] {
    return ask(server.socket(), {{"verb", "jobs"}})["jobs"][0].contains("writes_left_bytes");
  }));
  for (const std::uint64_t written : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{1} << 62}) {
    liar.report(written);
    for (int i = 0; i < 5; ++i) {
      ask(server.socket(), {{"verb", "status"}});
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  // He can spend what there is for him, and not one byte more. Half of it may be gone to what others write to
  // the drive.
  eventually([&] { return pool_of(server.socket())["written_today_bytes"] >= gib / 2 - 16 * mib; });
  const nlohmann::json pool = pool_of(server.socket());
  INFO(pool.dump());
  CHECK(pool["written_today_bytes"] >= gib / 2 - 16 * mib);
  CHECK(pool_of(server.socket())["written_today_bytes"] <= gib);
  CHECK(eventually([&] {
    const auto events = ask(server.socket(), {{"verb", "events"}})["events"];
    return std::any_of(events.begin(), events.end(),
                       [](const auto& event) { return event["kind"] == "spent"; });
  }));
}
