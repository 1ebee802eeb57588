// The settings file: what it may say, and each thing it may not, with the line and the remedy in the message.
#include "daemon/settings/config.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

using namespace terrace::daemon;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::string error_of(const std::string& text) { return parse_config(text, "t.toml", Config{}).error; }

}  // namespace

TEST_CASE("every key reaches its setting") {
  const auto result = parse_config(R"([daemon]
socket = "/run/x.sock"
group = "terrace"
[budget]
dram = "64G"
[pool]
directory = "/mnt/nvme"
size = "512G"
[planner]
policy = "joint"
[log]
level = "debug"
)",
                                   "t.toml", Config{});
  REQUIRE(result.error.empty());
  CHECK(result.config.socket == "/run/x.sock");
  CHECK(result.config.group == "terrace");
  CHECK(result.config.dram == Amount{Amount::Unit::bytes, 64ULL << 30});
  CHECK(result.config.pool_directory == "/mnt/nvme");
  CHECK(result.config.pool_bytes == 512ULL << 30);
  CHECK(result.config.policy == "joint");
  CHECK(result.config.log_level == "debug");
}

TEST_CASE("what the file does not mention stays") {
  Config base;
  base.pool_directory = "/base";
  const auto result = parse_config("[budget]\ndram = \"50%\"\n", "t.toml", base);
  REQUIRE(result.error.empty());
  CHECK(result.config.pool_directory == "/base");
  CHECK(result.config.dram == Amount::percent(50));
  CHECK(error_of("").empty());
}

TEST_CASE("UnknownKeyIsNamedWithItsLineAndTheKnownOnes") {
  const auto error = error_of("[pool]\n\ndir = \"/x\"\n");
  CHECK_THAT(error, StartsWith("t.toml:3: ") && Contains("\"dir\"") && Contains("directory, size"));
}

TEST_CASE("UnknownTableIsNamedWithTheKnownOnes") {
  CHECK_THAT(error_of("[pools]\n"), StartsWith("t.toml:1: ") && Contains("\"pools\"") && Contains("[pool]"));
}

TEST_CASE("KeyOutsideATableIsRefused") {
  CHECK_THAT(error_of("dram = \"1G\"\n"), StartsWith("t.toml:1: ") && Contains("\"dram\""));
}

TEST_CASE("WrongTypeIsRefused") {
  const auto* value = GENERATE("16", "true", "[\"16G\"]", "1.5", "{}", "2020-01-01");
  CAPTURE(value);
  CHECK_THAT(error_of(std::string("[budget]\ndram = ") + value + "\n"),
             StartsWith("t.toml:2: ") && Contains("must be a string"));
}

TEST_CASE("ArrayOfTablesIsRefused") {
  CHECK_THAT(error_of("[[pool]]\nsize = \"1G\"\n"), StartsWith("t.toml:1: "));
}

TEST_CASE("BadSizeSaysWhatIsASize") {
  CHECK_THAT(error_of("[pool]\nsize = \"big\"\n"),
             StartsWith("t.toml:2: ") && Contains("'big'") && Contains("1.5g"));
}

TEST_CASE("UnknownPolicyIsNamedWithTheKnownOnes") {
  CHECK_THAT(error_of("[planner]\npolicy = \"lru\"\n"), StartsWith("t.toml:2: ") && Contains("\"lru\"") &&
                                                            Contains("sentinel_interval") &&
                                                            Contains("reactive"));
}

TEST_CASE("PercentageOfThePoolIsRefused") {
  CHECK_THAT(error_of("[pool]\nsize = \"80%\"\n"), Contains("is not a size"));
}

TEST_CASE("BudgetOver100PercentIsRefused") {
  CHECK_THAT(error_of("[budget]\ndram = \"150%\"\n"), StartsWith("t.toml:2: ") && Contains("at most 100%"));
}

TEST_CASE("RelativePathsAreRefused") {
  CHECK_THAT(error_of("[daemon]\nsocket = \"x.sock\"\n"), Contains("absolute"));
  CHECK_THAT(error_of("[pool]\ndirectory = \"pool\"\n"), Contains("absolute"));
}

