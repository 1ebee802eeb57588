#include "tools/cli/base/nearest.h"

#include <catch2/catch.hpp>
#include <map>
#include <sstream>

#include "tools/cli/words/help_format.h"
#include "tools/cli/words/unknown_word.h"

using namespace terrace::cli;

namespace {

using Words = std::vector<std::string>;

std::string said_of(const Words& words) {
  Options options;
  return unknown_word(*make_option_table(&options), words);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("DistanceCountsLettersLeftOutPutInExchangedAndSwapped") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("status", "status") == 0);
  CHECK(edit_distance("stats", "status") == 1);
  CHECK(edit_distance("sttatus", "status") == 1);
  CHECK(edit_distance("stadus", "status") == 1);
  CHECK(edit_distance("stauts", "status") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("ca", "abc") == 3);  // as each letter is swapped once at most
}

TEST_CASE("TheNearestWordIsTheFirstOfThoseWithLeastDistance") {
  const Words words{"jobs", "tiers", "top", "trim"};
  CHECK(nearest_word("job", words) == "jobs");
  CHECK(nearest_word("tires", words) == "tiers");
  CHECK(nearest_word("tip", words) == "top");
  CHECK(nearest_word("x", words).empty());
  CHECK(nearest_word("frobnicate", words).empty());
  CHECK(nearest_word(std::string(100'000, 'x'), words).empty());
  CHECK(nearest_word("", words).empty());
}

TEST_CASE("UnknownWordsAreNamedWithTheNearest") {
  CHECK(said_of({"stauts"}) ==
        "there is no verb 'stauts'; did you mean 'status'? 'terrace --help' lists them");
  CHECK(said_of({"frobnicate"}) == "there is no verb 'frobnicate'; 'terrace --help' lists them");
  CHECK(said_of({"run", "--dramm=2G"}) ==
        "'terrace run' has no option --dramm; did you mean '--dram'? 'terrace run --help' lists them");
  CHECK(said_of({"run", "--summary", "--pool-sise", "2G"}).find("'--pool-size'") != std::string::npos);
  CHECK(said_of({"--versoin"}).find("'--version'") != std::string::npos);
  CHECK(said_of({"run", "--dram", "2G"}).empty());
  CHECK(said_of({}).empty());
}

TEST_CASE("HelpHasNoLineOfMoreThanAHundredColumns") {
  Options options;
  const auto table = make_option_table(&options);
  Words pages{table->help()};
  for (const CLI::App* verb : table->get_subcommands([](const CLI::App*) { return true; }))
    pages.push_back(verb->help());
  for (const std::string& page : pages)
    for (const std::string& line : lines_of(page)) {
      CAPTURE(line);
      CHECK(line.size() <= HelpFormat::widest);
    }
}

TEST_CASE("EveryOptionOfRunStandsInAGroupOfAtMostTen") {
  Options options;
  const auto table = make_option_table(&options);
  std::map<std::string, int> sizes;
  for (const CLI::Option* option : table->get_subcommand("run")->get_options())
    if (option->nonpositional() && option->get_name() != "--help") ++sizes[option->get_group()];
  CHECK(sizes.size() >= 5);
  CHECK(sizes.count("Options") == 0);
  for (const auto& [group, size] : sizes) CHECK(size <= 10);
}

TEST_CASE("TextIsBrokenAtSpaces") {
  CHECK(wrapped("one two three", 7) == "one two\nthree");
  CHECK(wrapped("one two three", 100) == "one two three");
  CHECK(wrapped("unbreakable", 3) == "unbreakable");
  CHECK(wrapped("a unbreakable b", 3) == "a\nunbreakable\nb");
  CHECK(wrapped("", 3).empty());
}
