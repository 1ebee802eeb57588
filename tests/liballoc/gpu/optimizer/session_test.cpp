// Optimizers in session with a daemon: states move between DRAM and the daemon's pool as grants rise and
// fall, and every number is the one that it is without a daemon.
#include <algorithm>
#include <cerrno>
#include <random>

#include "tests/liballoc/gpu/offload/session/session_fixture.h"
#include "tests/liballoc/gpu/optimizer/optimizer_fixture.h"

namespace session = terrace::liballoc::offload::test;
using namespace terrace::liballoc::optimizer::test;
using namespace terrace::tests;
using Catch::Matchers::Contains;
using nlohmann::json;
using session::counter, session::engine_at, session::JobOf, session::set_budget;

namespace {

// 26 blocks of 2 MiB: more than the smallest budget of a job.
const std::vector<std::size_t> sizes = {3'000'000, 2'500'000, 1'200'000, 10};
constexpr std::uint64_t all_bytes = 52 * mib, floor_bytes = 4 * mib;

// Without a directory of its own.
Options pooled(std::uint64_t nvme_bytes = 0) { return {.nvme_bytes = nvme_bytes, .directory = nullptr}; }

std::uint64_t taken(const Opened& optimizer) {
  return optimizer.statistics().dram_bytes + optimizer.statistics().staging_bytes;
}

// The parameters and states of a model after some steps without a daemon.
struct Expected {
  explicit Expected(int steps) {
    Opened optimizer;
    Model model(optimizer, sizes);
    for (int i = 0; i < steps; ++i) REQUIRE(model.step() == 0);
    parameters = model.parameters;
    for (std::size_t i = 0; i < sizes.size(); ++i) states.push_back(model.states(i));
  }
  void check(Model& model) const {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      INFO("parameter " << i);
      CHECK((model.parameters[i] == parameters[i]));
      CHECK((model.states(i) == states[i]));
    }
  }
  std::vector<std::vector<float>> parameters;
  std::vector<std::vector<std::vector<float>>> states;
};

void steps(Model& model, int count) {
  for (int i = 0; i < count; ++i) REQUIRE(model.step() == 0);
}

bool is_seen(const Opened& optimizer, std::uint64_t limit_bytes) {
  return eventually([&] { return optimizer.statistics().dram_limit_bytes == limit_bytes; });
}

bool pauses(const std::string& socket) {
  return ask(socket, {{"verb", "pause"}, {"job", "train"}})["ok"] == true;
}

// As `terrace pause`, until it would stop the process.
bool is_at_floor(const std::string& socket) {
  return eventually([&] {
    if (!pauses(socket)) return false;
    const json found = engine_at(socket);
    return found["granted_bytes"] == floor_bytes && counter(found, "budget_bytes") <= floor_bytes &&
           counter(found, "resident_bytes") <= floor_bytes;
  });
}

// The same of all sessions of the job.
bool are_at_floor(const std::string& socket, std::size_t count) {
  return eventually([&] {
    if (!pauses(socket)) return false;
    const json sessions = session::job_at(socket).value("sessions", json::array());
    return sessions.size() == count && std::ranges::all_of(sessions, [](const json& found) {
             return found["granted_bytes"] == floor_bytes && counter(found, "budget_bytes") <= floor_bytes &&
                    counter(found, "resident_bytes") <= floor_bytes;
           });
  });
}

void resume(const std::string& socket) {
  REQUIRE(ask(socket, {{"verb", "resume"}, {"job", "train"}})["ok"] == true);
}

}  // namespace

TEST_CASE("An optimizer is a session of its job", "[optimizer]") {
  ServerThread server;
  const JobOf job(server.socket());
  {
    Opened optimizer(pooled());
    Model model(optimizer, sizes);
    steps(model, 1);
    CHECK(eventually([&] {
      const json found = engine_at(server.socket());
      return counter(found, "heap_live_bytes") == all_bytes &&
             counter(found, "resident_bytes") == taken(optimizer);
    }));
    const json found = engine_at(server.socket());
    CHECK(found["device"] == "optimizer");
    CHECK(found["pid"] == ::getpid());
    CHECK(session::job_at(server.socket())["job"] == "train");
  }
  CHECK(eventually([&] { return session::job_at(server.socket()).empty(); }));
}

