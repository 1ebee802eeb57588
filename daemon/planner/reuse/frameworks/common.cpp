#include "daemon/planner/reuse/frameworks/common.h"

#include <algorithm>

namespace terrace::planner::frameworks {

std::vector<Event> events_of(std::span<const Buffer> buffers) {
  std::vector<Event> events;
  events.reserve(buffers.size() * 2);
  for (std::uint32_t n = 0; n < buffers.size(); ++n) {
    if (buffers[n].bytes == 0) continue;
    events.push_back({buffers[n].lower, true, n});
    events.push_back({buffers[n].upper, false, n});
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.begins < b.begins;
  });
  return events;
}

Result<Sizes> aligned_sizes(const Instance& instance) {
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  Sizes sizes;
  for (const Buffer& b : instance.buffers) sizes.alignment = std::max(sizes.alignment, b.alignment);
  std::uint64_t sum = 0;
  for (std::uint32_t n = 0; n < instance.buffers.size(); ++n) {
    const std::uint64_t bytes = instance.buffers[n].bytes;
    if (sizes.alignment > most || bytes > most - sum || rounded_up(bytes, sizes.alignment) > most - sum) {
      return refused<Sizes>("the buffers up to number " + std::to_string(n) +
                            " add up to more than 2^62 bytes; is a size or an alignment wrong?");
    }
    sizes.bytes.push_back(rounded_up(bytes, sizes.alignment));
    sum += sizes.bytes.back();
  }
  return ok(std::move(sizes));
}

void Placed::insert_before_equals(const Range& range) {
  const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), range,
                                   [](const Range& a, const Range& b) { return a.begin < b.begin; });
  ranges_.insert(at, range);
}

void Placed::insert_after_equals(const Range& range) {
  const auto at = std::upper_bound(ranges_.begin(), ranges_.end(), range,
                                   [](const Range& a, const Range& b) { return a.begin < b.begin; });
  ranges_.insert(at, range);
}

}  // namespace terrace::planner::frameworks
