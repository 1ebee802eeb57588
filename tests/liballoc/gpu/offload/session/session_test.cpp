// Engines in session with a daemon: what it shows of them, what they take of what it grants, and what a
// daemon that dies, hangs or lies cannot do to their tensors.
#include "liballoc/base/os.h"
#include "tests/liballoc/gpu/offload/session/session_fixture.h"

using namespace terrace::liballoc::offload::test;
using namespace terrace::tests;

namespace {

std::string refusal_of(const Options& options) {
  const terrace_offload_config config = config_of(options);
  terrace_offload* engine = nullptr;
  char reason[512] = "";
  CHECK(terrace_offload_open(&config, &engine, reason, sizeof reason) < 0);
  CHECK(engine == nullptr);
  return reason;
}

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("AnEngineIsASessionOfItsJobWithItsDevice") {
  ServerThread server;
  const JobOf job(server.socket());
  {
    const char* device = GENERATE("cpu", "emulated:1G");
    const Opened engine({.device = device, .dram_bytes = 32 * mib, .nvme_bytes = 256 * mib});
    Saved saved;
    REQUIRE(saved.fill(engine, 64) == 64);
    CHECK(eventually([&] {
      const json session = engine_at(server.socket());
      return counter(session, "resident_bytes") == engine.statistics().dram_bytes &&
             counter(session, "written_bytes") >= 31 * mib &&
             counter(session, "recent_drive_write_bytes") >= 31 * mib &&
             counter(session, "recent_drive_write_ns") > 0;
    }));
    const json found = job_at(server.socket());
    CHECK(found["job"] == "train");
    REQUIRE(found["sessions"].size() == 1);
    CHECK(found["sessions"][0]["device"] == device);
    CHECK_FALSE(found["sessions"][0].contains("program"));
    CHECK(found["sessions"][0]["pid"] == ::getpid());
    saved.check(engine);
  }
  CHECK(eventually([&] { return job_at(server.socket()).empty(); }));
}

TEST_CASE("TwoEnginesOfAProcessShareTheBudgetOfTheirJob") {
  ServerThread server;
  const JobOf job(server.socket(), "256M");
  const Opened one({.dram_bytes = 256 * mib}), other({.dram_bytes = 256 * mib});
  CHECK(job_at(server.socket())["sessions"].size() == 2);
  const auto sum = [&] { return one.statistics().dram_limit_bytes + other.statistics().dram_limit_bytes; };
  CHECK(eventually([&] { return sum() == 256 * mib; }));
  Saved of_one, of_other;
  // Half of it is the other's, until this one misses more. The other keeps what a process begins with.
  std::size_t stored = of_one.fill(one, 256);
  CHECK(eventually([&] {
    stored += of_one.fill(one, 256);
    return stored > 160;
  }));
  CHECK(stored <= 192);
  of_other.fill(other, 256);
  CHECK(one.statistics().dram_bytes + other.statistics().dram_bytes <= 256 * mib);
  of_one.check(one);
  of_other.check(other);
}

TEST_CASE("TheGrantIsTheMostThatIsTaken") {
  ServerThread server;
  const JobOf job(server.socket(), "64M");
  const Opened engine({.device = GENERATE("cpu", "emulated:1G"), .dram_bytes = 256 * mib});
  CHECK(engine.statistics().dram_limit_bytes == 64 * mib);
  Saved saved;
  CHECK(saved.fill(engine, 256) == 64);
  CHECK(engine.statistics().dram_bytes == 64 * mib);
  // What was refused counts as demand, so that another process of the job leaves it what it does not use.
  CHECK(eventually([&] { return counter(engine_at(server.socket()), "heap_live_bytes") == 65 * mib; }));
  saved.check(engine);
}

TEST_CASE("ALoweredGrantMovesWhatIsBeyondToTheDrive") {
  ServerThread server;
  const JobOf job(server.socket(), "64M");
  const Opened engine(
      {.device = GENERATE("cpu", "emulated:1G"), .dram_bytes = 64 * mib, .nvme_bytes = 256 * mib});
  Saved saved;
  REQUIRE(saved.fill(engine, 60) == 60);
  REQUIRE(engine.statistics().nvme_written_bytes == 0);
  set_budget(server.socket(), 32 * mib);
  CHECK(eventually([&] { return engine.statistics().dram_bytes <= 32 * mib; }));
  CHECK(engine.statistics().nvme_written_bytes >= 28 * mib);
  CHECK(eventually([&] {
    const json session = engine_at(server.socket());
    return counter(session, "budget_bytes") == 32 * mib && counter(session, "resident_bytes") <= 32 * mib;
  }));
  CHECK(saved.fill(engine, 20) == 20);  // through what is left
  CHECK(engine.statistics().dram_bytes <= 32 * mib);
  saved.check(engine);
}

TEST_CASE("WithoutADriveALoweredGrantIsMetAsTensorsAreReleased") {
  ServerThread server;
  const JobOf job(server.socket(), "64M");
  const Opened engine({.device = GENERATE("cpu", "emulated:1G"), .dram_bytes = 64 * mib});
  Saved saved;
  REQUIRE(saved.fill(engine, 60) == 60);
  set_budget(server.socket(), 32 * mib);
  CHECK(eventually([&] { return engine.statistics().dram_limit_bytes == 32 * mib; }));
  CHECK(saved.fill(engine, 1) == 0);  // the caller keeps it on the device
  CHECK(engine.statistics().dram_bytes >= 60 * mib);
  saved.check(engine);
  CHECK(eventually([&] { return engine.statistics().dram_bytes <= 32 * mib; }));
  set_budget(server.socket(), 48 * mib);
  CHECK(eventually([&] { return engine.statistics().dram_limit_bytes == 48 * mib; }));
  CHECK(saved.fill(engine, 64) == 48);
  saved.check(engine);
}

TEST_CASE("GrantsThatRiseAndFallWhileTensorsComeAndGo") {
  ServerThread server;
  const JobOf job(server.socket(), "64M");
  const Opened engine(
      {.device = GENERATE("cpu", "emulated:1G"), .dram_bytes = 64 * mib, .nvme_bytes = 256 * mib});
  for (unsigned round = 0; round < 6; ++round) {
    Saved saved;
    REQUIRE(saved.fill(engine, 40) == 40);
    set_budget(server.socket(), (round % 2 == 0 ? 32 : 64) * mib);
    REQUIRE(saved.fill(engine, 40) == 40);
    saved.check(engine);
    REQUIRE(terrace_offload_end_step(engine.get()) == 0);
    if (round % 2 == 0) CHECK(eventually([&] { return engine.statistics().dram_bytes <= 32 * mib; }));
  }
  CHECK(eventually([&] { return engine.statistics().dram_limit_bytes == 64 * mib; }));
  // All of it is to be had again, also what a lower grant had no room for a moment ago.
  Saved saved;
  REQUIRE(saved.fill(engine, 60) == 60);
  set_budget(server.socket(), 32 * mib);
  CHECK(eventually([&] { return engine.statistics().dram_limit_bytes == 32 * mib; }));
  set_budget(server.socket(), 64 * mib);
  CHECK(eventually([&] { return engine.statistics().dram_limit_bytes == 64 * mib; }));
  saved.check(engine);
  REQUIRE(terrace_offload_end_step(engine.get()) == 0);
  const std::uint64_t written = engine.statistics().nvme_written_bytes;
  REQUIRE(saved.fill(engine, 60) == 60);
  CHECK(engine.statistics().nvme_written_bytes == written);
  saved.check(engine);
}

TEST_CASE("AnEngineGoesOnWithoutItsDaemonAndComesBackToTheNext") {
  const TemporaryDirectory directory;
  const std::string socket = directory / "t.sock";
  std::optional<DaemonProcess> daemon;
  daemon.emplace(socket, std::vector<std::string>{"--private", "--pool", directory.path()});
  const JobOf job(socket, "64M");
  const Opened engine({.dram_bytes = 256 * mib, .nvme_bytes = 256 * mib});
  Saved saved;
  REQUIRE(saved.fill(engine, 80) == 80);
  daemon->kill();
  pause_ms(500);  // it is seen by then
  REQUIRE(saved.fill(engine, 40) == 40);
  CHECK(engine.statistics().dram_bytes <= 64 * mib);
  daemon.emplace(socket, std::vector<std::string>{"--private", "--respawned", "--pool", directory.path()});
  CHECK(eventually([&] { return engine_at(socket).value("reattached", false); }));
  CHECK(engine_at(socket)["granted_bytes"] == 64 * mib);
  set_budget(socket, 32 * mib);
  CHECK(eventually([&] { return engine.statistics().dram_limit_bytes == 32 * mib; }));
  saved.check(engine);
}

TEST_CASE("WhereNoDaemonIsTheEngineHasAllOfItAndSaysWhy") {
  const TemporaryDirectory directory;
  const std::string socket = directory / "t.sock";
  const JobOf job(socket, "64M");
  const Opened engine({.dram_bytes = 128 * mib});
  CHECK_THAT(terrace_offload_warning(engine.get()), Contains("no daemon at " + socket));
  CHECK(engine.statistics().dram_limit_bytes == 128 * mib);
  Saved saved;
  REQUIRE(saved.fill(engine, 100) == 100);
  DaemonProcess late(socket, {"--private", "--pool", directory.path()});
  CHECK(eventually([&] { return engine.statistics().dram_limit_bytes == 64 * mib; }));
  saved.check(engine);
}

TEST_CASE("ADaemonThatNeverAnswersIsWaitedForTwoSecondsAtMost") {
  const SilentDaemon silent;
  const JobOf job(silent.path());
  const std::uint64_t begin = terrace::os::now_ns();
  const Opened engine({.dram_bytes = 32 * mib});
  CHECK(terrace::os::now_ns() - begin < 8'000'000'000);
  CHECK_THAT(terrace_offload_warning(engine.get()), Contains("no daemon at"));
  Saved saved;
  CHECK(saved.fill(engine, 32) == 32);
  saved.check(engine);
}

TEST_CASE("WhatTheDaemonRefusesIsRefusedWithItsReason") {
  ServerThread server;
  const JobOf job(server.socket(), "900T");
  const std::string reason = refusal_of({.dram_bytes = 32 * mib});
  CHECK_THAT(reason, Contains("the daemon at " + server.socket() + " refused the engine: "));
}

TEST_CASE("AVariableThatIsNotUnderstoodIsNamed") {
  for (const std::string budget : {"much", "1M"}) {
    const JobOf job("/nowhere", budget);
    CHECK_THAT(refusal_of({.dram_bytes = 32 * mib}),
               Contains("TERRACE_DRAM is '" + budget + "': say a size of 32 MiB or more"));
  }
  const JobOf job("/nowhere");
  const Variable dram("TERRACE_DRAM", ""), weight("TERRACE_WEIGHT", "0");
  CHECK_THAT(refusal_of({.dram_bytes = 32 * mib}),
             Contains("TERRACE_WEIGHT is '0': say a whole number from 1 to 1000"));
}

TEST_CASE("WhoSwitchesTerraceOffJoinsNoDaemon") {
  ServerThread server;
  const JobOf job(server.socket(), "64M");
  const Variable off("TERRACE_DISABLE", "1");
  const Opened engine({.dram_bytes = 128 * mib});
  CHECK(engine.statistics().dram_limit_bytes == 128 * mib);
  CHECK(job_at(server.socket()).empty());
}

// No directory is named.
constexpr Options pooled{.dram_bytes = 16 * mib, .nvme_bytes = 256 * mib, .nvme_directory = nullptr};

TEST_CASE("WithoutADirectoryOfItsOwnTheEngineHasThePoolOfTheDaemon") {
  ServerThread server;
  const JobOf job(server.socket());
  const Opened engine(pooled);
  CHECK_THAT(terrace_offload_path(engine.get()), Contains("in the daemon's pool"));
  Saved saved;
  REQUIRE(saved.fill(engine, 64) == 64);
  CHECK(eventually([&] {
    const json session = engine_at(server.socket());
    return counter(session, "pool_used_bytes") >= 47 * mib &&
           session.value("pool_disk_bytes", 0ULL) >= 47 * mib;
  }));
  CHECK(engine_at(server.socket())["pool_capacity_bytes"] >= 256 * mib);
  CHECK(eventually([&] {
    return job_at(server.socket())["written_today_bytes"] == engine.statistics().nvme_written_bytes;
  }));
  saved.check(engine);
}

TEST_CASE("ADirectoryThatIsNamedAndABudgetOfTheUsersOwnAreObeyed") {
  ServerThread server;
  const JobOf job(server.socket());
  const TemporaryDirectory state;
  const Variable records("XDG_STATE_HOME", state.path());
  Options options = pooled;
  if (GENERATE(true, false))
    options.nvme_directory = TERRACE_TEST_POOL_DIR;
  else
    options.writes_per_day_bytes = 512 * mib;
  const Opened engine(options);
  CHECK_THAT(terrace_offload_path(engine.get()), !Contains("in the daemon's pool"));
  Saved saved;
  REQUIRE(saved.fill(engine, 32) == 32);
  CHECK(engine.statistics().writes_today_bytes != 0);
  CHECK_FALSE(engine_at(server.socket()).contains("pool_capacity_bytes"));
  saved.check(engine);
}

TEST_CASE("WhatTheDaemonLeasesIsAllThatIsWritten") {
  const TemporaryDirectory state;
  ServerThread server([&](terrace::daemon::ServerOptions& options) {
    options.config.writes_per_day = 96 * mib;
    options.config.writes_per_user = terrace::daemon::Amount::percent(100);
    options.config.state = state.path();
  });
  const JobOf job(server.socket());
  const Opened engine(pooled);
  CHECK(eventually([&] { return job_at(server.socket()).contains("writes_left_bytes"); }));
  pause_ms(300);  // the first lease is told by then
  std::uint64_t stored = 0;
  for (unsigned round = 0; round < 8; ++round) {
    Saved saved;
    stored += saved.fill(engine, 48);
    saved.check(engine);
    REQUIRE(terrace_offload_end_step(engine.get()) == 0);
  }
  CHECK(stored < 8 * 48);
  CHECK(engine.statistics().nvme_written_bytes <= 96 * mib);
  CHECK(engine.statistics().nvme_written_bytes >= 48 * mib);
  CHECK(engine.statistics().io_errors == 0);
  CHECK(eventually([&] {  // what was on its way when the last step ended counts, too
    return job_at(server.socket())["written_today_bytes"] == engine.statistics().nvme_written_bytes;
  }));
}

TEST_CASE("ADaemonThatLiesCostsRoomAndTensorsOfItsPoolAndNeverGivesOtherBytes") {
  LyingDaemon liar;
  const JobOf job(liar.path());
  const Opened engine(pooled);
  liar.await();
  CHECK(engine.statistics().dram_limit_bytes == 16 * mib);
  Saved saved, more;
  REQUIRE(saved.fill(engine, 64) == 64);
  liar.limit(0);
  CHECK(eventually([&] { return engine.statistics().dram_limit_bytes == 0; }));
  liar.spoil_pool();
  std::size_t lost = 0;
  for (std::size_t i = 0; i < saved.ids.size(); ++i) {
    std::vector<std::byte> back(mib);
    const int error = engine.fetch(saved.ids[i], back);
    if (error == 0)
      CHECK((back == saved.sources[i]));
    else
      CHECK(error == -EBADMSG);
    lost += error != 0 ? 1 : 0;
    engine.release(saved.ids[i]);
  }
  CHECK(lost >= 40);
  for (unsigned i = 0; i < 100; ++i) liar.limit(i % 2 == 0 ? 0 : ~std::uint64_t{0});
  CHECK(eventually([&] { return more.fill(engine, 32) > 0; }));
  liar.send(terrace::wire::make<terrace::wire::Hello>());  // out of place: it is left
  CHECK(eventually([&] { return more.fill(engine, 8) == 8; }));
  more.check(engine);
}
