// Where the administrator wants pools encrypted and none is to be had, an engine opens no file in plain text:
// it goes on with host memory, and the device.
#include "liballoc/wire/protocol.h"
#include "tests/liballoc/gpu/offload/session/session_fixture.h"
#include "tests/tiers/encryption/loop_file_system.h"

using namespace terrace::liballoc::offload::test;
using namespace terrace::tests;
using Catch::Matchers::Contains;

namespace {

// No directory is named.
Options without_directory(const char* device, bool has_budget) {
  Options options{
      .device = device, .dram_bytes = 16 * mib, .nvme_bytes = 256 * mib, .nvme_directory = nullptr};
  if (has_budget) options.writes_per_day_bytes = 512 * mib;
  return options;
}

// Tensors fill host memory, what has no room stays on the device, and nothing of it is in a file.
void check_host_memory_alone(const Options& options, const std::set<std::string>& before) {
  const Opened engine(options);
  CHECK(open_files() == before);
  CHECK_THAT(terrace_offload_warning(engine.get()),
             Contains("are encrypted here") && Contains("writes to no drive"));
  CHECK_THAT(terrace_offload_path(engine.get()), !Contains("io_uring") && !Contains("pread"));
  for (int step = 0; step < 2; ++step) {
    Saved saved;
    CHECK(saved.fill(engine, 64) == 16);
    CHECK(open_files() == before);
    saved.check(engine);
    REQUIRE(terrace_offload_end_step(engine.get()) == 0);
  }
  CHECK(engine.statistics().nvme_written_bytes == 0);
}

// Of a daemon whose pool of 32 MiB lies there, encrypted.
auto encrypted_pool_in(const LoopFileSystem& file_system) {
  return [&](terrace::daemon::ServerOptions& options) {
    options.config.pool_directory = file_system.path();
    options.config.pool_bytes = 32 * mib;
    options.config.encrypts_pool = true;
  };
}

}  // namespace

TEST_CASE("WithoutAPoolOfAnEncryptedDaemonAnEngineOpensNoFile") {
  const char* device = GENERATE("cpu", "emulated:1G");
  const bool has_budget = GENERATE(false, true);
  const TemporaryDirectory state;
  const Variable records("XDG_STATE_HOME", state.path());
  const Options options = without_directory(device, has_budget);
  {
    const LyingDaemon daemon(terrace::wire::welcome_encrypts);
    const JobOf job(daemon.path());
    check_host_memory_alone(options, open_files());
  }
  // A daemon that does not encrypt leaves it a file of its own, which is seen; so does a directory.
  Options named = options;
  named.nvme_directory = TERRACE_TEST_POOL_DIR;
  for (const auto& [flags, with] :
       {std::pair(0U, options), std::pair(terrace::wire::welcome_encrypts, named)}) {
    const LyingDaemon daemon(flags);
    const JobOf job(daemon.path());
    const auto before = open_files();
    const Opened engine(with);
    CHECK(open_files() != before);
    Saved saved;
    CHECK(saved.fill(engine, 64) == 64);
    saved.check(engine);
  }
}

TEST_CASE("WhereTheDirectoryOfAnEncryptedDaemonIsGoneAnEngineOpensNoFile") {
  const LoopFileSystem file_system;
  if (!file_system.is_there()) return;
  ServerThread server(encrypted_pool_in(file_system));
  const JobOf job(server.socket());
  {
    const Opened engine(without_directory("cpu", false));
    CHECK_THAT(terrace_offload_path(engine.get()), Contains("in the daemon's pool"));
  }
  for (const auto& entry : std::filesystem::directory_iterator(file_system.path()))
    if (entry.path().filename() != "lost+found") std::filesystem::remove_all(entry.path());
  REQUIRE(
      eventually([&] { return job_at(server.socket()).empty(); }));  // and the daemon's descriptor is closed
  check_host_memory_alone(without_directory(GENERATE("cpu", "emulated:1G"), false), open_files());
}

TEST_CASE("WhereTheQuotaOfAnEncryptedDaemonIsUsedUpAnEngineOpensNoFile") {
  const LoopFileSystem file_system;
  if (!file_system.is_there()) return;
  ServerThread server(encrypted_pool_in(file_system));
  RawClient other(server.socket());
  const Received welcome = join(other, greeting("other", 64 * mib, 32 * mib));
  const JobOf job(server.socket());
  check_host_memory_alone(without_directory(GENERATE("cpu", "emulated:1G"), false), open_files());
}