TEST_CASE("SocketPathTooLongForTheKernelIsRefused") {
  CHECK_THAT(error_of("[daemon]\nsocket = \"/" + std::string(120, 'x') + "\"\n"), Contains("121 characters"));
}

TEST_CASE("UnknownLogLevelListsTheKnownOnes") {
  CHECK_THAT(error_of("[log]\nlevel = \"loud\"\n"), Contains("error, warning, info or debug"));
}

TEST_CASE("BrokenTomlNamesTheLine") {
  CHECK_THAT(error_of("[log]\nlevel = \n"), StartsWith("t.toml:2: ") && Contains("not valid TOML"));
  CHECK_THAT(error_of("[log]\n[log]\n"), StartsWith("t.toml:2: "));
}

TEST_CASE("ControlCharactersAreRefused") {
  const auto* text = GENERATE("\n[\x1f", "\n[pool]\x01", "\n\x7f", "\n# \x1b[31m", "\n# a\rb = \"c\"");
  CHECK_THAT(error_of(text), StartsWith("t.toml:2: ") && Contains("control character"));
}

TEST_CASE("ForeignCharactersAreWelcomeOnlyInComments") {
  const auto* text = GENERATE("\n\xd0\xb2 = \"1G\"", "\n[pool\xc2\xa0]", "\nx = \"\\\"\" \xe2\x80\x83",
                              "\n\xff", "\nx = \"#\xd0\xb2\"", "\n-=-\"'\xd1\xbd-\"");
  CHECK_THAT(error_of(text), StartsWith("t.toml:2: ") && Contains("ASCII"));
  const auto result =
      parse_config("# \xd0\xb2 it's\n[pool] # \xd0\xb2\ndirectory = \"/caf\\u00e9\"\n", "t.toml", Config{});
  CHECK(result.error.empty());
  CHECK(result.config.pool_directory == "/caf\xc3\xa9");
}

TEST_CASE("StringsOverSeveralLinesAreRefused") {
  const auto* text = GENERATE("\n\"\"\"#\n#\\\xef\xbb\xaf\\+=", "\nx = '''a\nb'''", "\nx = \"\"\"\"\"\"");
  CHECK_THAT(error_of(text), StartsWith("t.toml:2: ") && Contains("several lines"));
}

TEST_CASE("TextThatBreaksTheParsersAssertionsIsAnError") {
  CHECK_THAT(error_of("[[[["), StartsWith("t.toml:1: ") && Contains("not valid TOML"));
}

