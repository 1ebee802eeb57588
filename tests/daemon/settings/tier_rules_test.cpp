// What [[share]], [[group]] and [[job]] say of the pool, of writes and of GPUs.
#include "daemon/settings/tier_rules.h"

#include <pwd.h>
#include <catch2/catch.hpp>

#include "daemon/settings/settings_check.h"
#include "tests/daemon/temporary_directory.h"
#include "tests/units.h"

using namespace terrace::daemon;
using namespace terrace::tests;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

namespace {

constexpr std::uint64_t dram = 8 * gib;

Config config_of(std::string_view text) {
  ConfigResult result = parse_config(text, "t.toml", {});
  INFO(result.error);
  REQUIRE(result.error.empty());
  return std::move(result.config);
}

std::string wrong_in(std::string_view text) { return wrong_tier_rules(config_of(text), dram); }

}  // namespace

TEST_CASE("OneGrammarSaysWhatIsGivenOfEachTier") {
  const Config config = config_of(R"(
[pool]
size = "100G"
writes_per_day = "1T"
[gpu]
memory = "80G"
[[share]]
user = "123456"
weight = 3
guarantee = "25%"
pool_guarantee = "10%"
pool_limit = "50G"
writes_guarantee = "100G"
writes_limit = "50%"
gpu_guarantee = "8G"
gpu_limit = "75%"
[[group]]
name = "daemon"
gpu_limit = "50%"
[[job]]
name = "nightly"
user = "123456"
gpu_guarantee = "4G"
pool_limit = "20G"
)");
  CHECK_THAT(wrong_tier_rules(config, dram), Equals(""));
  const auto of = [&](Resource resource) { return shares_of(config, resource, dram).shares; };
  CHECK(of(Resource::dram).of(123456U).guarantee_bytes == 2 * gib);
  CHECK(of(Resource::pool).of(123456U).guarantee_bytes == 10 * gib);
  CHECK(of(Resource::pool).of(123456U).limit_bytes == 50 * gib);
  CHECK(of(Resource::writes).of(123456U).guarantee_bytes == 100 * gib);
  CHECK(of(Resource::writes).of(123456U).limit_bytes == 512 * gib);
  CHECK(of(Resource::gpu).of(123456U).guarantee_bytes == 8 * gib);
  CHECK(of(Resource::gpu).of(123456U).limit_bytes == 60 * gib);
  CHECK(of(Resource::gpu).groups()[0].limit_bytes == 40 * gib);
  CHECK(of(Resource::gpu).of(JobKey{123456, "nightly"}).guarantee_bytes == 4 * gib);
  CHECK(of(Resource::pool).of(JobKey{123456, "nightly"}).limit_bytes == 20 * gib);
  CHECK(of(Resource::dram).of(JobKey{123456, "nightly"}).guarantee_bytes == 0);
  for (const Resource resource : {Resource::dram, Resource::pool, Resource::writes, Resource::gpu})
    CHECK(of(resource).of(123456U).weight == 3);
}

TEST_CASE("CapsForAllUsersAreOfEachTier") {
  const Config config = config_of(R"(
[pool]
size = "100G"
per_user = "30%"
writes_per_day = "1T"
[gpu]
memory = "80G"
per_user = "25%"
)");
  CHECK(shares_of(config, Resource::pool, dram).shares.cap_of(5000) == 30 * gib);
  CHECK(shares_of(config, Resource::writes, dram).shares.cap_of(5000) == 512 * gib);
  CHECK(shares_of(config, Resource::gpu, dram).shares.cap_of(5000) == 20 * gib);
}

TEST_CASE("GuaranteesBeyondAWholeAreRefusedWithTheirLine") {
  const std::string sums = R"([pool]
size = "100G"
writes_per_day = "1T"
[[share]]
user = "123456"
KEY = "60%"
[[share]]
user = "123457"
KEY = "60%"
)";
  const auto with = [&](std::string_view key) {
    std::string text = sums;
    for (std::size_t at; (at = text.find("KEY")) != std::string::npos;) text.replace(at, 3, key);
    return wrong_in(text);
  };
  CHECK_THAT(with("pool_guarantee"), Contains("[[share]] of line 7") && Contains("pool_guarantees") &&
                                         Contains("20.0 GiB more than [pool] size, of 100.0 GiB; lower"));
  CHECK_THAT(with("writes_guarantee"), Contains("[[share]] of line 7") && Contains("writes_guarantees") &&
                                           Contains("[pool] writes_per_day, of 1.0 TiB"));
  CHECK_THAT(with("gpu_guarantee"), Contains("[[share]] of line 7") && Contains("[gpu] memory"));
  CHECK_THAT(with("guarantee"), Contains("more than the DRAM budget of 8.0 GiB"));
}

