// What is said of a running job beside DRAM: the pool's space, the bytes of a day and GPUs (`terrace set JOB
// --pool-limit`, `--writes-limit`, `--gpu-limit`), and that the next daemon knows it.
#include <fcntl.h>
#include <catch2/catch.hpp>
#include <cerrno>

#include "daemon/control/control.h"
#include "tests/daemon/shares/obey.h"
#include "tests/daemon/temporary_directory.h"
#include "tests/daemon/writes/leased_writers.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

using terrace::tests::gib;
using terrace::tests::mib;

const JobKey held_down{1000, "a"}, neighbour{1001, "a"};
constexpr JobLimit by_owner(std::uint64_t bytes) { return {bytes, Asker::owner}; }
constexpr JobLimit by_administrator(std::uint64_t bytes) { return {bytes, Asker::administrator}; }

// A registry that takes over from one whose record said `had`.
struct Successor {
  tests::TemporaryDirectory directory;
  Config config;
  Registry registry{8 * gib, Pools(directory.path(), 4 * gib, false)};

  explicit Successor(const Promises& had = {}) {
    registry.writes().set_limit(8 * gib, {});
    registry.expect(Claims(had), 1'000'000'000);
  }
  std::optional<Refusal> join(const JobKey& job, std::uint64_t pool = 0, std::uint16_t flags = 0) {
    wire::Hello hello = wire::make<wire::Hello>();
    wire::copy_text(hello.job, sizeof hello.job, job.name.c_str());
    wire::copy_text(hello.program, sizeof hello.program, "card");
    hello.pool_wanted_bytes = pool;
    hello.flags = flags;
    if ((flags & wire::hello_is_gpu_heap) != 0) hello.pool_capacity_bytes = 16 * gib;
    Admission admission = registry.admit(hello, Peer{100, job.uid, job.uid}, std::nullopt, 1);
    if (admission.session != nullptr) last = admission.session->id();
    return admission.refusal;
  }
  json ask(const json& request, std::uint32_t uid) {
    return answer(request.dump(), Peer{1, uid, uid}, {registry, config, false, 2, 1}).reply;
  }
  json limit(const char* tier, std::uint64_t bytes, std::uint32_t uid) {
    return ask({{"verb", "set_tier_limit"}, {"job", "a"}, {"uid", 1000}, {"tier", tier}, {"bytes", bytes}},
               uid);
  }
  SessionId last = 0;
};

}  // namespace

TEST_CASE("APoolLimitCutsThePromiseAndOthersHaveIt") {
  Pools pools("/var/tmp", 10 * gib, false);
  REQUIRE_FALSE(pools.promise(1, held_down, 8 * gib));
  CHECK(pools.promise(2, neighbour, 6 * gib)->error == ENOSPC);
  REQUIRE_FALSE(pools.set_job_limit(held_down, by_owner(3 * gib)));
  CHECK(pools.promised_bytes(held_down) == 3 * gib);
  CHECK(pools.limit_bytes(1) == 3 * gib);
  REQUIRE_FALSE(pools.promise(2, neighbour, 6 * gib));
  REQUIRE_FALSE(pools.promise(3, held_down, 8 * gib));  // a second process of it, started like the first
  CHECK(pools.promised_bytes(held_down) == 3 * gib);
  pools.set_users({});  // the settings are read anew
  CHECK(pools.users().job_limit(held_down) == by_owner(3 * gib));
  REQUIRE_FALSE(pools.set_job_limit(held_down, by_owner(no_limit)));
  CHECK(pools.promised_bytes(held_down) == 4 * gib);  // of its 8, what is left
  pools.leave(2);
  REQUIRE_FALSE(pools.set_job_limit(held_down, by_owner(no_limit)));
  CHECK(pools.promised_bytes(held_down) == 8 * gib);
  CHECK(pools.set_job_limit(held_down, by_owner(mib))->error == EINVAL);
}

