#include "daemon/settings/reload.h"

#include <catch2/catch.hpp>

using namespace terrace::daemon;

namespace {

// What the running daemon has: its socket is where systemd made it.
Config running() {
  Config config;
  config.socket = "/run/handed-over.sock";
  return config;
}

constexpr const char* set_socket = "/run/set.sock";

// The same settings as they were read.
Config read_again() {
  Config config = running();
  config.socket = set_socket;
  return config;
}

NvmRule some_nvm() {
  NvmRule rule;
  rule.directory = "/nvm";
  return rule;
}

}  // namespace

TEST_CASE("the same settings take no restart, wherever the socket really is") {
  CHECK_FALSE(takes_restart(read_again(), running(), set_socket));
}

TEST_CASE("what the start has opened takes a restart, and a reload leaves it as it was") {
  const auto change = GENERATE(
      +[](Config* next) { next->socket = "/run/other.sock"; }, +[](Config* next) { next->group = "others"; },
      +[](Config* next) { next->pool_directory = "/other"; },
      +[](Config* next) { next->encrypts_pool = true; }, +[](Config* next) { next->state = "/other"; },
      +[](Config* next) { next->tiers.nvm = some_nvm(); },
      +[](Config* next) { next->metrics.listen = "127.0.0.1:9999"; });
  Config next = read_again();
  change(&next);
  CHECK(takes_restart(next, running(), set_socket));
  Config config = running();
  take_over(next, &config);
  CHECK(to_toml(config) == to_toml(running()));
  CHECK(config.socket == running().socket);
  CHECK(config.tiers == running().tiers);
  CHECK(config.metrics == running().metrics);
}

TEST_CASE("a reload takes over budgets, shares, limits, the policy and the log's level") {
  Config next = read_again();
  next.dram = Amount::percent(10);
  next.per_user = next.per_job = next.writes_per_user = next.pool_per_user = Amount::percent(11);
  next.gpu_memory = next.gpu_per_user = Amount::percent(12);
  next.lends_idle = false;
  next.gpu_lends_idle = true;
  next.shares.resize(1);
  next.groups.resize(2);
  next.jobs.resize(3);
  next.tiers.compressed = Amount::percent(13);
  next.pool_bytes = 14;
  next.writes_per_day = 15;
  next.policy = "another";
  next.log_level = "debug";
  CHECK_FALSE(takes_restart(next, running(), set_socket));
  Config config = running();
  take_over(next, &config);
  CHECK(config.dram == Amount::percent(10));
  for (const Amount& amount : {config.per_user, config.per_job, config.writes_per_user, config.pool_per_user})
    CHECK(amount == Amount::percent(11));
  CHECK(config.gpu_memory == Amount::percent(12));
  CHECK(config.gpu_per_user == Amount::percent(12));
  CHECK_FALSE(config.lends_idle);
  CHECK(config.gpu_lends_idle);
  CHECK(config.shares.size() == 1);
  CHECK(config.groups.size() == 2);
  CHECK(config.jobs.size() == 3);
  CHECK(config.tiers.compressed == Amount::percent(13));
  CHECK(config.pool_bytes == 14);
  CHECK(config.writes_per_day == 15);
  CHECK(config.policy == "another");
  CHECK(config.log_level == "debug");
}
