// Of whom the rules speak, and what they give. The users and groups are those that every system has.
#include "daemon/settings/share_rules.h"

#include <pwd.h>
#include <catch2/catch.hpp>

#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using Catch::Matchers::Contains;

namespace {

using tests::gib;
using tests::mib;

constexpr std::uint64_t budget = 8 * gib;

ShareRule of_user(const std::string& name) {
  ShareRule rule;
  rule.user = name;
  rule.line = 7;
  return rule;
}

ShareRule of_group(const std::string& name, std::uint32_t weight) {
  ShareRule rule;
  rule.group = name;
  rule.weight = weight;
  return rule;
}

std::string error_of(const std::vector<ShareRule>& rules) { return resolve_shares(rules, budget).error; }

}  // namespace

TEST_CASE("UsersAreNamedOrNumbered") {
  ShareRule named = of_user("daemon"), numbered = of_user("123456");
  named.guarantee = wire::Amount::percent(25);
  numbered.limit = wire::Amount{wire::Amount::Unit::bytes, gib};
  numbered.weight = 5;
  const SharesResult result = resolve_shares({named, numbered}, budget);
  REQUIRE(result.error.empty());
  const passwd* const daemon_user = ::getpwnam("daemon");
  REQUIRE(daemon_user != nullptr);
  CHECK(result.shares.of(daemon_user->pw_uid).guarantee_bytes == 2 * gib);
  CHECK(result.shares.of(123456).limit_bytes == gib);
  CHECK(result.shares.of(123456).weight == 5);
  CHECK(result.shares.of(654321).weight == 1);
}

TEST_CASE("MembersOfAGroupHaveItsShareUnlessTheirOwnIsSaid") {
  const passwd* const daemon_user = ::getpwnam("daemon");  // whose first group has its name
  REQUIRE(daemon_user != nullptr);
  const uid_t uid = daemon_user->pw_uid;
  CHECK(resolve_shares({of_group("daemon", 4), of_group("daemon", 5)}, budget).shares.of(uid).weight == 4);
  ShareRule own = of_user("daemon");
  own.weight = 2;
  CHECK(resolve_shares({of_group("daemon", 4), own}, budget).shares.of(uid).weight == 2);
}

TEST_CASE("RulesThatCannotHoldAreRefused") {
  CHECK_THAT(error_of({of_user("no-such-user")}), Contains("line 7") && Contains("no-such-user"));
  CHECK_THAT(error_of({of_group("no-such-group", 1)}), Contains("no-such-group"));
  CHECK_THAT(error_of({of_user("root"), of_user("0")}), Contains("has a share already"));
  ShareRule rule = of_user("root"), other = of_user("1");
  rule.guarantee = wire::Amount::percent(60);
  rule.limit = wire::Amount::percent(50);
  CHECK_THAT(error_of({rule}), Contains("4.8 GiB") && Contains("4.0 GiB"));
  rule.limit.reset();
  other.guarantee = wire::Amount::percent(60);
  CHECK_THAT(error_of({rule, other}), Contains("1.6 GiB more than the DRAM budget of 8.0 GiB"));
  rule.guarantee.reset();
  rule.limit = wire::Amount{wire::Amount::Unit::bytes, 31 * mib};
  CHECK_THAT(error_of({rule}), Contains("31.0 MiB") && Contains("32.0 MiB"));
}