TEST_CASE("HugeFileIsRefused") { CHECK_THAT(error_of(std::string(100'000, '#')), Contains("64 KiB")); }

TEST_CASE("SizesReadAsOnTheCommandLine") {
  const auto result = parse_config(
      "[budget]\ndram = \"60.5%\"\nper_user = \"1.5g\"\n[pool]\nsize = \"1.5gib\"\n", "t.toml", Config{});
  REQUIRE(result.error.empty());
  CHECK(result.config.dram.of(1000) == 605);
  CHECK(result.config.per_user.of(1) == 3ULL << 29);
  CHECK(result.config.pool_bytes == 3ULL << 29);
  const auto back = parse_config(to_toml(result.config), "t.toml", Config{});
  CHECK(back.config.dram == result.config.dram);
}

TEST_CASE("SharesAreReadAndWrittenBack") {
  const auto result = parse_config(
      "[[share]]\nuser = \"ada\"\nweight = 3\nguarantee = \"25%\"\nlimit = \"2g\"\n[[share]]\ngroup = "
      "\"lab\"\n",
      "t.toml", Config{});
  REQUIRE(result.error.empty());
  REQUIRE(result.config.shares.size() == 2);
  const ShareRule& ada = result.config.shares[0];
  CHECK(ada.user == "ada");
  CHECK(ada.weight == 3);
  CHECK(ada.guarantee->of(1000) == 250);
  CHECK(ada.limit->of(1) == 2ULL << 30);
  CHECK(ada.line == 1);
  CHECK(result.config.shares[1].group == "lab");
  CHECK(result.config.shares[1].weight == 1);
  const auto back = parse_config(to_toml(result.config), "t.toml", Config{});
  REQUIRE(back.config.shares.size() == 2);
  CHECK(back.config.shares[0].guarantee == ada.guarantee);
  CHECK(back.config.shares[0].limit == ada.limit);
}

TEST_CASE("SharesThatSayNothingClearAreRefused") {
  const auto of = [](const std::string& text) { return error_of("[[share]]\n" + text + "\n"); };
  CHECK_THAT(of("weight = 3"), StartsWith("t.toml:1: ") && Contains("name one user or one group"));
  CHECK_THAT(of("user = \"a\"\ngroup = \"b\""), Contains("name one user or one group"));
  CHECK_THAT(of("group = \"b\"\nguarantee = \"1g\""), Contains("give the group one guarantee in [[group]]"));
  CHECK_THAT(of("user = \"\""), StartsWith("t.toml:2: ") && Contains("empty"));
  CHECK_THAT(of("user = 7"), Contains("string in quotes"));
  CHECK_THAT(of("user = \"a\"\nwait = 3"),
             StartsWith("t.toml:3: ") && Contains("\"wait\"") && Contains("weight"));
  CHECK_THAT(of("user = \"a\"\nlimit = \"much\""), Contains("share.limit") && Contains("not a size"));
  for (const char* weight : {"0", "1001", "-1", "1.5", "\"3\""})
    CHECK_THAT(of(std::string("user = \"a\"\nweight = ") + weight), Contains("from 1 to 1000"));
  CHECK_THAT(error_of("[share]\nuser = \"a\"\n"), Contains("[[share]]"));
  CHECK_THAT(error_of("share = [1]\n"), Contains("[[share]]"));
  CHECK_THAT(error_of("[shar]\n"), Contains("known tables") && Contains("[[share]]"));
}

TEST_CASE("an error leaves nothing of the file in force") {
  const auto result = parse_config("[log]\nlevel = \"debug\"\n[pool]\nsize = \"G\"\n", "t.toml", Config{});
  CHECK_FALSE(result.error.empty());
  CHECK(result.config.log_level == Config{}.log_level);
}

TEST_CASE("a missing file is an error that names it") {
  CHECK_THAT(load_config("/nonexistent/t.toml", Config{}).error, StartsWith("/nonexistent/t.toml: "));
  CHECK_FALSE(load_config("/", Config{}).error.empty());
}

TEST_CASE("what is written for a successor reads back the same") {
  Config config;
  config.socket = "/tmp/a \"quoted\".sock";
  config.dram = *terrace::wire::parse_amount("3G");
  config.pool_bytes = 12345;
  config.pool_directory = "/pool";
  config.encrypts_pool = true;
  config.log_level = "error";
  config.state = "/state";
  config.writes_per_day = 54321;
  config.writes_per_user = Amount::percent(30);
  const auto back = parse_config(to_toml(config), "t.toml", Config{});
  REQUIRE(back.error.empty());
  CHECK(back.config.socket == config.socket);
  CHECK(back.config.dram == config.dram);
  CHECK(back.config.pool_bytes == config.pool_bytes);
  CHECK(back.config.pool_directory == config.pool_directory);
  CHECK(back.config.encrypts_pool);
  CHECK(back.config.log_level == config.log_level);
  CHECK(back.config.state == config.state);
  CHECK(back.config.writes_per_day == config.writes_per_day);
  CHECK(back.config.writes_per_user == config.writes_per_user);
}

TEST_CASE("a pool is encrypted or not and nothing else") {
  const auto parsed = [](const char* value) {
    return parse_config(std::string("[pool]\nencrypt = ") + value + "\n", "t.toml", Config{});
  };
  CHECK_FALSE(Config{}.encrypts_pool);
  CHECK(parsed("\"yes\"").config.encrypts_pool);
  CHECK_FALSE(parsed("\"no\"").config.encrypts_pool);
  CHECK_THAT(parsed("\"aes\"").error, Contains("pool.encrypt") && Contains("\"yes\" nor \"no\""));
  CHECK_THAT(parsed("true").error, Contains("\"encrypt\" in [pool] must be a string"));
}

TEST_CASE("what may be written in a day is a size and of it a user's part is an amount") {
  const auto error_of = [](const char* line) {
    return parse_config(std::string("[pool]\n") + line, "t.toml", Config{}).error;
  };
  CHECK(error_of("writes_per_day = \"2T\"\nwrites_per_user = \"25%\"\n").empty());
  CHECK_THAT(error_of("writes_per_day = \"50%\""), Contains("t.toml:2") && Contains("writes_per_day"));
  CHECK_THAT(error_of("writes_per_day = 5"), Contains("must be a string"));
  CHECK_THAT(error_of("writes_per_user = \"0%\""), Contains("writes_per_user"));
  CHECK_THAT(parse_config("[daemon]\nstate = \"here\"", "t.toml", Config{}).error, Contains("absolute path"));
}

TEST_CASE("the example that is installed says the defaults, and the group that is installed with it") {
  const auto example = load_config(TERRACE_SOURCE_DIR "/daemon/terraced.toml", Config{});
  REQUIRE(example.error.empty());
  Config expected;
  expected.group = "terrace";  // which the package makes
  CHECK(to_toml(example.config) == to_toml(expected));
}

TEST_CASE("GroupsAreReadAndWritten") {
  const auto result = parse_config(
      "[budget]\nper_job = \"25%\"\nlend_idle = \"no\"\n"
      "[[group]]\nname = \"lab\"\nweight = 4\nguarantee = \"50%\"\nlimit = \"64G\"\n"
      "[[group]]\nname = \"guests\"\n",
      "t.toml", Config{});
  REQUIRE(result.error.empty());
  CHECK(result.config.per_job == Amount::percent(25));
  CHECK_FALSE(result.config.lends_idle);
  REQUIRE(result.config.groups.size() == 2);
  const GroupRule& lab = result.config.groups[0];
  CHECK(lab.name == "lab");
  CHECK(lab.weight == 4U);
  CHECK(lab.guarantee == Amount::percent(50));
  CHECK(lab.limit == Amount{Amount::Unit::bytes, 64ULL << 30});
  CHECK(lab.line == 4);
  CHECK_FALSE(result.config.groups[1].weight);
  const auto back = parse_config(to_toml(result.config), "t.toml", Config{});
  REQUIRE(back.error.empty());
  REQUIRE(back.config.groups.size() == 2);
  CHECK(back.config.groups[0].weight == 4U);
  CHECK(back.config.groups[0].guarantee == lab.guarantee);
  CHECK(back.config.groups[1].name == "guests");
  CHECK_FALSE(back.config.groups[1].weight);
  CHECK(back.config.per_job == Amount::percent(25));
  CHECK_FALSE(back.config.lends_idle);
}

TEST_CASE("GroupsThatSayNothingClearAreRefused") {
  const auto of = [](const std::string& text) { return error_of("[[group]]\n" + text + "\n"); };
  CHECK_THAT(of("weight = 3"), StartsWith("t.toml:1: ") && Contains("name = \"NAME\""));
  CHECK_THAT(of("name = \"a\"\nuser = \"b\""), StartsWith("t.toml:3: ") && Contains("known there: name"));
  CHECK_THAT(of("name = \"\""), Contains("group.name") && Contains("empty"));
  CHECK_THAT(of("name = \"a\"\nlimit = \"much\""), Contains("group.limit") && Contains("not a size"));
  CHECK_THAT(of("name = \"a\"\nweight = 0"), Contains("from 1 to 1000"));
  CHECK_THAT(error_of("[group]\nname = \"a\"\n"), Contains("[[group]]"));
  CHECK_THAT(error_of("[budget]\nlend_idle = \"maybe\"\n"), Contains("\"yes\" nor \"no\""));
}

TEST_CASE("JobsAreReadAndWritten") {
  const auto result = parse_config(
      "[[job]]\nname = \"nightly\"\nuser = \"ada\"\nweight = 4\nguarantee = \"50%\"\nlimit = \"64G\"\n"
      "[[job]]\nname = \"*\"\ngroup = \"lab\"\n",
      "t.toml", Config{});
  REQUIRE(result.error.empty());
  REQUIRE(result.config.jobs.size() == 2);
  const JobRule& nightly = result.config.jobs[0];
  CHECK(nightly.name == "nightly");
  CHECK(nightly.user == "ada");
  CHECK(nightly.weight == 4);
  CHECK(nightly.guarantee == Amount::percent(50));
  CHECK(nightly.limit == Amount{Amount::Unit::bytes, 64ULL << 30});
  CHECK(nightly.line == 1);
  CHECK(result.config.jobs[1].group == "lab");
  CHECK(result.config.jobs[1].weight == 1);
  const auto back = parse_config(to_toml(result.config), "t.toml", Config{});
  REQUIRE(back.error.empty());
  REQUIRE(back.config.jobs.size() == 2);
  CHECK(back.config.jobs[0].name == nightly.name);
  CHECK(back.config.jobs[0].user == nightly.user);
  CHECK(back.config.jobs[0].guarantee == nightly.guarantee);
  CHECK(back.config.jobs[0].limit == nightly.limit);
  CHECK(back.config.jobs[1].name == "*");
  CHECK(back.config.jobs[1].group == "lab");
}

TEST_CASE("JobsThatSayNothingClearAreRefused") {
  const auto of = [](const std::string& text) { return error_of("[[job]]\n" + text + "\n"); };
  CHECK_THAT(of("user = \"a\""), StartsWith("t.toml:1: ") && Contains("name = \"NAME\""));
  CHECK_THAT(of("name = \"a\""), Contains("chooses its own name") && Contains("user = \"NAME\""));
  CHECK_THAT(of("name = \"a\"\nuser = \"b\"\ngroup = \"c\""), Contains("chooses its own name"));
  CHECK_THAT(of("name = \"a\"\ngroup = \"b\"\nguarantee = \"1g\""), Contains("belongs to one job"));
  CHECK_THAT(of("name = \"a*\"\nuser = \"b\"\nguarantee = \"1g\""), Contains("belongs to one job"));
  CHECK_THAT(of("name = \"" + std::string(64, 'a') + "\"\nuser = \"b\""),
             Contains("64 bytes") && Contains("63 at most"));
  CHECK_THAT(of("name = \"\"\nuser = \"b\""), Contains("job.name") && Contains("empty"));
  CHECK_THAT(of("name = \"a\"\nuser = \"b\"\nlimit = \"much\""), Contains("job.limit"));
  CHECK_THAT(of("name = \"a\"\nuser = \"b\"\nweight = 0"), Contains("from 1 to 1000"));
  CHECK_THAT(of("name = \"a\"\nuser = \"b\"\nwait = 1"), Contains("known there: name, user, group"));
  CHECK_THAT(error_of("[job]\nname = \"a\"\n"), Contains("[[job]]"));
  CHECK_THAT(error_of("[jo]\n"), Contains("known tables") && Contains("[[job]]"));
}

TEST_CASE("tiers reach their settings and come back from the file form") {
  const auto result = parse_config(R"([[tier]]
kind = "nvm"
size = "512G"
directory = "/mnt/pmem"
[[tier]]
kind = "compressed"
size = "20%"
[[tier]]
kind = "nvme"
size = "1T"
directory = "/nvme"
)",
                                   "t.toml", Config{});
  REQUIRE(result.error.empty());
  CHECK(result.config.tiers.compressed == Amount::percent(20));
  REQUIRE(result.config.tiers.nvm);
  CHECK(result.config.tiers.nvm->bytes == 512ULL << 30);
  CHECK(result.config.tiers.nvm->directory == "/mnt/pmem");
  CHECK(result.config.tiers.nvm->line == 1);
  CHECK(result.config.pool_directory == "/nvme");
  CHECK(result.config.pool_bytes == 1ULL << 40);
  auto again = parse_config(to_toml(result.config), "again.toml", Config{});
  REQUIRE(again.error.empty());
  again.config.tiers.nvm->line = 1;
  CHECK(again.config.tiers == result.config.tiers);
  CHECK(again.config.pool_directory == "/nvme");
  const auto nodes =
      parse_config("[[tier]]\nkind = \"nvm\"\nsize = \"4M\"\nnodes = \"1-2\"\n", "t.toml", Config{});
  REQUIRE(nodes.error.empty());
  CHECK(nodes.config.tiers.nvm->nodes.has(2));
  auto same = parse_config(to_toml(nodes.config), "again.toml", Config{});
  same.config.tiers.nvm->line = 1;
  CHECK(same.config.tiers == nodes.config.tiers);
  CHECK(parse_config("", "t.toml", result.config).config.tiers == result.config.tiers);  // not mentioned
}

TEST_CASE("EachMistakeInATierIsNamedWithItsLineAndTheRemedy") {
  const auto of = [](const std::string& text) { return error_of("\n[[tier]]\n" + text + "\n"); };
  CHECK_THAT(of("size = \"4G\""),
             StartsWith("t.toml:2: ") && Contains("say which, with kind = \"compressed\", \"nvm\""));
  CHECK_THAT(of("kind = \"optane\""),
             StartsWith("t.toml:2: ") && Contains("\"optane\" is no kind of tier; write"));
  CHECK_THAT(of("kind = \"nvm\""), Contains("say how much nvm there is, with size"));
  CHECK_THAT(of("kind = \"nvm\"\nsize = 4"),
             StartsWith("t.toml:4: ") && Contains("must be a string in quotes"));
  CHECK_THAT(of("kind = \"nvm\"\nsize = \"20%\""), StartsWith("t.toml:2: ") && Contains("20%"));
  CHECK_THAT(of("kind = \"nvm\"\nsize = \"2M\""), Contains("give at least 4194304B"));
  CHECK_THAT(of("kind = \"nvm\"\nsize = \"5T\""), Contains("more than the most of 4T"));
  CHECK_THAT(of("kind = \"nvm\"\nsize = \"4G\"\ndirectory = \"pmem\""),
             Contains("write one that begins with /"));
  CHECK_THAT(of("kind = \"nvm\"\nsize = \"4G\"\nnodes = \"all\""), Contains("write a list such as \"1\""));
  CHECK_THAT(of("kind = \"nvm\"\nsize = \"4G\"\nnodes = \"1\"\ndirectory = \"/a\""),
             Contains("leave out \"directory\" or \"nodes\""));
  CHECK_THAT(of("kind = \"nvm\"\nsize = \"4G\"\nspeed = \"1G\""),
             StartsWith("t.toml:5: ") && Contains("known there: kind, size, directory, nodes"));
  CHECK_THAT(of("kind = \"compressed\"\nsize = \"60%\""), Contains("give at most 50%"));
  CHECK_THAT(of("kind = \"compressed\"\nsize = \"0B\""), Contains("give more"));
  CHECK_THAT(of("kind = \"compressed\"\nsize = \"20%\"\ndirectory = \"/a\""),
             Contains("compressed tiers have no \"directory\""));
  CHECK_THAT(of("kind = \"nvme\"\nsize = \"4G\""), Contains("say where"));
  CHECK_THAT(of("kind = \"nvme\"\ndirectory = \"/a\"\n[pool]\ndirectory = \"/b\""),
             StartsWith("t.toml:2: ") &&
                 Contains("[pool] has the pool's directory as well; leave one of the two out"));
  CHECK_THAT(of("kind = \"nvm\"\nsize = \"4G\"\n[[tier]]\nkind = \"nvm\"\nsize = \"4G\""),
             StartsWith("t.toml:5: ") && Contains("nvm stands there twice"));
  CHECK_THAT(error_of("[tier]\nkind = \"nvm\"\n"), StartsWith("t.toml:1: ") && Contains("in two brackets"));
}