TEST_CASE("PartsOfAWholeThatNobodySaidAreRefused") {
  const std::string user = "[[share]]\nuser = \"123456\"\n", job = "[[job]]\nname = \"a\"\nuser = \"1\"\n";
  CHECK_THAT(wrong_in(user + "pool_guarantee = \"4G\"\n"),
             Contains("[[share]] of line 1: pool_guarantee is a part of [pool] size, which is not set"));
  CHECK_THAT(wrong_in(user + "pool_limit = \"50%\"\n"), Contains("pool_limit") && Contains("give a size"));
  CHECK_THAT(wrong_in(user + "pool_limit = \"4G\"\n"), Equals(""));
  CHECK_THAT(wrong_in(job + "writes_limit = \"4G\"\n"),
             Contains("[[job]] of line 1: writes_limit is a part of [pool] writes_per_day"));
  CHECK_THAT(wrong_in(user + "gpu_guarantee = \"4G\"\n"), Contains("gpu_guarantee is a size"));
  CHECK_THAT(wrong_in("[gpu]\nmemory = \"40G\"\n" + user + "gpu_guarantee = \"4G\"\n"), Equals(""));
  CHECK_THAT(wrong_in(user + "gpu_guarantee = \"50%\"\ngpu_limit = \"25%\"\n"),
             Contains("gpu_guarantee of 512.0 GiB is more than the gpu_limit"));
}

TEST_CASE("NoGuaranteeOfAnyTierIsGivenToAnUnknownNumber") {
  const auto error = [](std::string_view text) { return parse_config(text, "t.toml", {}).error; };
  CHECK_THAT(error("[[share]]\ngroup = \"daemon\"\ngpu_guarantee = \"5%\"\n"),
             Contains("cannot have a guarantee each"));
  CHECK_THAT(error("[[job]]\nname = \"a*\"\nuser = \"1\"\npool_guarantee = \"5%\"\n"),
             Contains("a guarantee belongs to one job"));
  CHECK_THAT(error("[[share]]\nuser = \"1\"\ngpu_guaranty = \"5%\"\n"),
             Contains("unknown key \"gpu_guaranty\"") && Contains("gpu_guarantee"));
  CHECK_THAT(error("[[share]]\nuser = \"1\"\ngpu_limit = \"lots\"\n"), Contains("share.gpu_limit"));
}

TEST_CASE("RulesOfTiersSurviveBeingWrittenDown") {
  const Config config = config_of(R"([pool]
per_user = "40%"
[gpu]
memory = "70%"
per_user = "60%"
lend_idle = "yes"
[[share]]
user = "123456"
pool_limit = "4G"
gpu_guarantee = "25%"
[[group]]
name = "daemon"
writes_limit = "5%"
[[job]]
name = "a"
user = "123456"
gpu_limit = "50%"
)");
  const Config again = config_of(to_toml(config));
  REQUIRE(again.shares.size() == 1);
  CHECK(again.shares[0].pool == config.shares[0].pool);
  CHECK(again.shares[0].gpu == config.shares[0].gpu);
  CHECK(again.groups[0].writes == config.groups[0].writes);
  CHECK(again.jobs[0].gpu == config.jobs[0].gpu);
  CHECK(again.pool_per_user == config.pool_per_user);
  CHECK(again.gpu_memory == config.gpu_memory);
  CHECK(again.gpu_per_user == config.gpu_per_user);
  CHECK(again.gpu_lends_idle);
}

TEST_CASE("TiersThatLeaveNothingAreRefused") {
  const TemporaryDirectory directory;
  const auto error = [&](std::string_view text) {
    Config config = config_of(text);
    config.dram = {Amount::Unit::bytes, 64 * mib};
    config.pool_directory = directory.path();
    return check_settings(config, false);
  };
  CHECK_THAT(error(""), Equals(""));
  CHECK_THAT(error("[gpu]\nmemory = \"1M\"\n"), Contains("[gpu] memory: nothing fits into 1.0 MiB"));
  CHECK_THAT(error("[gpu]\nper_user = \"1M\"\n"), Contains("[gpu] per_user"));
  CHECK_THAT(error("[pool]\nper_user = \"1M\"\n"), Contains("[pool] per_user"));
}
