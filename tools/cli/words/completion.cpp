// Completion scripts. Bash first; zsh reads the same script through its bashcompinit.
#include <fmt/format.h>

#include "tools/cli/words/option_table.h"

namespace terrace::cli {

namespace {

std::string option_words(const CLI::App& verb) {
  std::string words;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) words += (words.empty() ? "--" : " --") + name;
  return words;
}

// "--mover" -> its words, for options that take one of a few.
std::string choice_cases() {
  std::string cases;
  for (const RunEntry& entry : run_entries())
    if (!entry.choices.empty())
      cases += fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$word\")); return;;\n", entry.name,
                           fmt::join(entry.choices, " "));
  return cases;
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
    --socket|--json-summary|--plan|--plot|--out|--perfetto|--html) COMPREPLY=($(compgen -f -- "$word")); return;;
{choices}  esac
  if [ "$verb" = run ] && [[ "$word" != -* ]]; then
    COMPREPLY=($(compgen -c -- "$word") $(compgen -f -- "$word")); return
  fi
  case "$verb" in set|trim|pause|resume|timeline|lifetimes)
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

std::string completion_script(const CLI::App& table, const std::string& shell) {
  std::string verbs;
  std::string options;
  for (const CLI::App* verb : table.get_subcommands([](const CLI::App*) { return true; })) {
    verbs += (verbs.empty() ? "" : " ") + verb->get_name();
    options += fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$word\"));;\n", verb->get_name(),
                           option_words(*verb));
  }
  const std::string bash = fmt::format(fmt::runtime(script_template), fmt::arg("verbs", verbs),
                                       fmt::arg("options", options), fmt::arg("choices", choice_cases()));
  return shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" + bash : bash;
}

}  // namespace terrace::cli
