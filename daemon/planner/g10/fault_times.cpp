// The table of profiled times; see g10.h.
#include <array>
#include <charconv>
#include <string>

#include "daemon/planner/g10/g10.h"

namespace terrace::planner {
namespace {

// "7,1,0" into three numbers; false where it is anything else.
bool read_numbers(std::string_view text, std::array<std::uint32_t, 3>* numbers) {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < numbers->size(); ++i) {
    if (i > 0 && (at == end || *at++ != ',')) return false;
    const auto [after, rc] = std::from_chars(at, end, (*numbers)[i]);
    if (rc != std::errc()) return false;
    at = after;
  }
  return at == end;
}

}  // namespace

Result<std::vector<G10FaultTimes>> parse_g10_fault_times(std::string_view csv, std::string_view trace) {
  using Found = std::vector<G10FaultTimes>;
  Found found;
  for (std::size_t line = 1; !csv.empty(); ++line) {
    const std::string_view text = csv.substr(0, csv.find('\n'));
    csv.remove_prefix(std::min(csv.size(), text.size() + 1));
    const std::size_t name = text.find(',');
    if (text.substr(0, name) != trace) continue;
    std::array<std::uint32_t, 3> numbers{};
    if (name == std::string_view::npos || !read_numbers(text.substr(name + 1), &numbers))
      return refused<Found>("line " + std::to_string(line) + ": expected trace,operation,seconds,seconds");
    found.push_back({numbers[0], numbers[1], numbers[2]});
  }
  return ok(std::move(found));
}

}  // namespace terrace::planner
