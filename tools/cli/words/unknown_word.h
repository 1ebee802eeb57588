// What to say of a verb or an option that there is not.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/words/option_table.h"

namespace terrace::cli {

// "" where all verbs and options of `words`, the command line without the program's name, are known.
std::string unknown_word(const CLI::App& table, const std::vector<std::string>& words);

}  // namespace terrace::cli
