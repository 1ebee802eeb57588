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

std::uint64_t max_live_bytes(std::span<const Buffer> buffers) {
  struct Change {
    std::uint32_t time;
    bool begins;
    std::uint64_t bytes;
  };
  std::vector<Change> changes;
  changes.reserve(buffers.size() * 2);
  for (const Buffer& b : buffers) {
    changes.push_back({b.lower, true, b.bytes});
    changes.push_back({b.upper, false, b.bytes});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time != b.time ? a.time < b.time : a.begins < b.begins;  // ends first: intervals are half-open
  });
  std::uint64_t live = 0;
  std::uint64_t most = 0;
  for (const Change& c : changes) {
    live = c.begins ? live + c.bytes : live - c.bytes;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace terrace::planner