TEST_CASE("FilesThatTookUpMoreBeforeALimitAreCountedAndNotNamed") {
  Pools pools("/var/tmp", gib, false);
  REQUIRE_FALSE(pools.promise(1, held_down, 512 * mib));
  const PoolGrant grant = pools.open_file(1, 0, 0);
  REQUIRE(grant.error == 0);
  const UniqueFd file(grant.fd);
  REQUIRE(::posix_fallocate(file.get(), 0, 256 * mib) == 0);
  CHECK_FALSE(pools.measure(1));
  REQUIRE_FALSE(pools.set_job_limit(held_down, by_administrator(64 * mib)));
  CHECK(pools.promised_bytes(held_down) == 64 * mib);
  CHECK_FALSE(pools.measure(1));
  CHECK(pools.limit_bytes(1) == 64 * mib);  // nothing new goes there
  const auto refusal = pools.promise(2, neighbour, 960 * mib);
  REQUIRE(refusal);  // the file is there all the same
  CHECK(refusal->available_bytes < 800 * mib);
  REQUIRE(::posix_fallocate(file.get(), 0, 320 * mib) == 0);
  CHECK(pools.measure(1));  // and that is more than it was
}

TEST_CASE("WhatIsSaidOfAJobsPoolIsTheAdministratorsElseTheSmaller") {
  Pools pools("/var/tmp", 10 * gib, false);
  UserShares users;
  JobShares jobs;
  jobs.add({held_down.uid}, "a", {.limit_bytes = 4 * gib});
  users.set_jobs(jobs);
  pools.set_users(users);
  CHECK(pools.promise(1, held_down, 5 * gib)->error == ENOSPC);
  REQUIRE_FALSE(pools.set_job_limit(held_down, by_owner(8 * gib)));
  CHECK(pools.promise(1, held_down, 5 * gib)->error == ENOSPC);
  CHECK(pools.users().said_limit(held_down) == 4 * gib);
  REQUIRE_FALSE(pools.set_job_limit(held_down, by_administrator(8 * gib)));
  CHECK(pools.users().said_limit(held_down) == 8 * gib);
  REQUIRE_FALSE(pools.promise(1, held_down, 5 * gib));
  const auto refusal = pools.set_job_limit(held_down, by_owner(no_limit));
  REQUIRE(refusal);
  CHECK(refusal->error == EPERM);
  CHECK_THAT(refusal->reason, Contains("\"a\"") && Contains("8.0 GiB"));
  pools.forget_job(held_down);
  CHECK(pools.users().said_limit(held_down) == 4 * gib);
}

TEST_CASE_METHOD(test::LeasedWriters, "ALimitOfWritesHoldsFromWhatWasLeasedOn") {
  const auto alike = [](const JobKey&) { return 1U; };
  CHECK(shares.set_job_limit(held_down, by_administrator(gib))->error == EINVAL);
  CHECK_THAT(shares.set_job_limit(held_down, by_administrator(gib))->reason,
             Contains("[pool] writes_per_day"));
  REQUIRE_FALSE(shares.set_job_limit(held_down, by_administrator(no_limit)));
  shares.set_limit(40 * gib);
  shares.set_users({});
  shares.join(1, held_down);
  REQUIRE_FALSE(shares.set_job_limit(held_down, by_administrator(gib)));
  CHECK(write_all(1, alike) <= gib);
  CHECK(shares.charged_bytes(held_down) + WriteShares::none_bytes >= gib);
  shares.join(2, neighbour);
  REQUIRE_FALSE(shares.set_job_limit(neighbour, by_owner(30 * gib)));
  CHECK(write_all(2, alike) > 29 * gib);  // which the first one's limit leaves to others
  REQUIRE_FALSE(shares.set_job_limit(held_down, by_administrator(2 * gib)));
  const std::uint64_t more = write_all(1, alike);
  CHECK(more > gib);
  CHECK(more <= 2 * gib);
  REQUIRE_FALSE(shares.set_job_limit(held_down, by_administrator(gib)));
  CHECK(write_all(1, alike) == more);  // what was written is written, and no more is
}

