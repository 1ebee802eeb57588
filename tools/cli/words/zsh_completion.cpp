// See completion.h: zsh. A function of its completion system, which serves as a file of fpath ("_terrace")
// and when it is read at once: source <(terrace completion zsh).
#include <fmt/format.h>

#include "tools/cli/words/completion.h"

namespace terrace::cli {
namespace {

// For a quoted word of _arguments or _describe, in which brackets and colons have a meaning.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\'')
      escaped += "'\\'";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_value(const CompletedOption& option) {
  switch (option.takes) {
    case Takes::nothing:
      return "";
    case Takes::choice:
      return fmt::format(":one of:({})", fmt::join(option.choices, " "));
    case Takes::directory:
      return ":directory:_directories";
    case Takes::file:
      return ":file:_files";
    default:
      return ":value: ";
  }
}

const char* zsh_words(Takes takes) {
  switch (takes) {
    case Takes::command:
      return " '*::command:_normal'";
    case Takes::job:
      return " '*:job:($(terrace jobs --no-headings -o job 2>/dev/null))'";
    case Takes::file:
      return " '*:file:_files'";
    default:
      return "";
  }
}

}  // namespace

std::string zsh_completion(const std::vector<CompletedVerb>& verbs) {
  std::string described, cases;
  for (const CompletedVerb& verb : verbs) {
    described += fmt::format("    '{}:{}'\n", verb.name, zsh_text(verb.about));
    cases += fmt::format("    {}) _arguments", verb.name);
    for (const CompletedOption& option : verb.options)
      cases += fmt::format(" \\\n      '--{}[{}]{}'", option.name, zsh_text(option.about), zsh_value(option));
    cases += fmt::format("{};;\n", zsh_words(verb.takes));
  }
  return fmt::format(
      "#compdef terrace\n"
      "# Completion of terrace, made by 'terrace completion zsh'.\n"
      "_terrace() {{\n"
      "  local -a verbs=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then _describe verb verbs; return; fi\n"
      "  local verb=$words[2]\n"
      "  shift words; (( CURRENT-- ))\n"
      "  case $verb in\n{}  esac\n"
      "}}\n"
      "if [ \"$funcstack[1]\" = _terrace ]; then _terrace; else compdef _terrace terrace; fi\n",
      described, cases);
}

}  // namespace terrace::cli
