#include "daemon/settings/options.h"

#include <catch2/catch.hpp>

#include "tests/daemon/temporary_directory.h"

using namespace terrace::daemon;
using Catch::Matchers::Contains;

namespace {

std::string error_of_words(const std::vector<std::string>& words) { return parse_options(words).error; }

}  // namespace

TEST_CASE("options come with a space or an equals sign") {
  const auto result =
      parse_options({"--private", "--socket", "/tmp/x.sock", "--dram=2G", "--per-user", "25%",
                     "--per-job=20%", "--pool", "/pool", "--pool-size=4G", "--log-level=debug",
                     "--writes-per-day", "2T", "--writes-per-user=40%", "--state", "/state"});
  REQUIRE(result.error.empty());
  CHECK(result.options.is_private);
  CHECK(result.options.config.socket == "/tmp/x.sock");
  CHECK(result.options.config.dram == Amount{Amount::Unit::bytes, 2ULL << 30});
  CHECK(result.options.config.per_user == Amount::percent(25));
  CHECK(result.options.config.per_job == Amount::percent(20));
  CHECK(result.options.config.pool_directory == "/pool");
  CHECK(result.options.config.pool_bytes == 4ULL << 30);
  CHECK(result.options.config.log_level == "debug");
  CHECK(result.options.config.writes_per_day == 2ULL << 40);
  CHECK(result.options.config.writes_per_user == Amount::percent(40));
  CHECK(result.options.config.state == "/state");
}

TEST_CASE("the command line wins over the file, in any order") {
  const terrace::tests::TemporaryDirectory directory;
  directory.write("t.toml", "[budget]\ndram = \"1G\"\nper_user = \"10%\"\n[log]\nlevel = \"error\"\n");
  const auto result = parse_options({"--dram", "2G", "--config", directory / "t.toml", "--per-user=1G"});
  REQUIRE(result.error.empty());
  CHECK(result.options.config.per_user == Amount{Amount::Unit::bytes, 1ULL << 30});
  CHECK(result.options.config.dram.value == 2ULL << 30);
  CHECK(result.options.config.log_level == "error");
  CHECK(result.options.config_path == directory / "t.toml");
}

TEST_CASE("wrong command lines say what is wrong") {
  CHECK_THAT(error_of_words({"--dran", "2G"}), Contains("--dran"));
  CHECK_THAT(error_of_words({"--dram"}), Contains("--dram SIZE|PCT%"));
  CHECK_THAT(error_of_words({"--dram", "lots"}), Contains("--dram") && Contains("1.5g"));
  CHECK_THAT(error_of_words({"--per-user", "0%"}),
             Contains("--per-user") && Contains("more than 0% and at most 100%"));
  CHECK_THAT(error_of_words({"--private=yes"}), Contains("takes no value"));
  CHECK_THAT(error_of_words({"--config", "/nonexistent.toml"}), Contains("/nonexistent.toml"));
  CHECK_THAT(error_of_words({"stray"}), Contains("stray"));
}

TEST_CASE("the help names every public option") {
  const std::string text = usage_text();
  for (const char* option :
       {"--config FILE", "--socket PATH", "--private", "--per-user SIZE|PCT%", "--pool-size SIZE",
        "--writes-per-day SIZE", "--writes-per-user SIZE|PCT%", "--state DIR", "--check-config"})
    CHECK_THAT(text, Contains(option));
}