TEST_CASE("ALimitOfGpusHoldsOnEachAndOnThoseThatComeLater") {
  GpuShares gpu;
  gpu.set_rules(wire::Amount::percent(100), {}, std::uint64_t{1} << 40);
  const auto settle = [&] {
    for (int round = 0; round < 10; ++round) {
      gpu.rebalance();
      for (SessionId id = 1; id <= 3; ++id) gpu.observe(id, {gpu.granted_bytes(id), 64 * gib});
      gpu.end_round();
    }
  };
  REQUIRE_FALSE(gpu.join(1, held_down, {.device = "one", .device_bytes = 16 * gib}));
  REQUIRE_FALSE(gpu.join(2, neighbour, {.device = "one", .device_bytes = 16 * gib}));
  settle();
  CHECK(gpu.granted_bytes(1) == 8 * gib);
  REQUIRE_FALSE(gpu.set_job_limit(held_down, by_owner(2 * gib)));
  REQUIRE_FALSE(gpu.join(3, held_down, {.device = "two", .device_bytes = 24 * gib}));
  settle();
  CHECK(gpu.granted_bytes(1) == 2 * gib);
  CHECK(gpu.granted_bytes(2) == 14 * gib);
  CHECK(gpu.granted_bytes(3) == 2 * gib);
  gpu.set_rules(wire::Amount::percent(50), {}, std::uint64_t{1} << 40);
  settle();
  CHECK(gpu.granted_bytes(1) == 2 * gib);  // an amount, and no part of what is divided
  CHECK(gpu.set_job_limit(held_down, by_owner(mib))->error == EINVAL);
  gpu.forget_job(held_down);
  settle();
  CHECK(gpu.granted_bytes(3) == 12 * gib);
}

TEST_CASE("TierLimitsAreAskedForByNameAndRefusedToStrangers") {
  Successor daemon;
  REQUIRE_FALSE(daemon.join(held_down, 2 * gib));
  CHECK(daemon.limit("pool", gib, 1001)["errno"] == EPERM);
  const json set = daemon.limit("pool", gib, 1000);
  CHECK(set["ok"] == true);
  CHECK(set["pool_limit_bytes"] == gib);
  CHECK_FALSE(set.contains("previous_limit_bytes"));
  CHECK(daemon.limit("writes", 2 * gib, 0)["writes_limit_bytes"] == 2 * gib);
  CHECK(daemon.limit("gpu", 3 * gib, 0)["ok"] == true);  // for heaps that it may open yet
  const json job = daemon.ask({{"verb", "jobs"}}, 1000)["jobs"][0];
  CHECK(job["pool_limit_bytes"] == gib);
  CHECK(job["pool_promised_bytes"] == gib);
  CHECK(job["writes_limit_bytes"] == 2 * gib);
  CHECK(daemon.limit("writes", 0, 1000)["errno"] == EPERM);
  CHECK(daemon.limit("writes", 0, 0)["previous_limit_bytes"] == 2 * gib);
  for (const char* tier : {"dram", "tape", ""}) CHECK(daemon.limit(tier, gib, 0)["errno"] == EINVAL);
  CHECK(daemon.limit("pool", 1, 0)["errno"] == EINVAL);
  daemon.registry.writes().set_limit(no_limit, {});
  CHECK(daemon.limit("writes", gib, 0)["errno"] == EINVAL);
  const SessionId ended = daemon.last;
  daemon.registry.end(ended, "closed", 3);
  CHECK(daemon.limit("pool", gib, 0)["errno"] == ENOENT);
  REQUIRE_FALSE(daemon.join(held_down, 2 * gib));  // the next job of that name has no limit
  CHECK(daemon.registry.pools().promised_bytes(held_down) == 2 * gib);
}

TEST_CASE("TheNextDaemonKnowsWhatWasSaidOfAJobsTiers") {
  Successor first;
  REQUIRE_FALSE(first.join(held_down, 2 * gib));
  REQUIRE_FALSE(first.join(held_down, 0, wire::hello_is_gpu_heap));
  first.limit("pool", gib, 1000);
  first.limit("writes", 2 * gib, 0);
  first.limit("gpu", 3 * gib, 0);
  const Promises had = first.registry.promises();
  CHECK(had.at(held_down).pool_limit == by_owner(gib));
  CHECK(had.at(held_down).writes_limit == by_administrator(2 * gib));
  CHECK(had.at(held_down).gpu_limit == by_administrator(3 * gib));
  Successor second(had);
  REQUIRE_FALSE(second.join(held_down, 0, wire::hello_is_gpu_heap));
  CHECK(second.registry.gpu().job_limit(held_down) == by_administrator(3 * gib));
  REQUIRE_FALSE(second.join(held_down, wire::any_bytes));
  CHECK(second.registry.pools().promised_bytes(held_down) == gib);
  CHECK(second.limit("writes", 0, 1000)["errno"] == EPERM);
  CHECK(second.registry.promises().at(held_down).pool_limit == by_owner(gib));
}
