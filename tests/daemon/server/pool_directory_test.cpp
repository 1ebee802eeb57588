// The directory of the pool, or of NVM, is lost and comes back; the daemon stays.
#include <filesystem>

#include "tests/daemon/support.h"
#include "tiers/encryption/at_rest.h"

using namespace terrace;
using namespace terrace::tests;
using Catch::Matchers::Contains;

namespace {

// A service, not a private daemon, whose pool directory nobody has made yet.
struct ServiceWithoutPool {
  TemporaryDirectory elsewhere;
  std::string pool = elsewhere / "pool";
  ServerThread server;
  explicit ServiceWithoutPool(std::optional<std::uint64_t> quota = gib, bool encrypts = false)
      : server([&](daemon::ServerOptions& options) {
          options.is_private = false;
          options.config.pool_directory = pool;
          options.config.pool_bytes = quota;
          options.config.encrypts_pool = encrypts;
          options.config.state = elsewhere / "state";
        }) {}

  // Whether a new job is given a pool file when it takes what there is.
  bool gives_a_pool() const {
    RawClient job(server.socket());
    const auto welcome = join(job, greeting("train", 64 * mib, wire::any_bytes)).as<wire::Welcome>();
    return (welcome.flags & wire::welcome_pool_fd) != 0;
  }

  // What a job is told that needs a pool.
  std::string refusal() const {
    RawClient job(server.socket());
    REQUIRE(job.send(greeting("train", 64 * mib, 32 * mib)));
    const auto received = job.receive();
    REQUIRE(received);
    REQUIRE(received->type() == wire::Type::refused);
    return received->as<wire::Refused>().text;
  }
};

}  // namespace

TEST_CASE("PoolDirectoryLostAtTheStartTakesThePoolAndNotTheDaemon") {
  const ServiceWithoutPool service(GENERATE(std::optional<std::uint64_t>(gib), std::nullopt));
  CHECK_FALSE(service.gives_a_pool());
  std::filesystem::create_directory(service.pool);
  CHECK(eventually([&] { return service.gives_a_pool(); }));
}

TEST_CASE("What is written to the drive is kept count of once the pool is back") {
  ServiceWithoutPool service;
  CHECK_FALSE(service.gives_a_pool());
  std::filesystem::create_directory(service.pool);
  REQUIRE(eventually([&] { return service.gives_a_pool(); }));
  service.server.stop();  // which writes the count
  CHECK_FALSE(std::filesystem::is_empty(service.elsewhere / "state"));
}

TEST_CASE("A job that needs a pool is told that the directory is lost") {
  const ServiceWithoutPool service;
  CHECK_THAT(service.refusal(), Contains("[pool] directory"));
}

TEST_CASE("PoolDirectoryLostWhileTheDaemonRunsTakesThePoolUntilItIsBack") {
  ServiceWithoutPool service;
  std::filesystem::create_directory(service.pool);
  REQUIRE(eventually([&] { return service.gives_a_pool(); }));
  std::filesystem::remove(service.pool);
  CHECK_FALSE(service.gives_a_pool());
  std::filesystem::create_directory(service.pool);
  CHECK(service.gives_a_pool());
}

TEST_CASE("A pool that comes back and cannot be encrypted stays closed") {
  const ServiceWithoutPool service(gib, true);
  std::filesystem::create_directory_symlink("/dev/shm", service.pool);  // tmpfs encrypts nothing
  CHECK(eventually([&] { return service.refusal().find("[pool] encrypt") != std::string::npos; }));
  CHECK_FALSE(service.gives_a_pool());
}

TEST_CASE("NvmDirectoryLostAtTheStartTakesTheNvmAndNotTheDaemon") {
  const bool encrypts = GENERATE(false, true);
  TemporaryDirectory elsewhere;
  const std::string nvm = elsewhere / "nvm";
  const ServerThread server([&](daemon::ServerOptions& options) {
    options.is_private = false;
    options.config.pool_directory = elsewhere / "pool";
    options.config.encrypts_pool = encrypts;
    options.config.state = elsewhere / "state";
    options.config.tiers.nvm = daemon::NvmRule{.bytes = 256 * mib, .directory = nvm};
  });
  const auto gives_nvm = [&] {
    RawClient job(server.socket());
    wire::Hello asks = greeting("train", 64 * mib);
    asks.features |= wire::feature_tiers;
    join(job, asks);
    const auto told = job.receive();
    REQUIRE(told);
    REQUIRE(told->type() == wire::Type::tiers);
    return (told->as<wire::Tiers>().flags & wire::tiers_nvm_fd) != 0;
  };
  CHECK_FALSE(gives_nvm());
  std::filesystem::create_directory(nvm);
  if (encryption::look_at_rest(nvm).is_encrypted()) {
    puts("SKIP: the directory is encrypted, so nothing would be in plain text");
    return;
  }
  CHECK(gives_nvm() == !encrypts);  // what is to be encrypted never lies there in plain text
}
