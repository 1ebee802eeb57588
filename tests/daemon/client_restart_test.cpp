// kill -9 of the daemon: the job keeps what it has, and the next daemon, whoever starts it, learns it.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "daemon/base/boot.h"
#include "daemon/promises/record.h"
#include "liballoc/agent/client/client.h"
#include "liballoc/base/os.h"
#include "tests/daemon/support.h"
#include "tiers/records/private_file.h"

using namespace terrace;
using namespace terrace::tests;
using liballoc::Client;
using liballoc::ClientConfig;
using liballoc::Notice;
using nlohmann::json;
using os::now_ns;

namespace {

bool await_notice(Client& client, Notice wanted) {
  return eventually([&] { return client.step(now_ns()) == wanted; });
}

struct Restarted {
  TemporaryDirectory directory;
  std::string socket = directory / "t.sock";
  std::unique_ptr<Client> client = std::make_unique<Client>();

  ~Restarted() { client->shutdown(); }
  ClientConfig config(bool respawn = false) const {
    return {.socket_path = socket.c_str(),
            .job = "train",
            .program = "test",
            .requested_budget_bytes = 256 * mib,
            .pool_wanted_bytes = 128 * mib,
            .daemon_path = TERRACED_PATH,
            .respawn = respawn};
  }
  std::vector<std::string> arguments() const { return {"--private", "--pool", directory.path()}; }
  std::size_t jobs_on_record() const {
    const auto file =
        records::read_private_file(socket + ".promises", terrace::daemon::most_record_file_bytes());
    return terrace::daemon::decode_record_file(file.bytes, terrace::daemon::boot_id()).promises.size();
  }
};

ino_t inode_of(int fd) {
  struct stat status {};
  REQUIRE(::fstat(fd, &status) == 0);
  return status.st_ino;
}

// The daemon that a job started is nobody's child: it is found by what it says of itself.
pid_t daemon_pid(const std::string& socket) { return ask(socket, {{"verb", "ping"}})["pid"].get<pid_t>(); }

// The daemon of all users, whose record of promises tells the next one who had what.
struct Service : Restarted {
  std::string record = socket + ".promises";
  std::unique_ptr<DaemonProcess> daemon = start();

  std::unique_ptr<DaemonProcess> start() const {
    return std::make_unique<DaemonProcess>(socket, std::vector<std::string>{"--pool", directory.path()});
  }
  ClientConfig half() const {
    ClientConfig result = config();
    result.requested_budget_bytes = 512 * mib;
    return result;
  }
  void await_record() const {
    REQUIRE(eventually([&] { return jobs_on_record() == 1; }));
  }
  void restart(const std::function<void()>& meanwhile = [] {}) {
    daemon->kill();
    meanwhile();
    daemon = start();
  }
};

wire::Hello claim_of(const char* job, std::uint64_t bytes) {
  wire::Hello claim = greeting(job, bytes);
  claim.flags = wire::hello_reattach;
  claim.held_budget_bytes = bytes;
  return claim;
}

}  // namespace

