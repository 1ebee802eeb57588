// The server on a real socket: sessions, budgets announced, requests answered, ends noticed.
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "tests/daemon/support.h"

using namespace terrace;
using namespace terrace::tests;

namespace {

std::size_t sessions_at(const std::string& socket) {
  std::size_t count = 0;
  const auto reply = ask(socket, {{"verb", "jobs"}});
  for (const auto& job : reply["jobs"]) count += job["sessions"].size();
  return count;
}

}  // namespace

TEST_CASE("a greeting is answered with a budget and a sealed segment") {
  ServerThread server;
  RawClient job(server.socket());
  const Received received = join(job, greeting("train", 256 * mib, 128 * mib));
  const auto welcome = received.as<wire::Welcome>();
  CHECK(welcome.budget_bytes == 256 * mib);
  CHECK(welcome.pool_capacity_bytes == 128 * mib);
  CHECK(welcome.pool_limit_bytes == 128 * mib);
  CHECK((welcome.flags & wire::welcome_segment_fd) != 0);
  CHECK((welcome.flags & wire::welcome_pool_fd) != 0);
  const bool has_uffd = (welcome.flags & wire::welcome_uffd_fd) != 0;
  CHECK(received.fds.size() == (has_uffd ? 3U : 2U));
  struct stat pool {};
  REQUIRE(::fstat(received.fds[1].get(), &pool) == 0);
  CHECK(S_ISREG(pool.st_mode));
  CHECK(pool.st_nlink == 0);
}

TEST_CASE("a budget that does not fit is refused with the reason") {
  ServerThread server;
  RawClient job(server.socket());
  REQUIRE(job.send(greeting("train", 2 * gib)));
  const auto received = job.receive();
  REQUIRE(received);
  REQUIRE(received->type() == wire::Type::refused);
  const auto refused = received->as<wire::Refused>();
  CHECK(refused.error == ENOSPC);
  CHECK(refused.available_bytes == gib);
  CHECK_THAT(std::string(refused.text), Catch::Matchers::Contains("1.0 GiB"));
  CHECK(job.is_closed());
}

TEST_CASE("processes of a job share its budget and are told so when one joins or leaves") {
  ServerThread server;
  RawClient first(server.socket());
  CHECK(join(first, greeting("train", 512 * mib)).as<wire::Welcome>().budget_bytes == 512 * mib);
  RawClient second(server.socket());
  const auto welcome = join(second, greeting("train", 512 * mib)).as<wire::Welcome>();
  CHECK(welcome.budget_bytes <= 256 * mib);
  const auto told = first.receive();
  REQUIRE(told);
  CHECK(told->as<wire::Budget>().budget_bytes == 256 * mib);
  second.close();
  const auto told_again = first.receive();
  REQUIRE(told_again);
  CHECK(told_again->as<wire::Budget>().budget_bytes == 512 * mib);
}

TEST_CASE("a session ends with its connection, a goodbye, or its process") {
  ServerThread server;
  SECTION("connection") {
    RawClient job(server.socket());
    join(job);
    CHECK(sessions_at(server.socket()) == 1);
  }
  SECTION("goodbye") {
    RawClient job(server.socket());
    join(job);
    job.send(wire::make<wire::Goodbye>());
    CHECK(job.is_closed());
  }
  SECTION("process, though a child of it keeps the socket open") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t job = ::fork();
    if (job == 0) {
      RawClient client(server.socket());
      join(client);
      if (::fork() == 0) {
        ::close(ends[1]);
        char byte;
        ::_exit(::read(ends[0], &byte, 1) == 0 ? 0 : 1);  // until the test ends
      }
      ::kill(::getpid(), SIGKILL);
    }
    ::waitpid(job, nullptr, 0);
    CHECK(eventually([&] { return sessions_at(server.socket()) == 0; }));
    ::close(ends[1]);
    ::close(ends[0]);
  }
  CHECK(eventually([&] { return sessions_at(server.socket()) == 0; }));
}

