// See exposition.h.
#include "daemon/metrics/exposition.h"

#include <fmt/format.h>

#include <iterator>

namespace terrace::daemon {
namespace {

std::string_view word_of(MetricType type) {
  switch (type) {
    case MetricType::counter:
      return "counter";
    case MetricType::info:
      return "info";
    case MetricType::gauge:
      break;
  }
  return "gauge";
}

std::string_view suffix_of(MetricType type) {
  switch (type) {
    case MetricType::counter:
      return "_total";
    case MetricType::info:
      return "_info";
    case MetricType::gauge:
      break;
  }
  return "";
}

}  // namespace

std::string metric_label(std::string_view name, std::string_view value) {
  std::string label = std::string(name) + "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') label += '\\';
    c == '\n' ? label += "\\n" : label += c;
  }
  return label + '"';
}

void Exposition::begin(std::string_view prefix, const MetricFamily& family) {
  const std::string name = fmt::format("terrace_{}{}", prefix, family.name);
  fmt::format_to(std::back_inserter(text_), "# TYPE {} {}\n", name, word_of(family.type));
  if (!family.unit.empty()) fmt::format_to(std::back_inserter(text_), "# UNIT {} {}\n", name, family.unit);
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n", name, family.help);
  sample_name_ = name + std::string(suffix_of(family.type));
}

void Exposition::begin_sample(std::string_view labels) {
  text_ += sample_name_;
  if (!labels.empty()) text_.append("{").append(labels).append("}");
  text_ += ' ';
}

void Exposition::sample(std::string_view labels, std::uint64_t value) {
  begin_sample(labels);
  fmt::format_to(std::back_inserter(text_), "{}\n", value);
}

void Exposition::sample_ns(std::string_view labels, std::uint64_t ns) {
  begin_sample(labels);
  fmt::format_to(std::back_inserter(text_), "{}.{:09}\n", ns / 1'000'000'000, ns % 1'000'000'000);
}

std::string Exposition::finish() && {
  text_ += "# EOF\n";
  return std::move(text_);
}

}  // namespace terrace::daemon
