// Completion scripts, made from the table of verbs and options: what `terrace --help` knows, shells know.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace terrace::cli {

inline const std::vector<std::string> completion_shells{"bash", "zsh", "fish"};

// Of one of these shells.
std::string completion_script(const CLI::App& table, const std::string& shell);

// What follows an option, or a verb.
enum class Takes { nothing, text, choice, file, directory, job, command };

struct CompletedOption {
  std::string name;   // without dashes
  std::string about;  // one line
  Takes takes;
  std::vector<std::string> choices;  // where it takes one of a few
};

struct CompletedVerb {
  std::string name, about;
  Takes takes;
  std::vector<CompletedOption> options;
};

std::vector<CompletedVerb> completed_verbs(const CLI::App& table);

std::string bash_completion(const std::vector<CompletedVerb>& verbs);
std::string zsh_completion(const std::vector<CompletedVerb>& verbs);
std::string fish_completion(const std::vector<CompletedVerb>& verbs);

}  // namespace terrace::cli
