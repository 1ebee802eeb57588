#include "daemon/planner/simulate/judge/seen_stays.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace terrace::planner {
namespace {

auto key_of(const Stay& s) { return std::make_tuple(s.tensor, s.coded, s.from_us, s.until_us); }
bool is_before(const Stay& a, const Stay& b) { return key_of(a) < key_of(b); }
bool same_stay(const Stay& a, const Stay& b) { return key_of(a) == key_of(b) && a.bytes == b.bytes; }

// In order, without those of no length. What a run alone uses counts as one.
std::vector<Stay> comparable(std::vector<Stay> stays, double end_us) {
  for (Stay& s : stays)
    if (s.until == Stay::to_the_end) s.until_us = end_us;
  std::erase_if(stays, [](const Stay& s) { return s.from_us == s.until_us; });
  std::sort(stays.begin(), stays.end(), is_before);
  std::vector<Stay> merged;
  for (const Stay& s : stays) {
    const bool more = s.tensor == Stay::of_a_run && !merged.empty() && key_of(merged.back()) == key_of(s);
    if (more) {
      merged.back().bytes += s.bytes;
    } else {
      merged.push_back(s);
    }
  }
  return merged;
}

// A change has one time, and later ones are not before it.
bool numbered_as_timed(const std::vector<Stay>& stays) {
  std::vector<std::pair<std::uint32_t, double>> changes;
  changes.reserve(stays.size() * 2);
  for (const Stay& s : stays) {
    if (s.until <= s.from) return false;
    changes.emplace_back(s.from, s.from_us);
    if (s.until != Stay::to_the_end) changes.emplace_back(s.until, s.until_us);
  }
  std::sort(changes.begin(), changes.end());
  for (std::size_t i = 1; i < changes.size(); ++i) {
    const bool same_change = changes[i].first == changes[i - 1].first;
    if (same_change && changes[i].second != changes[i - 1].second) return false;
    if (changes[i].second < changes[i - 1].second) return false;
  }
  return true;
}

std::string text_of(const wire::Trace& trace, const Stay& s) {
  const std::string what = s.tensor == Stay::of_a_run ? "what a run alone uses"
                           : s.tensor >= trace.tensors.size()
                               ? "a tensor that does not exist"
                               : "tensor " + std::to_string(trace.tensors[s.tensor].id);
  return what + (s.coded ? ", coded," : "") + " with " + std::to_string(s.bytes) + " bytes from " +
         std::to_string(s.from_us) + " to " + std::to_string(s.until_us) + " µs";
}

}  // namespace

SeenStays::Since& SeenStays::at(std::uint32_t tensor, bool coded) {
  return tensor == Stay::of_a_run ? of_run_ : since_[tensor + (coded ? since_.size() / 2 : 0)];
}

void SeenStays::comes(std::uint32_t tensor, bool coded, std::uint64_t bytes, double time_us) {
  at(tensor, coded) = {bytes, std::max(time_us, 0.0)};
}

void SeenStays::goes(std::uint32_t tensor, bool coded, double time_us) {
  const Since since = std::exchange(at(tensor, coded), Since{});
  if (since.bytes == 0 || time_us < 0) return;
  seen_.push_back({tensor, coded, since.bytes, 0, 0, since.time_us, time_us});
}

std::string SeenStays::check(const wire::Trace& trace, const SimulationReport& report) {
  for (std::uint32_t n = 0; n < since_.size(); ++n) {
    if (since_[n].bytes == 0) continue;
    const auto tensors = static_cast<std::uint32_t>(trace.tensors.size());
    seen_.push_back({n % tensors, n >= tensors, since_[n].bytes, 0, Stay::to_the_end, since_[n].time_us, 0});
  }
  const std::vector<Stay> seen = comparable(std::move(seen_), report.total_us);
  const std::vector<Stay> told = comparable(report.stays, report.total_us);
  for (std::size_t i = 0; i < std::max(seen.size(), told.size()); ++i) {
    if (i < seen.size() && i < told.size() && same_stay(seen[i], told[i])) continue;
    const bool too_many = i == seen.size() || (i < told.size() && is_before(told[i], seen[i]));
    return "the stays in tier 0 are not what lay there: " +
           (too_many ? text_of(trace, told[i]) + " is told" : text_of(trace, seen[i]) + " is not told");
  }
  if (!numbered_as_timed(report.stays)) return "the stays in tier 0 are not numbered as their times go";
  return {};
}

}  // namespace terrace::planner
