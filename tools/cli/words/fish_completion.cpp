// See completion.h: fish. One `complete` line for each verb and option, with what it means beside it.
#include <fmt/format.h>

#include "tools/cli/words/completion.h"

namespace terrace::cli {
namespace {

// In fish a quoted text has two escapes, of the quote and of the backslash.
std::string fish_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

// -r: a value follows; -F: files, -x: none.
std::string fish_value(const CompletedOption& option) {
  switch (option.takes) {
    case Takes::nothing:
      return "";
    case Takes::choice:
      return fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
    case Takes::directory:
      return " -x -a '(__fish_complete_directories)'";
    case Takes::file:
      return " -r -F";
    default:
      return " -x";
  }
}

std::string fish_words(Takes takes) {
  switch (takes) {
    case Takes::command:
      return " -x -a '(__fish_complete_subcommand --fcs-skip=2)'";
    case Takes::job:
      return " -f -a '(terrace jobs --no-headings -o job 2>/dev/null)'";
    case Takes::file:
      return " -F";
    default:
      return " -f";
  }
}

}  // namespace

std::string fish_completion(const std::vector<CompletedVerb>& verbs) {
  std::string script =
      "# Completion of terrace, made by 'terrace completion fish'.\n"
      "function __terrace_verb_is\n"
      "  set -l words (commandline -opc)\n"
      "  test (count $words) -gt 1; and test $words[2] = $argv[1]\n"
      "end\n";
  for (const CompletedVerb& verb : verbs) {
    script += fmt::format("complete -c terrace -n 'test (count (commandline -opc)) -eq 1' -f -a {} -d {}\n",
                          verb.name, fish_quoted(verb.about));
    const std::string when = fmt::format("complete -c terrace -n '__terrace_verb_is {}'", verb.name);
    script += when + fish_words(verb.takes) + "\n";
    for (const CompletedOption& option : verb.options)
      script +=
          fmt::format("{} -l {}{} -d {}\n", when, option.name, fish_value(option), fish_quoted(option.about));
  }
  return script;
}

}  // namespace terrace::cli
