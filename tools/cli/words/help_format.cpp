#include "tools/cli/words/help_format.h"

#include <sstream>

namespace terrace::cli {

std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string out;
  std::size_t used = 0;
  for (std::string word; words >> word; used += word.size()) {
    const bool breaks = used != 0 && used + 1 + word.size() > width;
    if (used != 0) out += breaks ? '\n' : ' ';
    used = breaks ? 0 : used + (used != 0 ? 1 : 0);
    out += word;
  }
  return out;
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  return wrapped(option->get_description(), widest - left);
}

std::string HelpFormat::make_subcommand(const CLI::App* verb) const {
  std::ostringstream out;
  CLI::detail::format_help(out, verb->get_display_name(true), wrapped(verb->get_description(), widest - left),
                           left);
  return out.str();
}

std::string HelpFormat::make_description(const CLI::App* app) const {
  return wrapped(app->get_description(), widest) + "\n";
}

}  // namespace terrace::cli
