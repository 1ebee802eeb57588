#include "tools/cli/words/option_table.h"
#include "tools/cli/words/completion.h"

#include <catch2/catch.hpp>

#include "daemon/sessions/journal.h"

using namespace terrace::cli;

namespace {

struct Split {
  std::vector<std::string> words;
  std::vector<std::string> command;
};

Split split(std::vector<std::string> words) {
  Options options;
  auto command = split_command(*make_option_table(&options), &words);
  return {words, command};
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("CommandBeginsAtTheFirstWordThatIsNoOption") {
  const auto [words, command] = split({"run", "--dram", "2G", "python3", "--dram", "x"});
  CHECK(words == Words{"run", "--dram", "2G"});
  CHECK(command == Words{"python3", "--dram", "x"});
}

TEST_CASE("DoubleDashEndsTheOptionsAndIsRemovedOnce") {
  const auto [words, command] = split({"run", "--summary", "--", "--", "x"});
  CHECK(words == Words{"run", "--summary"});
  CHECK(command == Words{"--", "x"});
}

TEST_CASE("FlagsTakeNoWord") {
  CHECK(split({"run", "--summary", "true"}).command == Words{"true"});
  CHECK(split({"run", "--disable", "true"}).command == Words{"true"});
}

TEST_CASE("ValuesAfterEqualSignsTakeNoWord") {
  CHECK(split({"run", "--dram=2G", "true"}).command == Words{"true"});
}

TEST_CASE("UnknownOptionsAreLeftForTheParserToRefuse") {
  CHECK(split({"run", "--bogus", "true"}).words == Words{"run", "--bogus"});
}

TEST_CASE("OptionWithoutItsValueIsLeftForTheParserToRefuse") {
  CHECK(split({"run", "--dram"}).words == Words{"run", "--dram"});
}

TEST_CASE("OtherVerbsAreNotSplit") { CHECK(split({"jobs", "x"}).words == Words{"jobs", "x"}); }

TEST_CASE("BenchmarksKeepTheirOwnOptions") {
  CHECK(split({"bench", "training", "--quick"}).command == Words{"training", "--quick"});
}

TEST_CASE("PoliciesComeSeparatedOrRepeatedAndReplaceTheDefault") {
  Options options;
  const auto table = make_option_table(&options);
  CHECK(options.plan.policies == Words{"all"});
  table->parse(Words{"bfc", "--policy", "a,b", "--policy", "step.json", "plan"});
  CHECK(options.plan.policies == Words{"a", "b", "bfc"});
  CHECK(options.plan.trace == "step.json");
}

TEST_CASE("ImportNeedsAFile") {
  Options options;
  const auto table = make_option_table(&options);
  CHECK_THROWS_AS(table->parse(Words{"import"}), CLI::RequiredError);
}

TEST_CASE("WatchTakesIntervalAndCount") {
  Options options;
  const auto table = make_option_table(&options);
  table->parse(Words{"5", "2", "--watch", "jobs"});
  CHECK(options.view.watch_given);
  CHECK(options.view.watch == std::vector<double>{2, 5});
}

TEST_CASE("UsageErrorsNameTheRangeInAFewDigits") {
  Words words = GENERATE(Words{"0", "--watch", "jobs"}, Words{"-1", "--seed", "plan"},
                         Words{"1.5", "--seed", "plan"}, Words{"x", "--watch", "jobs"});
  const std::string given = words.front();
  Options options;
  const auto table = make_option_table(&options);
  try {
    table->parse(words);
    FAIL("accepted");
  } catch (const CLI::ParseError& error) {
    CHECK(std::string(error.what()).size() < 100);
    CHECK(std::string(error.what()).find("'" + given + "' is not a") != std::string::npos);
  }
}

TEST_CASE("EmptyValuesAreRefused") {
  Words words = GENERATE(Words{"", "--dram", "run"}, Words{"", "--name", "run"}, Words{"", "--socket", "top"},
                         Words{"", "--pool", "doctor"});
  Options options;
  CHECK_THROWS_AS(make_option_table(&options)->parse(words), CLI::ValidationError);
}

TEST_CASE("ChoicesWithCommasAreToldApart") {
  Options options;
  const auto table = make_option_table(&options);
  CHECK(table->get_subcommand("run")->help().find("TIERS:dram|nvme|dram,nvme") != std::string::npos);
  CHECK_THROWS_AS(table->parse(Words{"nvme,dram", "--offload-tiers", "run"}), CLI::ValidationError);
}

TEST_CASE("ViewsSayThatTheyObeyTheSocketVariable") {
  Options options;
  const auto table = make_option_table(&options);
  const char* verb = GENERATE("status", "jobs", "tiers", "events", "top");
  CHECK(table->get_subcommand(verb)->help().find("TERRACE_SOCKET") != std::string::npos);
}

TEST_CASE("NoMoreEventsAreAskedForThanADaemonKeeps") {
  Options options;
  const auto table = make_option_table(&options);
  CHECK(most_events == terrace::daemon::Journal::capacity);
  table->parse(Words{std::to_string(most_events), "-n", "events"});
  CHECK(options.view.last == most_events);
  CHECK_THROWS_AS(table->parse(Words{std::to_string(most_events + 1), "-n", "events"}), CLI::ValidationError);
}

TEST_CASE("EventsHaveNoRates") {
  Options options;
  const auto table = make_option_table(&options);
  const std::string about = table->get_subcommand("events")->get_option("--watch")->get_description();
  CHECK(about.find("rates") == std::string::npos);
  CHECK(about.find("since") != std::string::npos);
}

TEST_CASE("ColumnsComeSeparatedOrRepeated") {
  Options options;
  const auto table = make_option_table(&options);
  table->parse(Words{"+io", "-o", "+pid,+mover", "-o", "jobs"});
  CHECK(options.view.columns == Words{"+pid", "+mover", "+io"});
}

TEST_CASE("CompletionKnowsEveryVerbAndOption") {
  Options options;
  const auto table = make_option_table(&options);
  const std::string shell = GENERATE(from_range(completion_shells));
  const std::string script = completion_script(*table, shell);
  const std::string before = shell == "fish" ? "-l " : "--";
  for (const CLI::App* verb : table->get_subcommands([](const CLI::App*) { return true; })) {
    CHECK(script.find(verb->get_name()) != std::string::npos);
    for (const CLI::Option* option : verb->get_options())
      for (const std::string& name : option->get_lnames())
        CHECK(script.find(before + name) != std::string::npos);
  }
}