TEST_CASE("what a job logs and does is in the journal") {
  ServerThread server;
  RawClient job(server.socket());
  join(job);
  wire::Log log = wire::make<wire::Log>();
  wire::copy_text(log.text, sizeof log.text, "the pool is \x1b[31mfull");
  job.send(log);
  CHECK(eventually([&] {
    const auto events = ask(server.socket(), {{"verb", "events"}})["events"];
    return !events.empty() && events.back().value("text", "") == "the pool is ?[31mfull";
  }));
}

TEST_CASE("trim and a changed budget reach the job") {
  ServerThread server;
  RawClient job(server.socket());
  join(job, greeting("train", 256 * mib));
  CHECK(ask(server.socket(), {{"verb", "trim"}, {"job", "train"}})["processes"] == 1);
  CHECK(job.receive()->type() == wire::Type::trim);
  CHECK(ask(server.socket(), {{"verb", "set_budget"}, {"job", "train"}, {"bytes", 128 * mib}})["ok"] == true);
  CHECK(job.receive()->as<wire::Budget>().budget_bytes == 128 * mib);
}

TEST_CASE("an answer longer than a packet comes in pieces") {
  ServerThread server;
  std::vector<std::unique_ptr<RawClient>> jobs;
  for (int i = 0; i < 100; ++i) {
    jobs.push_back(std::make_unique<RawClient>(server.socket()));
    join(*jobs.back(), greeting(("job" + std::to_string(i)).c_str(), 4 * mib));
  }
  const auto reply = ask(server.socket(), {{"verb", "jobs"}});
  CHECK(reply["jobs"].size() == 100);
  CHECK(reply.dump().size() > wire::max_packet_bytes);
}

TEST_CASE("new jobs wait while the jobs of an earlier daemon come back") {
  ServerThread server([](daemon::ServerOptions& options) { options.respawned = true; });
  RawClient fresh(server.socket());
  REQUIRE(fresh.send(greeting("new", gib)));
  RawClient old(server.socket());
  wire::Hello back = greeting("old", 512 * mib);
  back.flags = wire::hello_reattach;
  back.held_budget_bytes = 512 * mib;
  CHECK(join(old, back).as<wire::Welcome>().budget_bytes == 512 * mib);
  CHECK(fresh.receive()->as<wire::Refused>().available_bytes == 512 * mib);
}

