// A grant smaller than what brings a tensor back, as before a pause: host memory goes to the kernel as far as
// that, and comes again. And what is kept for the next step, which `terrace trim` asks back.
#include "tests/liballoc/gpu/offload/session/session_fixture.h"

using namespace terrace::liballoc::offload::test;
using namespace terrace::tests;

namespace {

constexpr std::uint64_t floor_bytes = 4 * mib;

bool pauses(const std::string& socket) {
  return ask(socket, {{"verb", "pause"}, {"job", "train"}})["ok"] == true;
}

// As `terrace pause`, until it would stop the process; the daemon holds that for 5 s.
bool is_at_floor(const std::string& socket) {
  return eventually([&] {
    if (!pauses(socket)) return false;
    const json session = engine_at(socket);
    return session["granted_bytes"] == floor_bytes && counter(session, "budget_bytes") <= floor_bytes &&
           counter(session, "resident_bytes") <= floor_bytes;
  });
}

void resume(const std::string& socket, const Opened& engine, std::uint64_t granted_bytes = 64 * mib) {
  REQUIRE(ask(socket, {{"verb", "resume"}, {"job", "train"}})["ok"] == true);
  CHECK(eventually([&] { return engine.statistics().dram_limit_bytes == granted_bytes; }));
}

}  // namespace

TEST_CASE("AllOfAnEnginesHostMemoryLeavesForAPauseAndComesBack") {
  ServerThread server;
  const JobOf job(server.socket(), "64M");
  const Opened engine({.device = GENERATE("cpu", "emulated:1G"),
                       .dram_bytes = 64 * mib,
                       .nvme_bytes = 512 * mib,
                       .compress = GENERATE("off", "zvc")});
  const std::uint64_t bytes = GENERATE(1 * mib, 10 * mib, 40 * mib);
  for (unsigned round = 0; round < 2; ++round) {
    Saved saved;
    const std::size_t count = 120 * mib / bytes;
    REQUIRE(saved.fill(engine, count, bytes) == count);
    REQUIRE(is_at_floor(server.socket()));
    CHECK(engine.statistics().dram_bytes <= floor_bytes);
    if (round == 0) resume(server.socket(), engine);
    // In the second round through the small grant: late, and each as it was.
    saved.check(engine);
    if (round != 0) {
      CHECK(is_at_floor(server.socket()));
      resume(server.socket(), engine);
    }
    REQUIRE(terrace_offload_end_step(engine.get()) == 0);
  }
  Saved more;
  CHECK(more.fill(engine, 48) == 48);
  more.check(engine);
}

TEST_CASE("HostMemoryGrowsAgainAfterAPauseForWhatComesBack") {
  ServerThread server;
  const JobOf job(server.socket(), "64M");
  const Opened engine(
      {.device = GENERATE("cpu", "emulated:1G"), .dram_bytes = 64 * mib, .nvme_bytes = 512 * mib});
  Saved saved;
  REQUIRE(saved.fill(engine, 8, 5 * mib) == 8);
  REQUIRE(is_at_floor(server.socket()));
  resume(server.socket(), engine);
  CHECK(engine.statistics().dram_content_bytes == 0);
  for (std::size_t i = 0; i < saved.ids.size(); ++i) {
    std::vector<std::byte> back(5 * mib);
    REQUIRE(engine.fetch(saved.ids[i], back) == 0);
    CHECK((back == saved.sources[i]));
    pause_ms(20);  // the memory thread's turn
  }
  CHECK(engine.statistics().dram_content_bytes >= 5 * mib);
}

TEST_CASE("WhatCannotLeaveForAPauseStaysAndTheEngineGoesOn") {
  ServerThread server;
  const JobOf job(server.socket(), "64M");
  const Opened engine({.device = GENERATE("cpu", "emulated:1G"), .dram_bytes = 64 * mib});  // no drive
  Saved saved;
  REQUIRE(saved.fill(engine, 40) == 40);
  REQUIRE(pauses(server.socket()));
  CHECK(eventually([&] { return engine.statistics().dram_limit_bytes == floor_bytes; }));
  CHECK(counter(engine_at(server.socket()), "resident_bytes") >= 40 * mib);
  resume(server.socket(), engine);
  saved.check(engine);
}

TEST_CASE("WhatAnEngineKeepsForTheNextStepIsTrimmed") {
  ServerThread server;
  const JobOf job(server.socket());
  const char* device = GENERATE("cpu", "emulated:1G");
  INFO(device);
  const Opened engine({.device = device, .dram_bytes = 64 * mib});
  Saved kept, step;
  REQUIRE(kept.fill(engine, 4) == 4);
  REQUIRE(step.fill(engine, 40) == 40);
  step.check(engine);
  REQUIRE(terrace_offload_next_step(engine.get()) == 0);
  CHECK(eventually([&] { return counter(engine_at(server.socket()), "recycled_bytes") >= 40 * mib; }));
  REQUIRE(ask(server.socket(), {{"verb", "trim"}, {"job", "train"}})["ok"] == true);
  CHECK(eventually([&] {
    const json session = engine_at(server.socket());
    return counter(session, "recycled_bytes") <= mib && counter(session, "resident_bytes") <= 6 * mib;
  }));
  CHECK(engine.statistics().dram_bytes <= 6 * mib);
  REQUIRE(step.fill(engine, 40) == 40);  // it grows again
  step.check(engine);
  kept.check(engine);
}

// The window is larger than the floor, so its memory goes for the pause.
TEST_CASE("WhatWouldBringTensorsBackIsTrimmedAsWellAndThereWhenItIsNeeded") {
  constexpr std::uint64_t granted_bytes = 128 * mib, window_bytes = granted_bytes / 16;
  static_assert(window_bytes > floor_bytes);
  ServerThread server;
  const JobOf job(server.socket(), "128M");
  const Opened engine(
      {.device = GENERATE("cpu", "emulated:1G"), .dram_bytes = granted_bytes, .nvme_bytes = 512 * mib});
  Saved kept;
  REQUIRE(kept.fill(engine, 8, 10 * mib) == 8);
  REQUIRE(is_at_floor(server.socket()));  // all of them are on the drive
  CHECK(engine.statistics().dram_bytes <= floor_bytes);
  resume(server.socket(), engine, granted_bytes);  // and what brings them back has its memory again
  CHECK(eventually([&] { return engine.statistics().dram_bytes >= window_bytes; }));
  REQUIRE(ask(server.socket(), {{"verb", "trim"}, {"job", "train"}})["ok"] == true);
  CHECK(eventually([&] { return counter(engine_at(server.socket()), "resident_bytes") <= mib; }));
  kept.check(engine);
}

// What the file takes up counts for the job, whose pager and optimizers have so much less of the pool.
TEST_CASE("TheFileInADaemonsPoolIsNotMuchLargerThanWhatIsInIt") {
  ServerThread server;
  const JobOf job(server.socket(), "64M");
  const Opened engine({.device = GENERATE("cpu", "emulated:1G"),
                       .dram_bytes = 64 * mib,
                       .nvme_bytes = 512 * mib,
                       .nvme_directory = nullptr});
  Saved saved;
  REQUIRE(saved.fill(engine, 40) == 40);
  REQUIRE(is_at_floor(server.socket()));
  std::uint64_t on_disk = 0;
  REQUIRE(eventually([&] {
    const json session = engine_at(server.socket());
    on_disk = session.value("pool_disk_bytes", std::uint64_t{0});
    return on_disk >= counter(session, "pool_used_bytes") && on_disk != 0;
  }));
  CHECK(on_disk <= (40 + 512 / 8) * mib);
  saved.check(engine);
}
