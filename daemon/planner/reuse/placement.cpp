#include <algorithm>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {

Placement offsets_of(const Objects& objects) {
  std::vector<std::uint64_t> begin(objects.object_bytes.size());
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    begin[i] = total;
    total += objects.object_bytes[i];
  }
  Placement placement{std::vector<std::uint64_t>(objects.object_of.size()), total};
  for (std::size_t i = 0; i < objects.object_of.size(); ++i)
    placement.offsets[i] = begin[objects.object_of[i]];
  return placement;
}

std::vector<LifeEvent> events_of(std::span<const Buffer> buffers) {
  std::vector<LifeEvent> events;
  events.reserve(buffers.size() * 2);
  for (std::uint32_t n = 0; n < buffers.size(); ++n) {
    if (buffers[n].bytes == 0) continue;
    events.push_back({buffers[n].lower, true, n});
    events.push_back({buffers[n].upper, false, n});
  }
  std::stable_sort(events.begin(), events.end(), [](const LifeEvent& a, const LifeEvent& b) {
    return a.time != b.time ? a.time < b.time : a.begins < b.begins;
  });
  return events;
}

std::uint64_t max_live_bytes(std::span<const Buffer> buffers) {
  std::uint64_t live = 0;
  std::uint64_t most = 0;
  for (const LifeEvent& event : events_of(buffers)) {
    const std::uint64_t bytes = buffers[event.buffer].bytes;
    live = event.begins ? live + bytes : live - bytes;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace terrace::planner
