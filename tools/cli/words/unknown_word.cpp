#include "tools/cli/words/unknown_word.h"

#include <fmt/format.h>

#include "tools/cli/base/nearest.h"

namespace terrace::cli {

namespace {

std::vector<std::string> verbs_of(const CLI::App& table) {
  std::vector<std::string> names;
  for (const CLI::App* verb : table.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

const CLI::App* verb_of(const CLI::App& table, const std::string& name) {
  const auto found = table.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

std::vector<std::string> options_of(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

}  // namespace

std::string unknown_word(const CLI::App& table, const std::vector<std::string>& words) {
  if (words.empty()) return "";
  const CLI::App* verb = verb_of(table, words.front());
  if (verb == nullptr && !words.front().starts_with('-'))
    return fmt::format("there is no verb '{}'{} 'terrace --help' lists them", words.front(),
                       did_you_mean(words.front(), verbs_of(table)));
  const CLI::App& owner = verb != nullptr ? *verb : table;
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (word == "--") break;
    if (!word.starts_with("--") || owner.get_option_no_throw(name) != nullptr) continue;
    const std::string command = verb != nullptr ? "terrace " + verb->get_name() : "terrace";
    return fmt::format("'{}' has no option {}{} '{} --help' lists them", command, name,
                       did_you_mean(name, options_of(owner)), command);
  }
  return "";
}

}  // namespace terrace::cli
