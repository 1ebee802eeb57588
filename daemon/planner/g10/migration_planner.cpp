// The decisions about one interval; see migration_planner.h.
#include "daemon/planner/g10/migration_planner.h"

#include <algorithm>
#include <utility>

namespace terrace::planner::g10 {

std::vector<double> op_times(const std::vector<double>& begin_us, std::size_t ops) {
  std::vector<double> lengths(ops);
  for (std::size_t op = 0; op < ops; ++op) lengths[op] = begin_us[op + 1] - begin_us[op];
  return lengths;
}

MigrationPlanner::MigrationPlanner(std::vector<double> begin_us,
                                   const std::vector<std::uint64_t>& resident_bytes,
                                   const MigrationRules& rules)
    : rules_(rules),
      ops_(static_cast<std::uint32_t>(resident_bytes.size())),
      begin_us_(std::move(begin_us)),
      in_(op_times(begin_us_, ops_), rules.ssd.in_bytes_per_us, rules.host.in_bytes_per_us),
      out_(op_times(begin_us_, ops_), rules.ssd.out_bytes_per_us, rules.host.out_bytes_per_us) {
  resident_.reset(resident_bytes);
  on_host_.reset(std::vector<std::uint64_t>(ops_, 0));
  on_ssd_.reset(std::vector<std::uint64_t>(ops_, 0));
}

MigrationPlanner::Times MigrationPlanner::times(const Interval& interval, const Way& way) const {
  const auto bytes = static_cast<double>(interval.bytes);
  const double in = way.in_latency_us + bytes / way.in_bytes_per_us;
  return {way.out_latency_us + bytes / way.out_bytes_per_us, in + rules_.margin * in};
}

// Calls change(begin, end) with the parts of a range that may reach into the next step.
template <class Change>
void MigrationPlanner::in_step(std::uint32_t begin, std::uint32_t end, Change change) const {
  if (begin < std::min(end, ops_)) change(begin, std::min(end, ops_));
  if (std::max(begin, ops_) < end) change(std::max(begin, ops_) - ops_, end - ops_);
}

bool MigrationPlanner::fits(const Interval& interval) const {
  bool fits = true;
  in_step(interval.start, wrapped_end(interval), [&](std::uint32_t begin, std::uint32_t end) {
    fits = fits && resident_.peak(begin, end).bytes <= rules_.target_bytes;
  });
  return fits;
}

bool MigrationPlanner::has_room(const LoadTree& used, std::uint64_t capacity_bytes, std::uint64_t bytes) {
  return bytes <= capacity_bytes && used.peak_bytes() <= capacity_bytes - bytes;
}

// The operation of the interval that runs at a time; looped ones count on into the next step.
std::uint32_t MigrationPlanner::op_at(double time_us, const Interval& interval) const {
  const auto first = begin_us_.begin() + interval.start;
  const auto after = std::upper_bound(first, begin_us_.begin() + wrapped_end(interval), time_us);
  return after == first ? interval.start : static_cast<std::uint32_t>(after - begin_us_.begin() - 1);
}

Relief MigrationPlanner::sure_relief(const Interval& interval) const {
  const std::uint64_t half = interval.bytes / 2;
  return {out_.end_of(Over::ssd, half, interval.start), in_.start_of(Over::ssd, half, interval.end),
          interval.bytes};
}

Relief MigrationPlanner::relieve(std::uint32_t begin, std::uint32_t end, std::uint64_t bytes) {
  in_step(begin, end, [&](std::uint32_t b, std::uint32_t e) { resident_.subtract(b, e, bytes); });
  return {begin, end, bytes};
}

void MigrationPlanner::occupy(LoadTree* tier, const Interval& interval) {
  in_step(interval.start, wrapped_end(interval),
          [&](std::uint32_t begin, std::uint32_t end) { tier->add(begin, end, interval.bytes); });
}

// No bandwidth is promised: the way out takes its plain time, the way back starts with the margin ahead.
Relief MigrationPlanner::use_looped(const Interval& interval, PageAction action, const Times& times) {
  const std::uint32_t gone = op_at(begin_us_[interval.start] + times.out, interval);
  const std::uint32_t fetch = op_at(begin_us_[interval.end + ops_] - times.back, interval);
  if (fetch != interval.start) {
    entries_.push_back({interval.start, action, interval.tensor});
    entries_.push_back({fetch % ops_, PageAction::fetch, interval.tensor});
  }
  return relieve(gone + 1, fetch, interval.bytes);
}

// Nothing moves where the way back would have to start before the way out has ended.
Relief MigrationPlanner::use_within(const Interval& interval, Over over) {
  const std::uint32_t fetch = in_.start_of(over, interval.bytes, interval.end);
  const std::uint32_t gone = out_.end_of(over, interval.bytes, interval.start);
  if (fetch <= gone) return {};
  entries_.push_back({interval.start,
                      over == Over::ssd ? PageAction::evict_to_ssd : PageAction::evict_to_host,
                      interval.tensor});
  fetches_.push_back({interval.tensor, interval.bytes, gone, fetch});
  in_.reserve(over, interval.bytes, fetch);
  out_.reserve(over, interval.bytes, interval.start);
  return relieve(gone + 1, fetch, interval.bytes);
}

Relief MigrationPlanner::move(const Interval& interval, Over over, const Times& times) {
  const PageAction action = over == Over::ssd ? PageAction::evict_to_ssd : PageAction::evict_to_host;
  return interval.looped ? use_looped(interval, action, times) : use_within(interval, over);
}

MigrationPlanner::Decision MigrationPlanner::use(const Interval& interval) {
  if (fits(interval) || wrapped_end(interval) - interval.start == 1) return {};
  const Times ssd = times(interval, rules_.ssd);
  const Times host = times(interval, rules_.host);
  const bool host_has_room = has_room(on_host_, rules_.host_bytes, interval.bytes);
  if (interval.time_us > ssd.both() && has_room(on_ssd_, rules_.ssd_bytes, interval.bytes)) {
    const std::uint32_t ideal = op_at(begin_us_[interval.start] + ssd.out, interval);
    const std::uint32_t over = rules_.as_artifact ? ideal : ideal + 1;
    const bool to_host = !interval.looped && host_has_room && out_.ssd_crowded(interval.start, over);
    const Relief relief = move(interval, to_host ? Over::link : Over::ssd, ssd);
    if (relief.bytes > 0) occupy(to_host ? &on_host_ : &on_ssd_, interval);
    return {true, relief};
  }
  if (interval.time_us <= host.both()) return {false, {}};
  if (!host_has_room) return {};
  const Relief relief = move(interval, Over::link, host);
  if (relief.bytes > 0 || rules_.as_artifact) occupy(&on_host_, interval);
  return {true, relief};
}

std::vector<PageScheduleEntry> MigrationPlanner::finish() {
  std::sort(fetches_.begin(), fetches_.end(),
            [](const Fetch& left, const Fetch& right) { return left.at < right.at; });
  for (const Fetch& fetch : fetches_) {
    // Down to the operation after the last one that has no room.
    const std::uint64_t full = rules_.as_artifact                   ? rules_.target_bytes - 1
                               : rules_.target_bytes >= fetch.bytes ? rules_.target_bytes - fetch.bytes
                                                                    : 0;
    const std::uint32_t begin = fetch.gone_by + 1;
    const auto last = resident_.last_above(begin, fetch.at, full);
    const std::uint32_t at = last ? *last + 1 : begin;
    entries_.push_back({at, PageAction::fetch, fetch.tensor});
    resident_.add(at, fetch.at, fetch.bytes);
  }
  return std::move(entries_);
}

}  // namespace terrace::planner::g10
