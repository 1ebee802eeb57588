// How --help is laid out: texts are wrapped, so that no line has more than 100 columns.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

namespace terrace::cli {

class HelpFormat : public CLI::Formatter {
 public:
  static constexpr std::size_t widest = 100;
  HelpFormat() { column_width(left); }
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_description(const CLI::App* app) const override;

 private:
  static constexpr std::size_t left = 26;
};

// Breaks at spaces into lines of at most `width` columns. A longer word has a line of its own.
std::string wrapped(const std::string& text, std::size_t width);

}  // namespace terrace::cli
