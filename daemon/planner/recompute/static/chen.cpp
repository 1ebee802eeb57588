#include <algorithm>
#include <cmath>

#include "daemon/planner/recompute/static/policies.h"
#include "daemon/planner/recompute/static/stages.h"

namespace terrace::planner::recompute {
namespace {

using Segments = std::vector<std::uint32_t>;  // of each operation of the forward pass; counting up

class Chen {
 public:
  Chen(const Step& step, const Segments& segments)
      : step_(step),
        segments_(segments),
        forward_(static_cast<std::uint32_t>(segments.size())),
        again_(segments.back() + 1, nothing) {}

  Schedule schedule();

 private:
  bool internal(const Storage& s) const;
  std::uint32_t first_backward_reader(const Storage& s) const;
  void keep_internal(std::uint32_t storage, Stages* stages) const;
  void keep_for_segments(std::uint32_t storage, Stages* stages) const;

  const Step& step_;
  const Segments& segments_;
  std::uint32_t forward_;
  std::vector<std::uint32_t> again_;  // stage in which a segment is made again
};

// Whether it goes after the forward pass of its segment.
bool Chen::internal(const Storage& s) const {
  if (s.constant() || s.kept || s.maker >= forward_) return false;
  const std::uint32_t segment = segments_[s.maker];
  if (segment == segments_.back()) return false;
  return std::none_of(s.readers.begin(), s.readers.end(),
                      [&](std::uint32_t r) { return r < forward_ && segments_[r] != segment; });
}

std::uint32_t Chen::first_backward_reader(const Storage& s) const {
  const auto found = std::lower_bound(s.readers.begin(), s.readers.end(), forward_);
  return found == s.readers.end() ? nothing : *found;
}

void Chen::keep_internal(std::uint32_t storage, Stages* stages) const {
  const Storage& s = step_.storages[storage];
  const auto end_of_forward = std::lower_bound(s.readers.begin(), s.readers.end(), forward_);
  if (end_of_forward != s.readers.begin()) stages->keep_between(storage, s.maker + 1, *(end_of_forward - 1));
  if (end_of_forward != s.readers.end())
    stages->keep_between(storage, again_[segments_[s.maker]] + 1, s.readers.back());
}

// Until its last reader, and until every segment that reads it has been made again.
void Chen::keep_for_segments(std::uint32_t storage, Stages* stages) const {
  stages->keep_to_last_reader(storage);
  const Storage& s = step_.storages[storage];
  if (s.constant()) return;
  for (const std::uint32_t reader : s.readers) {
    if (reader >= forward_) break;
    if (const std::uint32_t stage = again_[segments_[reader]]; stage != nothing)
      stages->keep_between(storage, s.maker + 1, stage);
  }
}

Schedule Chen::schedule() {
  for (const Storage& s : step_.storages) {
    if (!internal(s)) continue;
    std::uint32_t& stage = again_[segments_[s.maker]];
    stage = std::min(stage, first_backward_reader(s));
  }
  Stages stages(step_);
  for (std::uint32_t s = 0; s < step_.storages.size(); ++s)
    internal(step_.storages[s]) ? keep_internal(s, &stages) : keep_for_segments(s, &stages);
  return stages.schedule();
}

// A new segment begins when the one before has more bytes.
Segments segments_by_bytes(const Step& step, std::uint64_t most_bytes) {
  Segments segments;
  std::uint64_t bytes = 0;
  std::uint32_t segment = 0;
  for (std::uint32_t i = 0; i < step.backward_begins; ++i) {
    if (bytes > most_bytes) {
      ++segment;
      bytes = 0;
    }
    segments.push_back(segment);
    bytes += step.operations[i].made_bytes;
  }
  return segments;
}

constexpr std::size_t most_in_square = 10'000;  // what is kept when takes the square of them in bits

// Why there can be no plan; empty if there may be one.
std::string objection(const Step& step) {
  if (step.backward_begins == 0 || step.backward_begins >= step.operations.size())
    return "the step has no forward pass with a backward pass after it";
  return step.operations.size() > most_in_square ? "the step has more than 10,000 operations" : "";
}

}  // namespace

Result<Schedule> chen_sqrt(const Step& step) {
  if (std::string why = objection(step); !why.empty()) return refused<Schedule>(std::move(why));
  const auto length = static_cast<std::uint32_t>(std::lround(std::sqrt(step.backward_begins)));
  Segments segments;
  for (std::uint32_t i = 0; i < step.backward_begins; ++i) segments.push_back(i / length);
  return ok(Chen(step, segments).schedule());
}

Result<Schedule> chen_greedy(const Step& step, std::uint64_t budget_bytes) {
  if (std::string why = objection(step); !why.empty()) return refused<Schedule>(std::move(why));
  double forward_bytes = 1;
  for (std::uint32_t i = 0; i < step.backward_begins; ++i)
    forward_bytes += static_cast<double>(step.operations[i].made_bytes);
  constexpr int tries = 40;
  std::int64_t least_ns = 0;
  std::optional<Schedule> best;
  Segments before;
  for (int i = 0; i < tries; ++i) {
    // From one segment to segments of a thousandth, in even ratios.
    const double most_bytes = forward_bytes * std::pow(1e-3, static_cast<double>(i) / (tries - 1));
    Segments segments = segments_by_bytes(step, static_cast<std::uint64_t>(most_bytes));
    if (segments == before) continue;
    before = std::move(segments);
    Schedule schedule = Chen(step, before).schedule();
    const Price price = check_schedule(step, schedule, budget_bytes);
    if (!price.wrong.empty() || (best && price.cost_ns >= least_ns)) continue;
    least_ns = price.cost_ns;
    best = std::move(schedule);
  }
  if (!best) return refused<Schedule>("no segments fit into the budget");
  return ok(std::move(*best));
}

}  // namespace terrace::planner::recompute
