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

std::string error_of(const std::vector<ShareRule>& rules) {
  return resolve_shares(rules, {}, {}, budget).error;
}

}  // namespace

TEST_CASE("UsersAreNamedOrNumbered") {
  ShareRule named = of_user("daemon"), numbered = of_user("123456");
  named.guarantee = wire::Amount::percent(25);
  numbered.limit = wire::Amount{wire::Amount::Unit::bytes, gib};
  numbered.weight = 5;
  const SharesResult result = resolve_shares({named, numbered}, {}, {}, budget);
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
  CHECK(
      resolve_shares({of_group("daemon", 4), of_group("daemon", 5)}, {}, {}, budget).shares.of(uid).weight ==
      4);
  ShareRule own = of_user("daemon");
  own.weight = 2;
  CHECK(resolve_shares({of_group("daemon", 4), own}, {}, {}, budget).shares.of(uid).weight == 2);
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

namespace {

GroupRule group_rule(const std::string& name) {
  GroupRule rule;
  rule.name = name;
  rule.line = 9;
  return rule;
}

std::string group_error(const std::vector<GroupRule>& groups, const std::vector<ShareRule>& rules = {}) {
  return resolve_shares(rules, groups, {}, budget).error;
}

}  // namespace

// "daemon" is in the group of that name by his first group; "games" is another of every system.
TEST_CASE("MembersOfAGroupAreInItTogether") {
  GroupRule rule = group_rule("daemon");
  rule.guarantee = wire::Amount::percent(50);
  rule.limit = wire::Amount{wire::Amount::Unit::bytes, 6 * gib};
  rule.weight = 3;
  const SharesResult result = resolve_shares({}, {rule, group_rule("games")}, {}, budget);
  REQUIRE(result.error.empty());
  REQUIRE(result.shares.groups().size() == 2);
  const passwd* const daemon_user = ::getpwnam("daemon");
  REQUIRE(daemon_user != nullptr);
  REQUIRE(result.shares.group_of(daemon_user->pw_uid) == 0U);
  CHECK(result.shares.groups()[0].guarantee_bytes == 4 * gib);
  CHECK(result.shares.groups()[0].limit_bytes == 6 * gib);
  CHECK(result.shares.groups()[0].weight == 3U);
  CHECK_FALSE(result.shares.groups()[1].weight);
}

TEST_CASE("GroupsThatContradictAreRefused") {
  GroupRule rule = group_rule("daemon");
  CHECK_THAT(group_error({group_rule("no-such-group")}), Contains("line 9") && Contains("no-such-group"));
  CHECK_THAT(group_error({rule, rule}), Contains("is there already; remove one"));
  rule.guarantee = wire::Amount::percent(60);
  rule.limit = wire::Amount::percent(50);
  CHECK_THAT(group_error({rule}), Contains("4.8 GiB is more than the limit of 4.0 GiB"));
  rule.limit = wire::Amount{wire::Amount::Unit::bytes, 31 * mib};
  rule.guarantee.reset();
  CHECK_THAT(group_error({rule}), Contains("no job can work in a limit of 31.0 MiB"));

  ShareRule member = of_user("daemon"), outsider = of_user("123456");
  member.guarantee = outsider.guarantee = wire::Amount::percent(50);
  rule.limit = wire::Amount::percent(25);
  CHECK_THAT(group_error({rule}, {member}), Contains("4.0 GiB by name, more than the limit of 2.0 GiB"));
  rule.limit.reset();
  rule.guarantee = wire::Amount::percent(25);
  CHECK_THAT(group_error({rule}, {member}), Contains("4.0 GiB by name, more than the guarantee of 2.0 GiB"));
  rule.guarantee = wire::Amount::percent(75);
  CHECK(group_error({rule}, {member}).empty());  // the member's is a part of the group's
  CHECK_THAT(group_error({rule}, {outsider}), Contains("2.0 GiB more than the DRAM budget of 8.0 GiB"));
}

TEST_CASE("AGuaranteeForNobodyIsRefused") {
  GroupRule roots = group_rule("root");  // the administrator is in no group
  CHECK(group_error({roots}).empty());
  roots.guarantee = wire::Amount::percent(10);
  CHECK_THAT(group_error({roots}), Contains("nobody gets this guarantee"));
}

namespace {

JobRule job_rule(const std::string& name, const std::string& of) {
  JobRule rule;
  rule.name = name;
  rule.user = of;
  rule.line = 5;
  return rule;
}

std::string job_error(const std::vector<JobRule>& jobs, const std::vector<ShareRule>& rules = {},
                      const std::vector<GroupRule>& groups = {}) {
  return resolve_shares(rules, groups, jobs, budget).error;
}

}  // namespace

TEST_CASE("JobsAreOfWhomTheRuleNames") {
  const passwd* const daemon_user = ::getpwnam("daemon");
  REQUIRE(daemon_user != nullptr);
  JobRule one = job_rule("train", "123456"), several = job_rule("t*", "");
  one.guarantee = wire::Amount::percent(25);
  one.limit = wire::Amount::percent(50);
  one.weight = 3;
  several.group = "daemon";
  several.weight = 2;
  const SharesResult result = resolve_shares({}, {}, {one, several}, budget);
  REQUIRE(result.error.empty());
  CHECK(result.shares.of(JobKey{123456, "train"}) == JobShare{3, 2 * gib, 4 * gib});
  CHECK(result.shares.of(JobKey{daemon_user->pw_uid, "train"}).weight == 2);
  CHECK(result.shares.of(JobKey{654321, "train"}).weight == 1);
  CHECK(result.shares.of(123456).guarantee_bytes == 2 * gib);
  several.group = "root";
  CHECK(resolve_shares({}, {}, {several}, budget).shares.of(JobKey{0, "train"}).weight == 1);
}

TEST_CASE("JobsThatContradictAreRefused") {
  CHECK_THAT(job_error({job_rule("a", "no-such-user")}), Contains("line 5") && Contains("no-such-user"));
  JobRule of_nobody = job_rule("a", "");
  of_nobody.group = "no-such-group";
  CHECK_THAT(job_error({of_nobody}), Contains("no-such-group"));
  CHECK_THAT(job_error({job_rule("a*", "1"), job_rule("ab", "1")}),
             Contains("[[job]] of line 5 covers the job \"ab\"") && Contains("move this"));
  CHECK(job_error({job_rule("ab", "1"), job_rule("a*", "1"), job_rule("ab", "2")}).empty());

  JobRule rule = job_rule("a", "1");
  rule.guarantee = wire::Amount::percent(60);
  rule.limit = wire::Amount::percent(50);
  CHECK_THAT(job_error({rule}), Contains("4.8 GiB is more than the limit of 4.0 GiB"));
  rule.limit = wire::Amount{wire::Amount::Unit::bytes, 31 * mib};
  rule.guarantee.reset();
  CHECK_THAT(job_error({rule}), Contains("no job can work in a limit of 31.0 MiB"));
}

TEST_CASE("GuaranteesOfJobsFitIntoTheirUsersAndTheBudget") {
  JobRule one = job_rule("a", "1"), another = job_rule("b", "1");
  one.guarantee = another.guarantee = wire::Amount::percent(40);
  CHECK(job_error({one, another}).empty());
  another.guarantee = wire::Amount::percent(70);
  CHECK_THAT(job_error({one, another}), Contains("819.2 MiB more than the DRAM budget of 8.0 GiB"));
  another.guarantee = one.guarantee;

  ShareRule owner = of_user("1");
  owner.limit = wire::Amount::percent(75);
  CHECK_THAT(job_error({one, another}, {owner}), Contains("6.4 GiB by name, more than the limit of 6.0 GiB"));
  owner.limit.reset();
  owner.guarantee = wire::Amount::percent(75);
  CHECK_THAT(job_error({one, another}, {owner}),
             Contains("6.4 GiB by name, more than the guarantee of 6.0 GiB"));
  owner.guarantee = wire::Amount::percent(90);
  CHECK(job_error({one, another}, {owner}).empty());  // theirs are a part of the user's
  ShareRule outsider = of_user("123456");
  outsider.guarantee = wire::Amount::percent(30);
  CHECK_THAT(job_error({one, another}, {outsider}), Contains("819.2 MiB more than the DRAM budget"));

  JobRule members = job_rule("a", "daemon");
  members.guarantee = wire::Amount::percent(50);
  GroupRule group = group_rule("daemon");
  group.guarantee = wire::Amount::percent(25);
  CHECK_THAT(job_error({members}, {}, {group}),
             Contains("4.0 GiB by name, more than the guarantee of 2.0 GiB"));
  group.guarantee = wire::Amount::percent(75);
  CHECK(job_error({members}, {}, {group}).empty());
}