TEST_CASE("A grant that changes while a model trains changes no number", "[optimizer]") {
  const Expected expected(12);
  ServerThread server;
  const JobOf job(server.socket(), "128M");
  Opened optimizer(pooled(GENERATE(std::uint64_t{0}, 256 * mib)));
  const bool lives_on_drive = optimizer.statistics().dram_limit_bytes != 128 * mib;
  Model model(optimizer, sizes);
  std::uint64_t moved = 0;
  for (int round = 0; round < 6; ++round) {
    const std::uint64_t budget = (round % 2 == 0 ? 32 + round : 128 - round) * mib;
    set_budget(server.socket(), budget);
    if (round % 3 != 2) CHECK(is_seen(optimizer, budget));  // else whenever it comes
    steps(model, 2);
    CHECK(is_seen(optimizer, budget));
    CHECK(eventually([&] { return taken(optimizer) <= budget; }));
    moved = std::max(moved, optimizer.statistics().nvme_bytes);
  }
  CHECK_FALSE(lives_on_drive);
  CHECK(moved >= 20 * mib);
  expected.check(model);
}

TEST_CASE("States leave for a lowered grant and return for a raised one without a step", "[optimizer]") {
  const Expected expected(2);
  ServerThread server;
  const JobOf job(server.socket(), "128M");
  Opened optimizer(pooled());
  Model model(optimizer, sizes);
  steps(model, 1);
  CHECK(optimizer.statistics().dram_bytes == all_bytes);
  CHECK(optimizer.statistics().nvme_written_bytes == 0);
  set_budget(server.socket(), 32 * mib);
  terrace_optimizer_statistics low{};
  CHECK(eventually([&] {  // one that is on its way counts on both sides
    low = optimizer.statistics();
    return low.dram_bytes <= 32 * mib && low.dram_bytes + low.nvme_bytes == all_bytes;
  }));
  CHECK(low.dram_bytes >= 20 * mib);  // no more leaves than has to, beside slots for a step
  CHECK(low.nvme_written_bytes == low.nvme_bytes);
  CHECK(eventually([&] { return counter(engine_at(server.socket()), "resident_bytes") <= 32 * mib; }));
  set_budget(server.socket(), 128 * mib);
  CHECK(eventually([&] { return optimizer.statistics().dram_bytes == all_bytes; }));
  CHECK(optimizer.statistics().nvme_bytes == 0);
  steps(model, 1);
  expected.check(model);
}

TEST_CASE("States that the grant has no room for begin on the drive", "[optimizer]") {
  const Expected expected(3);
  ServerThread server;
  const JobOf job(server.socket(), "32M");
  Opened optimizer(pooled());
  CHECK_THAT(terrace_optimizer_path(optimizer.get()), Contains("in DRAM") && Contains("the daemon's pool"));
  Model model(optimizer, sizes);
  CHECK(optimizer.statistics().dram_bytes <= 32 * mib);
  CHECK(optimizer.statistics().nvme_written_bytes == 0);  // of what is all zeros nothing is written
  for (int i = 0; i < 3; ++i) {
    steps(model, 1);
    CHECK(taken(optimizer) <= 32 * mib);
  }
  expected.check(model);
}

TEST_CASE("States that live on the drive stay there and pass through what is granted", "[optimizer]") {
  const Expected expected(3);
  ServerThread server;
  const JobOf job(server.socket(), "32M");
  Options options = pooled(256 * mib);
  options.staging_bytes = 64 * mib;
  Opened optimizer(options);
  CHECK_THAT(terrace_optimizer_path(optimizer.get()), Contains("on NVMe in the daemon's pool"));
  Model model(optimizer, sizes);
  steps(model, 3);
  CHECK(optimizer.statistics().dram_bytes == 0);
  CHECK(optimizer.statistics().staging_bytes == 32 * mib);
  CHECK(eventually([&] {
    const json found = engine_at(server.socket());
    return counter(found, "heap_live_bytes") == 64 * mib && counter(found, "pool_used_bytes") == all_bytes &&
           session::job_at(server.socket())["written_today_bytes"] == 3 * all_bytes;
  }));
  set_budget(server.socket(), 128 * mib);
  CHECK(is_seen(optimizer, 128 * mib));
  steps(model, 1);
  CHECK(optimizer.statistics().staging_bytes == 64 * mib);
  CHECK(optimizer.statistics().dram_bytes == 0);
  Opened again;
  Model model_again(again, sizes);
  steps(model_again, 4);
  CHECK((model.parameters == model_again.parameters));
}