TEST_CASE("a private daemon is for its user only and ends when asked") {
  ServerThread server;
  struct stat status {};
  REQUIRE(::stat(server.socket().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(ask(server.socket(), {{"verb", "shutdown"}})["ok"] == true);
}

TEST_CASE("a second daemon on the same socket is turned away") {
  ServerThread server;
  daemon::ServerOptions options;
  options.config.socket = server.socket();
  options.is_private = true;
  daemon::Server second(options);
  CHECK_THAT(second.open(), Catch::Matchers::Contains("another terraced"));
  CHECK(second.socket_taken());
}

TEST_CASE("a socket path that is something else is left alone") {
  const TemporaryDirectory directory;
  directory.write("t.sock", "precious");
  daemon::ServerOptions options;
  options.config.socket = directory / "t.sock";
  options.is_private = true;
  CHECK_THAT(daemon::Server(options).open(), Catch::Matchers::Contains("not a socket"));
  CHECK(std::filesystem::file_size(directory / "t.sock") == 8);
  options.config.socket = directory / "missing/t.sock";
  CHECK_THAT(daemon::Server(options).open(), Catch::Matchers::Contains("must exist"));
}

TEST_CASE("a machine short of memory lowers what is handed out, and promises stay") {
  TemporaryDirectory root;
  root.write(
      "proc/pressure/memory",
      "some avg10=42.00 avg60=9.00 avg300=1.00 total=1\nfull avg10=30.00 avg60=9.00 avg300=1.00 total=1\n");
  root.write("proc/meminfo", "MemTotal: 1048576 kB\nMemFree: 1 kB\nMemAvailable: 4096 kB\n");
  ServerThread server([&](daemon::ServerOptions& options) { options.pressure_root = root.path(); });
  RawClient promised(server.socket()), lent(server.socket());
  join(promised, greeting("promised", 512 * mib));
  CHECK(join(lent, greeting("lent", 0)).as<wire::Welcome>().budget_bytes == 512 * mib);
  const auto told = lent.receive();
  REQUIRE(told);
  CHECK(told->as<wire::Budget>().budget_bytes == 448 * mib);
  const auto status = ask(server.socket(), {{"verb", "status"}});
  CHECK(status["tiers"][0]["capacity_bytes"] == 960 * mib);
  CHECK(status["tiers"][0]["lowered_bytes"] == 64 * mib);
  CHECK(status["tiers"][0]["promised_bytes"] == 512 * mib);
  CHECK(status["follows_pressure"] == true);
}

TEST_CASE("a kernel that does not say how short memory is changes nothing, and status says so") {
  const TemporaryDirectory root;
  ServerThread server([&](daemon::ServerOptions& options) { options.pressure_root = root.path(); });
  CHECK(eventually([&] {
    return ask(server.socket(), {{"verb", "status"}}).value("follows_pressure", true) == false;
  }));
  CHECK(ask(server.socket(), {{"verb", "tiers"}})["tiers"][0]["capacity_bytes"] == gib);
}

TEST_CASE("a budget above what the machine has is refused at the start") {
  const TemporaryDirectory directory;
  daemon::ServerOptions options;
  options.config.socket = directory / "t.sock";
  options.config.dram = {daemon::Amount::Unit::bytes, std::uint64_t{1} << 60};
  CHECK_THAT(daemon::Server(options).open(), Catch::Matchers::Contains("ask for less"));
}

TEST_CASE("terraced: an orderly stop leaves no files") {
  const TemporaryDirectory directory;
  DaemonProcess process(directory / "t.sock", {"--private", "--pool", directory.path()});
  REQUIRE(process.pid() > 0);
  {
    RawClient job(directory / "t.sock");
    join(job);
    CHECK(std::filesystem::exists(directory / "t.sock.toml"));
    CHECK(process.terminate() == 0);
    CHECK(job.is_closed());
  }
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("terraced: a private daemon ends after its last client") {
  const TemporaryDirectory directory;
  DaemonProcess process(directory / "t.sock", {"--private", "--pool", directory.path()});
  {
    RawClient job(directory / "t.sock");
    join(job);
  }
  CHECK(process.exits_by_itself());
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("terraced: SIGHUP reads the settings again, and bad ones change nothing") {
  const TemporaryDirectory directory;
  const auto settings = [&](const char* dram) {
    directory.write("t.toml", std::string("[budget]\ndram = \"") + dram + "\"\n[pool]\nsize = \"1G\"\n");
  };
  settings("1G");
  const std::string socket = directory / "t.sock";
  DaemonProcess process(socket, {"--config", directory / "t.toml"});
  const auto capacity = [&] { return ask(socket, {{"verb", "tiers"}})["tiers"][0]["capacity_bytes"]; };
  CHECK(capacity() == gib);
  settings("512M");
  ::kill(process.pid(), SIGHUP);
  CHECK(eventually([&] { return capacity() == 512 * mib; }));
  settings("lots");
  ::kill(process.pid(), SIGHUP);
  CHECK(capacity() == 512 * mib);
  settings("1000000T");  // more than the machine has, which is checked where it starts
  ::kill(process.pid(), SIGHUP);
  CHECK(capacity() == 512 * mib);
  settings("256M");
  ::kill(process.pid(), SIGHUP);
  CHECK(eventually([&] { return capacity() == 256 * mib; }));
}

TEST_CASE("terraced: SIGHUP does not take the quota from a directory that is not used") {
  const TemporaryDirectory directory;
  const auto settings = [&](const std::string& pool, const char* dram) {
    directory.write("t.toml",
                    std::string("[budget]\ndram = \"") + dram + "\"\n[pool]\ndirectory = \"" + pool + "\"\n");
  };
  settings(directory.path(), "64M");
  const std::string socket = directory / "t.sock";
  DaemonProcess process(socket, {"--config", directory / "t.toml"});
  const auto tier = [&](int number) {
    return ask(socket, {{"verb", "tiers"}})["tiers"][number]["capacity_bytes"];
  };
  const auto before = tier(1);
  settings("/dev/shm", "128M");
  ::kill(process.pid(), SIGHUP);
  CHECK(eventually([&] { return tier(0) == 128 * mib; }));
  CHECK(tier(1) == before);
}

TEST_CASE("a greeting says its job's weight and another process of it changes nothing") {
  ServerThread server;
  const auto weight = [&] { return ask(server.socket(), {{"verb", "jobs"}})["jobs"][0].value("weight", 1); };
  wire::Hello hello = greeting("train", 0);
  hello.weight = 3;
  RawClient first(server.socket());
  join(first, hello);
  CHECK(weight() == 3);
  ask(server.socket(), {{"verb", "set_weight"}, {"job", "train"}, {"weight", 5}});
  RawClient second(server.socket());
  join(second, hello);
  CHECK(weight() == 5);
  hello.weight = wire::most_weight + 1;
  RawClient third(server.socket());
  REQUIRE(third.send(hello));
  const auto received = third.receive();
  REQUIRE(received);
  REQUIRE(received->type() == wire::Type::refused);
  CHECK(received->as<wire::Refused>().error == EINVAL);
}

TEST_CASE("a job that asks is told what there is before the pool, and given NVM") {
  ServerThread server([](daemon::ServerOptions& options) {
    options.config.tiers.compressed = wire::Amount::percent(20);
    options.config.tiers.nvm = daemon::NvmRule{.bytes = 256 * mib, .directory = "/var/tmp"};
  });
  wire::Hello asks = greeting("train", 64 * mib);
  asks.features |= wire::feature_tiers;
  RawClient first(server.socket());
  CHECK((join(first, asks).as<wire::Welcome>().features & wire::feature_tiers) != 0);
  const auto told = first.receive();
  REQUIRE(told);
  REQUIRE(told->type() == wire::Type::tiers);
  const auto tiers = told->as<wire::Tiers>();
  CHECK(std::string(tiers.text) == "compressed=20%");
  CHECK(tiers.flags == (wire::tiers_nvm_fd | wire::tiers_shares_nvm));
  CHECK(tiers.nvm_capacity_bytes == 128 * mib);
  CHECK(tiers.nvm_limit_bytes == 128 * mib);
  REQUIRE(told->fds.size() == 1);
  struct stat file {};
  REQUIRE(::fstat(told->fds[0].get(), &file) == 0);
  CHECK(file.st_nlink == 0);
  RawClient second(server.socket());  // of the same job: both have half of it now
  join(second, asks);
  const auto of_second = second.receive();
  REQUIRE(of_second);
  CHECK(of_second->as<wire::Tiers>().nvm_limit_bytes == 64 * mib);
  for (;;) {
    const auto lowered = first.receive();
    REQUIRE(lowered);
    if (lowered->type() != wire::Type::tiers) continue;
    CHECK(lowered->as<wire::Tiers>().nvm_limit_bytes == 64 * mib);
    CHECK(lowered->fds.empty());
    break;
  }
  const auto reply = ask(server.socket(), {{"verb", "tiers"}});
  REQUIRE(reply["tiers"].size() == 3);
  CHECK(reply["tiers"][1]["tier"] == "nvm");
  CHECK(reply["tiers"][1]["capacity_bytes"] == 256 * mib);
  CHECK(reply["tiers"][1]["promised_bytes"] == 128 * mib);
  CHECK(reply["tiers"][1]["directory"] == "/var/tmp");
}

TEST_CASE("who does not ask, or comes back, is told nothing of tiers and promised no NVM") {
  ServerThread server([](daemon::ServerOptions& options) {
    options.config.tiers.nvm = daemon::NvmRule{.bytes = 256 * mib, .directory = "/var/tmp"};
  });
  wire::Hello hello = greeting("train", 64 * mib);
  SECTION("older") {}
  SECTION("back") {
    hello.features |= wire::feature_tiers;
    hello.flags |= wire::hello_reattach;
  }
  RawClient job(server.socket());
  CHECK((join(job, hello).as<wire::Welcome>().features & wire::feature_tiers) == 0);
  CHECK(ask(server.socket(), {{"verb", "tiers"}})["tiers"][1]["promised_bytes"] == 0);
}
