// Where metrics may be served: what reads as an address, and what other machines could reach.
#include "daemon/settings/metrics_rule.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <catch2/catch.hpp>
#include <cstring>

#include "daemon/settings/config.h"
#include "daemon/settings/settings_check.h"

using namespace terrace::daemon;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

std::string address_error(const std::string& value) {
  return parse_config("[metrics]\nlisten = \"" + value + "\"\n", "t.toml", Config{}).error;
}

}  // namespace

TEST_CASE("MetricsAreOffUntilAnAddressIsGiven") {
  CHECK(Config{}.metrics.listen.empty());
  CHECK(parse_config("[metrics]\njobs = 7\n", "t.toml", Config{}).config.metrics == MetricsRule{"", 7});
}

TEST_CASE("AddressesOfThisMachineAloneAreTaken") {
  for (const char* text :
       {"/run/terrace/metrics.sock", "127.0.0.1:9477", "127.1.2.3:1", "[::1]:65535", "localhost:9477"})
    CHECK_THAT(address_error(text), Equals(""));
  CHECK(parse_metrics_address("/run/m.sock").is_unix());
  const MetricsAddress four = parse_metrics_address("localhost:9477");
  sockaddr_in address;
  std::memcpy(&address, &four.address, sizeof address);
  CHECK(ntohs(address.sin_port) == 9477);
  CHECK(ntohl(address.sin_addr.s_addr) == INADDR_LOOPBACK);
  CHECK(four.bytes == sizeof address);
}

TEST_CASE("AddressesThatOtherMachinesReachAreRefused") {
  for (const char* text : {"0.0.0.0:9477", "[::]:9477", "192.168.1.5:9477", "[2001:db8::1]:80",
                           "[::ffff:10.0.0.1]:80", "[fe80::1]:80", "128.0.0.1:1", "126.255.255.255:1"})
    CHECK_THAT(address_error(text), StartsWith("t.toml:2: metrics.listen: ") && Contains("other machines") &&
                                        Contains("127.0.0.1:PORT"));
}

TEST_CASE("WhatIsNoAddressSaysWhatIs") {
  for (const char* text :
       {"9477", "metrics.sock", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x",
        "127.0.0.1:", ":9477", "gpu01:9477", "::1:9477", "[::1:9477", "127.0.0.1:80 ", "[]:80"})
    CHECK_THAT(address_error(text), StartsWith("t.toml:2: ") && Contains("127.0.0.1:PORT"));
  CHECK_THAT(address_error("/" + std::string(200, 'x')), Contains("201 characters"));
}

TEST_CASE("JobsToTellApartAreANumberWithinBounds") {
  const auto error = [](const char* value) {
    return parse_config(std::string("[metrics]\njobs = ") + value + "\n", "t.toml", Config{}).error;
  };
  CHECK_THAT(error("1000"), Equals(""));
  for (const char* value : {"0", "1001", "-1"}) CHECK_THAT(error(value), Contains("from 1 to 1000"));
  for (const char* value : {"\"5\"", "1.5", "true"})
    CHECK_THAT(error(value), Contains("whole number without quotes"));
}

TEST_CASE("MetricsSettingsAreWrittenAndReadBack") {
  Config config;
  config.metrics = {"/run/m.sock", 12};
  const ConfigResult back = parse_config(to_toml(config), "back.toml", Config{});
  CHECK(back.error.empty());
  CHECK(back.config.metrics == config.metrics);
}

TEST_CASE("APortIsWarnedOfWhereTheServiceHasNoNetwork") {
  Config config;
  config.metrics.listen = "127.0.0.1:9477";
  CHECK_THAT(warning_for_service(config), Contains("PrivateNetwork") && Contains("terraced-metrics.socket"));
  config.metrics.listen = "/run/terrace/metrics.sock";
  CHECK_THAT(warning_for_service(config), Equals(""));
}