TEST_CASE("A directory that is named has the file and the grant holds all the same", "[optimizer]") {
  ServerThread server;
  const JobOf job(server.socket(), "32M");
  Opened optimizer({.nvme_bytes = 256 * mib, .staging_bytes = 64 * mib});
  CHECK_THAT(terrace_optimizer_path(optimizer.get()), !Contains("the daemon's pool"));
  Model model(optimizer, sizes);
  steps(model, 1);
  CHECK(optimizer.statistics().staging_bytes == 32 * mib);
  CHECK(optimizer.statistics().writes_total_bytes != 0);
  CHECK_FALSE(engine_at(server.socket()).contains("pool_capacity_bytes"));
}

TEST_CASE("All of an optimizer's host memory leaves for a pause and comes back", "[optimizer]") {
  const Expected expected(4);
  ServerThread server;
  const JobOf job(server.socket(), "128M");
  Opened optimizer(pooled(GENERATE(std::uint64_t{0}, 256 * mib)));
  Model model(optimizer, sizes);
  steps(model, 1);
  const std::uint64_t before = optimizer.statistics().dram_bytes;
  REQUIRE(is_at_floor(server.socket()));
  CHECK(taken(optimizer) <= floor_bytes);
  steps(model, 1);  // through one slot
  CHECK(is_at_floor(server.socket()));
  resume(server.socket());
  steps(model, 2);
  CHECK(eventually([&] { return optimizer.statistics().dram_bytes == before; }));
  expected.check(model);
}

// What a file takes up ahead of need is nobody else's, of 256 MiB that the pools of all jobs may take.
TEST_CASE("An engine and an optimizer have room in the pool of their job", "[optimizer]") {
  const Expected expected(2);
  ServerThread server([](terrace::daemon::ServerOptions& options) { options.config.pool_bytes = 256 * mib; });
  const JobOf job(server.socket(), "256M");
  const session::Opened engine({.dram_bytes = 64 * mib, .nvme_bytes = 1024 * mib, .nvme_directory = nullptr});
  session::Saved saved;
  REQUIRE(saved.fill(engine, 40) == 40);
  REQUIRE(are_at_floor(server.socket(), 1));
  resume(server.socket());
  CHECK(eventually([&] {  // the daemon has seen what the engine's file takes up
    return engine_at(server.socket()).value("pool_disk_bytes", std::uint64_t{0}) >= 40 * mib;
  }));
  Opened optimizer(pooled());
  Model model(optimizer, sizes);
  steps(model, 1);
  CHECK(are_at_floor(server.socket(), 2));
  CHECK(optimizer.statistics().nvme_bytes == all_bytes);
  json second;
  CHECK(eventually([&] {
    second = session::job_at(server.socket())["sessions"][1];
    return second.value("pool_disk_bytes", std::uint64_t{0}) >= all_bytes;
  }));
  CHECK(second["pool_disk_bytes"] <= all_bytes + 32 * mib);
  resume(server.socket());
  steps(model, 1);
  saved.check(engine);
  expected.check(model);
}

TEST_CASE("What an optimizer keeps for the next step is trimmed", "[optimizer]") {
  ServerThread server;
  const JobOf job(server.socket());
  Opened optimizer(pooled(256 * mib));
  Model model(optimizer, sizes);
  steps(model, 1);
  CHECK(eventually([&] { return counter(engine_at(server.socket()), "recycled_bytes") == 16 * mib; }));
  REQUIRE(ask(server.socket(), {{"verb", "trim"}, {"job", "train"}})["ok"] == true);
  CHECK(eventually([&] {
    const json found = engine_at(server.socket());
    return counter(found, "recycled_bytes") == 0 && counter(found, "resident_bytes") == 0;
  }));
  CHECK(optimizer.statistics().staging_bytes == 0);
  steps(model, 1);
  CHECK(optimizer.statistics().staging_bytes == 16 * mib);
}

