// See completion.h: what can be completed, and bash. The other shells show what a word means, too; each has a
// file of its own.
#include "tools/cli/words/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "tools/cli/words/option_table.h"

namespace terrace::cli {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The first thought of a description.
std::string one_line(const std::string& text) {
  std::size_t end = text.size();
  for (const char* after : {"; ", " (", "\n"}) end = std::min(end, text.find(after));
  return text.substr(0, end);
}

std::vector<std::string> choices_of(const std::string& verb, const std::string& option) {
  if (verb != "run") return {};
  for (const RunEntry& entry : run_entries())
    if (entry.name == "--" + option) return entry.choices;
  return {};
}

Takes takes_of(const CLI::Option& option, const std::string& name, bool has_choices) {
  if (option.get_items_expected_max() == 0) return Takes::nothing;
  if (has_choices) return Takes::choice;
  if (name == "pool") return Takes::directory;
  if (is_one_of(name, {"socket", "json-summary", "plan", "plot", "out", "perfetto", "html"}))
    return Takes::file;
  return Takes::text;
}

Takes takes_of(const std::string& verb) {
  if (verb == "run") return Takes::command;
  if (is_one_of(verb, {"set", "trim", "pause", "resume", "timeline", "lifetimes"})) return Takes::job;
  return is_one_of(verb, {"plan", "import"}) ? Takes::file : Takes::nothing;
}

CompletedVerb completed(const CLI::App& verb) {
  CompletedVerb made{verb.get_name(), one_line(verb.get_description()), takes_of(verb.get_name()), {}};
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      auto choices = choices_of(made.name, name);
      const Takes takes = takes_of(*option, name, !choices.empty());
      made.options.push_back({name, one_line(option->get_description()), takes, std::move(choices)});
    }
  }
  return made;
}

// "--mover" -> its words, for options that take one of a few.
std::string choice_cases(const std::vector<CompletedVerb>& verbs) {
  std::string cases;
  for (const CompletedVerb& verb : verbs)
    for (const CompletedOption& option : verb.options)
      if (option.takes == Takes::choice)
        cases += fmt::format("    --{}) COMPREPLY=($(compgen -W '{}' -- \"$word\")); return;;\n", option.name,
                             fmt::join(option.choices, " "));
  return cases;
}

std::string files_case(const std::vector<CompletedVerb>& verbs) {
  std::vector<std::string> names;
  for (const CompletedVerb& verb : verbs)
    for (const CompletedOption& option : verb.options)
      if (option.takes == Takes::file) names.push_back("--" + option.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return fmt::format("{}", fmt::join(names, "|"));
}

// Of all verbs, or of those that are followed by such a word.
std::string names_of(const std::vector<CompletedVerb>& verbs, const char* between,
                     std::optional<Takes> takes = std::nullopt) {
  std::vector<std::string> names;
  for (const CompletedVerb& verb : verbs)
    if (!takes || verb.takes == *takes) names.push_back(verb.name);
  return fmt::format("{}", fmt::join(names, between));
}

constexpr const char* script_template = R"SCRIPT(# Completion of terrace, made by 'terrace completion bash'.
_terrace() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" verb="${{COMP_WORDS[1]}}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{verbs}' -- "$word")); return
  fi
  case "$before" in
    --pool) local done=""; [[ "$word" == *,* ]] && done="${{word%,*}},"
      COMPREPLY=($(compgen -P "$done" -d -- "${{word##*,}}")); return;;
    {files}) COMPREPLY=($(compgen -f -- "$word")); return;;
{choices}  esac
  if [ "$verb" = run ] && [[ "$word" != -* ]]; then
    COMPREPLY=($(compgen -c -- "$word") $(compgen -f -- "$word")); return
  fi
  case "$verb" in {of_jobs})
    if [[ "$word" != -* ]]; then
      COMPREPLY=($(compgen -W "$("${{COMP_WORDS[0]}}" jobs --no-headings -o job 2>/dev/null)" -- "$word")); return
    fi;;
  esac
  case "$verb" in
{options}  esac
}}
complete -o bashdefault -F _terrace terrace
)SCRIPT";

}  // namespace

std::vector<CompletedVerb> completed_verbs(const CLI::App& table) {
  std::vector<CompletedVerb> verbs;
  for (const CLI::App* verb : table.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(completed(*verb));
  return verbs;
}

std::string bash_completion(const std::vector<CompletedVerb>& verbs) {
  std::string options;
  for (const CompletedVerb& verb : verbs) {
    std::vector<std::string> words;
    words.reserve(verb.options.size());
    for (const CompletedOption& option : verb.options) words.push_back("--" + option.name);
    options += fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$word\"));;\n", verb.name,
                           fmt::join(words, " "));
  }
  return fmt::format(fmt::runtime(script_template), fmt::arg("verbs", names_of(verbs, " ")),
                     fmt::arg("of_jobs", names_of(verbs, "|", Takes::job)),
                     fmt::arg("files", files_case(verbs)), fmt::arg("options", options),
                     fmt::arg("choices", choice_cases(verbs)));
}

std::string completion_script(const CLI::App& table, const std::string& shell) {
  const std::vector<CompletedVerb> verbs = completed_verbs(table);
  if (shell == "fish") return fish_completion(verbs);
  return shell == "zsh" ? zsh_completion(verbs) : bash_completion(verbs);
}

}  // namespace terrace::cli
