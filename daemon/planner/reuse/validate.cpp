// The judge of every placement. It shares no code with any policy: time is swept from begin to end, and the
// address ranges that are alive lie in an ordered map, in which a new one may touch its neighbours but not
// overlap them.
#include <algorithm>
#include <iterator>
#include <map>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {
namespace {

struct Range {
  std::uint64_t end;
  std::uint32_t buffer;
};
using Live = std::map<std::uint64_t, Range>;  // begin -> range

std::string name_of(const Instance& instance, std::uint32_t n, const Placement& placement) {
  const Buffer& b = instance.buffers[n];
  const std::uint64_t offset = placement.offsets[n];
  return "buffer " + std::to_string(n) + " (bytes " + std::to_string(offset) + " to " +
         std::to_string(offset + b.bytes) + ", time " + std::to_string(b.lower) + " to " +
         std::to_string(b.upper) + ")";
}

std::string check_one(const Instance& instance, const Placement& placement, std::uint32_t n) {
  const Buffer& b = instance.buffers[n];
  const std::uint64_t offset = placement.offsets[n];
  if (b.upper <= b.lower) return name_of(instance, n, placement) + " has an empty life";
  if (b.alignment == 0 || offset % b.alignment != 0) {
    return name_of(instance, n, placement) + " is not aligned to " + std::to_string(b.alignment);
  }
  if (offset > placement.total_bytes || b.bytes > placement.total_bytes - offset) {
    return name_of(instance, n, placement) + " ends beyond the total of " +
           std::to_string(placement.total_bytes);
  }
  return {};
}

// The index of a live buffer that [begin, end) overlaps, or no_tensor.
std::uint32_t overlapped(const Live& live, std::uint64_t begin, std::uint64_t end) {
  const auto next = live.lower_bound(begin);
  if (next != live.end() && next->first < end) return next->second.buffer;
  if (next != live.begin() && std::prev(next)->second.end > begin) return std::prev(next)->second.buffer;
  return no_tensor;
}

}  // namespace

std::string check_placement(const Instance& instance, const Placement& placement) {
  const std::vector<Buffer>& buffers = instance.buffers;
  if (placement.offsets.size() != buffers.size()) {
    return "there are " + std::to_string(placement.offsets.size()) + " offsets for " +
           std::to_string(buffers.size()) + " buffers";
  }
  std::vector<std::uint32_t> begins;
  for (std::uint32_t n = 0; n < buffers.size(); ++n) {
    if (std::string wrong = check_one(instance, placement, n); !wrong.empty()) return wrong;
    if (buffers[n].bytes > 0) begins.push_back(n);
  }
  std::vector<std::uint32_t> ends = begins;
  std::sort(begins.begin(), begins.end(),
            [&](auto a, auto b) { return buffers[a].lower < buffers[b].lower; });
  std::sort(ends.begin(), ends.end(), [&](auto a, auto b) { return buffers[a].upper < buffers[b].upper; });
  Live live;
  std::size_t ended = 0;
  for (const std::uint32_t n : begins) {
    for (; buffers[ends[ended]].upper <= buffers[n].lower; ++ended)
      live.erase(placement.offsets[ends[ended]]);
    const std::uint64_t begin = placement.offsets[n];
    const std::uint32_t other = overlapped(live, begin, begin + buffers[n].bytes);
    if (other != no_tensor)
      return name_of(instance, n, placement) + " overlaps " + name_of(instance, other, placement);
    live.emplace(begin, Range{begin + buffers[n].bytes, n});
  }
  return {};
}

}  // namespace terrace::planner