TEST_CASE("What the pool refuses stays in DRAM and is said", "[optimizer]") {
  const Expected expected(3);
  ServerThread server;
  const JobOf job(server.socket(), "128M");
  Options options = pooled();
  options.fault = GENERATE("write:3:EIO", "write:1:ENOSPC");
  Opened optimizer(options);
  Model model(optimizer, sizes);
  steps(model, 1);
  set_budget(server.socket(), 32 * mib);
  CHECK(is_seen(optimizer, 32 * mib));
  CHECK(eventually([&] { return !optimizer.warning().empty(); }));
  CHECK_THAT(optimizer.warning(), Contains("cannot move") || Contains("stay in DRAM"));
  steps(model, 2);
  CHECK(optimizer.statistics().dram_bytes > 32 * mib);
  expected.check(model);
}

TEST_CASE("What comes back damaged stays on the drive and the next look decides", "[optimizer]") {
  const Expected expected(3);
  ServerThread server;
  const JobOf job(server.socket(), "128M");
  Options options = pooled();
  options.fault = "corrupt:2";  // the second read, once
  Opened optimizer(options);
  Model model(optimizer, sizes);
  steps(model, 1);
  set_budget(server.socket(), 32 * mib);
  CHECK(eventually([&] { return optimizer.statistics().dram_bytes <= 32 * mib; }));
  set_budget(server.socket(), 128 * mib);
  CHECK(eventually([&] { return !optimizer.warning().empty(); }));
  CHECK(optimizer.statistics().nvme_bytes != 0);
  steps(model, 2);  // what lies there is whole
  CHECK(optimizer.statistics().dram_bytes == all_bytes);
  expected.check(model);
}

TEST_CASE("What the daemon leases is all that leaves DRAM", "[optimizer]") {
  const Expected expected(2);
  const TemporaryDirectory state;
  ServerThread server([&](terrace::daemon::ServerOptions& options) {
    options.config.writes_per_day = 8 * mib;
    options.config.writes_per_user = terrace::daemon::Amount::percent(100);
    options.config.state = state.path();
  });
  const JobOf job(server.socket(), "128M");
  Opened optimizer(pooled());
  CHECK(eventually([&] { return session::job_at(server.socket()).contains("writes_left_bytes"); }));
  session::pause_ms(300);  // the first lease is told by then
  Model model(optimizer, sizes);
  steps(model, 1);
  set_budget(server.socket(), 32 * mib);
  CHECK(is_seen(optimizer, 32 * mib));
  steps(model, 1);
  CHECK(optimizer.statistics().nvme_written_bytes <= 8 * mib);
  CHECK(optimizer.statistics().dram_bytes >= all_bytes - 8 * mib);
  expected.check(model);
}

TEST_CASE("Without a pool states stay in DRAM whatever the grant", "[optimizer]") {
  const Expected expected(2);
  session::LyingDaemon daemon(0);
  const JobOf job(daemon.path());
  Opened optimizer(pooled());
  daemon.await();
  Model model(optimizer, sizes);
  steps(model, 1);
  daemon.limit(0);
  CHECK(is_seen(optimizer, 0));
  steps(model, 1);
  CHECK(optimizer.statistics().dram_bytes == all_bytes);
  expected.check(model);
}

TEST_CASE("Without a pool of an encrypted daemon an optimizer opens no file", "[optimizer]") {
  const Expected expected(2);
  const TemporaryDirectory state;
  const session::Variable records("XDG_STATE_HOME", state.path());
  const std::uint64_t nvme_bytes = GENERATE(std::uint64_t{0}, 256 * mib);
  for (const std::uint64_t total : {std::uint64_t{0}, 512 * mib}) {
    const session::LyingDaemon daemon(terrace::wire::welcome_encrypts);
    const JobOf job(daemon.path());
    const auto before = session::open_files();
    Options options = pooled(nvme_bytes);
    options.writes_total_bytes = total;
    Opened optimizer(options);
    CHECK(session::open_files() == before);
    if (nvme_bytes != 0) CHECK_THAT(optimizer.warning(), Contains("the optimizer writes to no drive"));
    CHECK_THAT(terrace_optimizer_path(optimizer.get()), Contains("states in DRAM"));
    Model model(optimizer, sizes);
    steps(model, 2);
    CHECK(session::open_files() == before);
    CHECK(optimizer.statistics().dram_bytes == all_bytes);
    expected.check(model);
  }
  if (nvme_bytes == 0) return;
  // A daemon that does not encrypt leaves it a file of its own, which is seen; so does a directory.
  for (const std::uint32_t flags : {0U, terrace::wire::welcome_encrypts}) {
    const session::LyingDaemon daemon(flags);
    const JobOf job(daemon.path());
    const auto before = session::open_files();
    Options options = pooled(nvme_bytes);
    if (flags != 0) options.directory = TERRACE_TEST_POOL_DIR;
    const Opened optimizer(options);
    CHECK(session::open_files() != before);
  }
}