TEST_CASE_METHOD(Restarted, "a killed daemon's successor takes the job over, pool and budget unchanged") {
  auto first = std::make_unique<DaemonProcess>(socket, arguments());
  REQUIRE(client->start(config()) == 0);
  const ino_t pool = inode_of(client->grant().pool_fd);
  REQUIRE(::fallocate(client->grant().pool_fd, 0, 0, 1 << 20) == 0);
  client->stats()->set(wire::Stat::pool_used_bytes, 1 << 20);
  client->stats()->set(wire::Stat::faults, 7);
  for (int round = 0; round < 5; ++round) {
    first->kill();
    REQUIRE(await_notice(*client, Notice::disconnected));
    CHECK(client->grant().budget_bytes == 256 * mib);
    client->stats()->set(wire::Stat::faults, 8);  // nobody listens, nobody stumbles
    for (int i = 0; i < 20'000; ++i) client->push({.address = 5, .kind = wire::EventKind::alloc});
    first = std::make_unique<DaemonProcess>(socket, arguments());
    REQUIRE(await_notice(*client, Notice::reconnected));
    CHECK(client->grant().budget_bytes == 256 * mib);
    CHECK(client->grant().pool_capacity_bytes == 128 * mib);
    CHECK(inode_of(client->grant().pool_fd) == pool);
    client->push({.address = 0xFEED, .kind = wire::EventKind::fault});
    const auto jobs = ask(socket, {{"verb", "jobs"}});
    const auto& session = jobs["jobs"][0]["sessions"][0];
    CHECK(session["reattached"] == true);
    CHECK(session["granted_bytes"] == 256 * mib);
    CHECK(session["lost_events"] == 0);
    CHECK(session["statistics"]["faults"] == 8);
    const auto tiers = ask(socket, {{"verb", "tiers"}});
    CHECK(tiers["tiers"][1]["used_bytes"] == 1 << 20);
    CHECK(tiers["tiers"][1]["promised_bytes"] == 128 * mib);
  }
}

TEST_CASE_METHOD(Service, "AFalseClaimAfterARestartGetsNothingAheadOfAnHonestOne") {
  REQUIRE(client->start(half()) == 0);
  for (int round = 0; round < 3; ++round) {
    await_record();
    restart();
    RawClient liar(socket);
    REQUIRE(liar.send(claim_of("liar", gib)));
    REQUIRE(await_notice(*client, Notice::disconnected));
    REQUIRE(await_notice(*client, Notice::reconnected));
    CHECK(client->grant().budget_bytes == 512 * mib);
    CHECK(client->grant().pool_capacity_bytes == 128 * mib);
    const auto welcome = liar.receive();
    REQUIRE(welcome);
    CHECK(welcome->as<wire::Welcome>().budget_bytes <= 512 * mib);
    CHECK(ask(socket, {{"verb", "tiers"}})["tiers"][0]["promised_bytes"] <= gib);
  }
}

TEST_CASE_METHOD(Service, "AClaimOfMoreThanIsOnRecordGetsWhatIsOnRecord") {
  REQUIRE(client->start(half()) == 0);
  await_record();
  restart();
  RawClient liar(socket);  // the honest job does not move
  CHECK(join(liar, claim_of("train", gib)).as<wire::Welcome>().budget_bytes == 512 * mib);
}

TEST_CASE_METHOD(Service, "with a broken record a job that comes back is treated as new") {
  REQUIRE(client->start(half()) == 0);
  await_record();
  const bool is_broken = GENERATE(false, true);
  restart([&] {
    std::filesystem::remove(record);
    if (is_broken) directory.write("t.sock.promises", std::string(168, 'x'));
  });
  RawClient first(socket);
  REQUIRE(first.send(greeting("new", 512 * mib)));
  REQUIRE(await_notice(*client, Notice::disconnected));
  REQUIRE(await_notice(*client, Notice::reconnected));
  CHECK(client->grant().budget_bytes == 512 * mib);
}

TEST_CASE_METHOD(Service, "the record goes when the service ends and nobody is left") {
  REQUIRE(client->start(half()) == 0);
  await_record();
  client->shutdown();
  CHECK(eventually([&] { return ask(socket, {{"verb", "jobs"}})["jobs"].empty(); }));
  daemon->terminate();
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
    left.push_back(entry.path().string());
  CHECK(left == std::vector<std::string>{socket + ".events"});  // for the next one
}

namespace {

// A service that has NVM for jobs that name no tiers; directories on /dev/shm, as NVM is there in tests.
struct NvmService : Restarted {
  std::string config_path = written();
  std::unique_ptr<DaemonProcess> daemon = start();

  std::unique_ptr<DaemonProcess> start() const {
    return std::make_unique<DaemonProcess>(
        socket, std::vector<std::string>{"--pool", directory.path(), "--config", config_path});
  }
  std::string written() const {
    directory.write("terraced.toml",
                    "[budget]\ndram = \"1G\"\n[pool]\nsize = \"1G\"\n"
                    "[[tier]]\nkind = \"nvm\"\nsize = \"256M\"\ndirectory = \"/dev/shm\"\n");
    return directory / "terraced.toml";
  }
  ClientConfig wanting(const char* job) const {
    ClientConfig result = config();
    result.job = job;
    result.wants_tiers = true;
    return result;
  }
  json nvm() const {
    const json answer = ask(socket, {{"verb", "tiers"}});
    for (const json& tier : answer["tiers"])
      if (tier["tier"] == "nvm") return tier;
    return {};
  }
};

}  // namespace

TEST_CASE_METHOD(NvmService, "NvmOfAJobIsPromisedToNobodyElseByTheNextDaemon") {
  REQUIRE(client->start(wanting("train")) == 0);
  REQUIRE(client->grant().nvm_capacity_bytes == 128 * mib);
  REQUIRE(::fallocate(client->grant().nvm_fd, 0, 0, 32 * mib) == 0);
  client->stats()->set(wire::Stat::heartbeat_ns, now_ns());
  client->stats()->set(wire::Stat::nvm_bytes, 24 * mib);
  const ino_t file = inode_of(client->grant().nvm_fd);
  for (int round = 0; round < 3; ++round) {
    REQUIRE(eventually([&] { return jobs_on_record() == 1; }));
    daemon->kill();
    REQUIRE(await_notice(*client, Notice::disconnected));
    daemon = start();
    REQUIRE(await_notice(*client, Notice::reconnected));
    CHECK(eventually([&] { return nvm()["promised_bytes"] == 128 * mib; }));
    CHECK(nvm()["used_bytes"] >= 32 * mib);  // by its file
    Client other;
    REQUIRE(other.start(wanting("other")) == 0);
    CHECK(other.grant().nvm_capacity_bytes == 64 * mib);  // half of the rest
    CHECK(inode_of(client->grant().nvm_fd) == file);
    other.shutdown();
    CHECK(eventually([&] { return nvm()["promised_bytes"] == 128 * mib; }));
  }
  REQUIRE(await_notice(*client, Notice::budget_changed));  // it was told how much of that it may use
  CHECK(client->grant().nvm_limit_bytes == 128 * mib);
  client->shutdown();
  CHECK(eventually([&] { return nvm()["promised_bytes"] == 0; }));
}

TEST_CASE_METHOD(NvmService, "NvmIsBroughtOnceAndByThoseWhoAreBackAndWithAFileOfItsPlace") {
  const int shm = ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  REQUIRE(shm >= 0);
  const daemon::UniqueFd file(shm), read_only(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const int fd = file.get(), readable = read_only.get();
  wire::NvmHeld held = wire::make<wire::NvmHeld>();
  held.capacity_bytes = gib;
  RawClient fresh(socket);
  join(fresh);
  REQUIRE(fresh.send(held, {&fd, 1}));
  CHECK(fresh.is_closed());
  RawClient without(socket);
  join(without, claim_of("a", 64 * mib));
  REQUIRE(without.send(held));
  CHECK(without.is_closed());
  RawClient unwritable(socket);
  join(unwritable, claim_of("b", 64 * mib));
  REQUIRE(unwritable.send(held, {&readable, 1}));
  CHECK(unwritable.is_closed());
  RawClient honest(socket);
  join(honest, claim_of("c", 64 * mib));
  REQUIRE(honest.send(held, {&fd, 1}));
  CHECK(eventually([&] { return nvm()["promised_bytes"] == 128 * mib; }));  // not on record: as a new one
  REQUIRE(honest.send(held, {&fd, 1}));
  CHECK(eventually([&] { return nvm()["promised_bytes"] == 0; }));  // twice: it is disconnected
}

TEST_CASE_METHOD(Restarted, "an orderly end of the daemon is taken the same way") {
  auto first = std::make_unique<DaemonProcess>(socket, arguments());
  REQUIRE(client->start(config()) == 0);
  CHECK(first->terminate() == 0);
  REQUIRE(await_notice(*client, Notice::disconnected));
  DaemonProcess second(socket, arguments());
  CHECK(await_notice(*client, Notice::reconnected));
}

TEST_CASE_METHOD(Restarted, "a stopped daemon is neither lost nor replaced") {
  DaemonProcess process(socket, arguments());
  REQUIRE(client->start(config(/*respawn=*/true)) == 0);
  ::kill(process.pid(), SIGSTOP);
  for (int i = 0; i < 20; ++i) CHECK(client->step(now_ns()) == Notice::nothing);
  ::kill(process.pid(), SIGCONT);
  CHECK(daemon_pid(socket) == process.pid());
  CHECK(client->step(now_ns()) == Notice::nothing);
}

TEST_CASE_METHOD(Restarted,
                 "a job starts its private daemon again, unseen by the program, with its settings") {
  {
    auto first = std::make_unique<DaemonProcess>(socket, arguments());
    REQUIRE(client->start(config(/*respawn=*/true)) == 0);
    first->kill();
  }
  for (int round = 0; round < 3; ++round) {
    REQUIRE(await_notice(*client, Notice::disconnected));
    REQUIRE(await_notice(*client, Notice::reconnected));
    const auto tiers = ask(socket, {{"verb", "tiers"}});
    CHECK(tiers["tiers"][0]["capacity_bytes"] == gib);
    CHECK(tiers["tiers"][1]["directory"] == directory.path());
    const pid_t pid = daemon_pid(socket);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // the program has no child that it did not make
    CHECK(errno == ECHILD);
    std::string environment;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/environ"), environment);
    CHECK(environment.find("LD_PRELOAD") == std::string::npos);
    if (round < 2) ::kill(pid, SIGKILL);
  }
  const pid_t pid = daemon_pid(socket);
  client->shutdown();
  ask(socket, {{"verb", "shutdown"}});
  CHECK(eventually([&] { return ::kill(pid, 0) != 0; }));
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE_METHOD(Restarted, "many jobs that lose their daemon get one, and all are back in it") {
  auto first = std::make_unique<DaemonProcess>(socket, arguments());
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>());
    REQUIRE(clients.back()->start(config(/*respawn=*/true)) == 0);
  }
  first->kill();
  CHECK(eventually([&] {
    for (auto& each : clients) each->step(now_ns());
    return std::all_of(clients.begin(), clients.end(), [](const auto& each) { return each->connected(); });
  }));
  const auto jobs = ask(socket, {{"verb", "jobs"}});
  REQUIRE(jobs["jobs"].size() == 1);
  CHECK(jobs["jobs"][0]["sessions"].size() == 8);
  for (auto& each : clients) each->shutdown();
  ask(socket, {{"verb", "shutdown"}});
}

TEST_CASE_METHOD(Restarted, "a daemon that cannot be started leaves the job as it is") {
  auto first = std::make_unique<DaemonProcess>(socket, arguments());
  ClientConfig broken = config(/*respawn=*/true);
  broken.daemon_path = "/nonexistent/terraced";
  REQUIRE(client->start(broken) == 0);
  first->kill();
  REQUIRE(await_notice(*client, Notice::disconnected));
  for (std::uint64_t t = 0; t < 5; ++t) CHECK(client->step(now_ns() + t * 2'000'000'000) == Notice::nothing);
  CHECK(client->grant().budget_bytes == 256 * mib);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

// The issue's promise: the space of a killed job is free at once. The daemon holds no descriptor of it.
TEST_CASE_METHOD(Restarted, "kill -9 of a job frees its pool and its budget") {
  DaemonProcess process(socket, arguments());
  const pid_t job = ::fork();
  if (job == 0) {
    if (client->start(config()) != 0) ::_exit(1);
    if (::fallocate(client->grant().pool_fd, 0, 0, 64 << 20) != 0) ::_exit(2);
    for (;;) ::pause();
  }
  REQUIRE(eventually([&] { return ask(socket, {{"verb", "jobs"}})["jobs"].size() == 1; }));
  ::kill(job, SIGKILL);
  ::waitpid(job, nullptr, 0);
  CHECK(eventually([&] {
    const auto tiers = ask(socket, {{"verb", "tiers"}});
    return tiers["tiers"][0]["promised_bytes"] == 0 && tiers["tiers"][1]["promised_bytes"] == 0;
  }));
  std::size_t pools_held = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process.pid()) + "/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry, ignored);
    pools_held += target.find(directory.path() + "/#") != std::string::npos ? 1 : 0;
  }
  CHECK(pools_held == 0);
}