TEST_CASE("An optimizer goes on without its daemon and comes back to the next", "[optimizer]") {
  const Expected expected(4);
  const TemporaryDirectory directory;
  const std::string socket = directory / "t.sock";
  std::optional<DaemonProcess> daemon;
  daemon.emplace(socket, std::vector<std::string>{"--private", "--pool", directory.path()});
  const JobOf job(socket, "32M");
  Opened optimizer(pooled());
  Model model(optimizer, sizes);
  steps(model, 2);
  daemon->kill();
  steps(model, 1);
  CHECK(taken(optimizer) <= 32 * mib);
  daemon.emplace(socket, std::vector<std::string>{"--private", "--respawned", "--pool", directory.path()});
  CHECK(eventually([&] { return engine_at(socket).value("reattached", false); }));
  CHECK(engine_at(socket)["granted_bytes"] == 32 * mib);
  steps(model, 1);
  expected.check(model);
}

TEST_CASE("What a daemon says of an optimizer that it refuses is the reason", "[optimizer]") {
  ServerThread server;
  const JobOf job(server.socket(), "900T");
  terrace_optimizer* none = nullptr;
  std::string reason;
  CHECK(Opened::open(pooled(), &none, &reason) < 0);
  CHECK(none == nullptr);
  CHECK_THAT(reason, Contains("the daemon at " + server.socket() + " refused the optimizer: "));
}

TEST_CASE("Where no daemon is the optimizer goes on and says why", "[optimizer]") {
  const TemporaryDirectory directory;
  const std::string socket = directory / "t.sock";
  const JobOf job(socket, "64M");
  Opened optimizer(pooled(256 * mib));
  CHECK_THAT(optimizer.warning(), Contains("no daemon at " + socket));
  CHECK(optimizer.statistics().dram_limit_bytes == 0);
  Model model(optimizer, sizes);
  steps(model, 1);
  DaemonProcess late(socket, {"--private", "--pool", directory.path()});
  CHECK(is_seen(optimizer, 64 * mib));
  steps(model, 1);
}

TEST_CASE("A daemon that lies costs steps and gives no other number", "[optimizer]") {
  session::LyingDaemon liar;
  const JobOf job(liar.path());
  Opened optimizer(pooled(256 * mib));
  liar.await();
  Model model(optimizer, sizes);
  const Expected expected(2);
  steps(model, 2);
  for (unsigned i = 0; i < 60; ++i) liar.limit(i % 2 == 0 ? 0 : ~std::uint64_t{0});
  expected.check(model);
  liar.spoil_pool();
  CHECK(model.step() == -EBADMSG);
  CHECK((model.parameters == expected.parameters));
  CHECK(optimizer.statistics().checksum_failures != 0);
}

TEST_CASE("Grants that come and go in the middle of steps change no number", "[optimizer]") {
  const Expected expected(30);
  session::LyingDaemon daemon;
  const JobOf job(daemon.path());
  Opened optimizer(pooled());
  daemon.await();
  Model model(optimizer, sizes);
  std::atomic<bool> ends = false;
  std::thread granting([&] {
    std::mt19937 random(7);
    while (!ends) {
      auto budget = terrace::wire::make<terrace::wire::Budget>();
      budget.budget_bytes = random() % 80 * mib;
      budget.pool_limit_bytes = ~std::uint64_t{0};
      daemon.send(budget);
      session::pause_ms(20);
    }
  });
  steps(model, 10);
  for (int i = 0; i < 20; ++i) {
    session::pause_ms(15);  // between steps the session's thread moves states
    steps(model, 1);
  }
  ends = true;
  granting.join();
  CHECK(optimizer.statistics().nvme_written_bytes != 0);
  expected.check(model);
}
