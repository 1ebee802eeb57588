// The two planners that look for a gap between neighbours: GREEDY_BY_SIZE for offsets, and the CPU's arena.
//
// Both walk through what is placed by offset and look only at what lives at the same time; they differ in
// what they round up. The GPU strategy rounds the end of the neighbour below, so that every offset is aligned
// but gaps are measured from there. The arena rounds the candidate, and remembers the gap it has chosen
// without the rounding: a later gap has to be smaller than that, measured with the rounding. That is how
// TFLite (and IREE after it) does it.
#include <algorithm>
#include <limits>
#include <numeric>

#include "daemon/planner/reuse/tflite/strategies.h"

namespace terrace::planner::tflite {
namespace {

constexpr std::uint64_t nowhere = std::numeric_limits<std::uint64_t>::max();

struct Placed {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint32_t first_task;
  std::uint32_t last_task;
};
using ByOffset = std::vector<Placed>;  // ties in the order of placing

bool conflict(const Placed& placed, const Record& record) {
  return placed.first_task <= record.last_task && record.first_task <= placed.last_task;
}

std::uint64_t gpu_offset(const ByOffset& placed, const Record& record, std::uint64_t alignment) {
  std::uint64_t best = nowhere;
  std::uint64_t best_gap = nowhere;
  std::uint64_t end = 0;  // aligned
  for (const Placed& p : placed) {
    if (!conflict(p, record)) continue;
    if (p.offset >= end) {
      const std::uint64_t gap = p.offset - end;
      if (gap >= record.size && gap < best_gap) {
        best_gap = gap;
        best = end;
      }
    }
    end = std::max(end, align_up(p.offset + p.bytes, alignment));
  }
  return best == nowhere ? end : best;
}

std::uint64_t arena_offset(const ByOffset& placed, const Record& record, std::uint64_t alignment) {
  std::uint64_t best = nowhere;
  std::uint64_t best_fit = nowhere;
  std::uint64_t end = 0;  // not aligned
  for (const Placed& p : placed) {
    if (!conflict(p, record)) continue;
    const std::uint64_t candidate = align_up(end, alignment);
    if (candidate + record.size <= p.offset && p.offset - candidate < best_fit) {
      best = candidate;
      best_fit = p.offset - end;
    }
    end = std::max(end, p.offset + p.bytes);
    if (best_fit == 0) break;
  }
  return best == nowhere ? align_up(end, alignment) : best;
}

template <class OffsetOf>
Result<Placement> place_in(const std::vector<std::uint32_t>& order, Records records, const Stop& stop,
                           OffsetOf offset_of) {
  Placement placement{std::vector<std::uint64_t>(records.size(), 0), 0};
  ByOffset placed;
  placed.reserve(records.size());
  for (const std::uint32_t r : order) {
    if (stop && placed.size() % 64 == 63 && stop())
      return refused<Placement>("stopped before all buffers were placed");
    const Record& record = records[r];
    const Placed p{offset_of(placed, record), record.size, record.first_task, record.last_task};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), p,
                                   [](const Placed& a, const Placed& b) { return a.offset < b.offset; }),
                  p);
    placement.offsets[r] = p.offset;
    placement.total_bytes = std::max(placement.total_bytes, p.offset + p.bytes);
  }
  return ok(std::move(placement));
}

std::vector<std::uint32_t> indices(Records records) {
  std::vector<std::uint32_t> order(records.size());
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

}  // namespace

Result<Placement> by_size(Records records, std::uint64_t alignment, const Stop& stop) {
  std::vector<std::uint32_t> order = indices(records);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return records[a].size > records[b].size; });
  return place_in(order, records, stop, [&](const ByOffset& placed, const Record& record) {
    return gpu_offset(placed, record, alignment);
  });
}

// Records stand in the order of their first tasks, so a stable sort by size leaves equal ones in the order of
// their allocation. TFLite's sort is not stable there; its own order among what begins at one task is not
// defined.
Result<Placement> arena(Records records, std::uint32_t tasks, std::uint64_t alignment, const Stop& stop) {
  const auto whole = [&](const Record& r) { return r.first_task == 0 && r.last_task + 1 == tasks; };
  std::vector<std::uint32_t> order = indices(records);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (whole(records[a]) || whole(records[b])) return whole(records[a]) && !whole(records[b]);
    return records[a].size > records[b].size;
  });
  return place_in(order, records, stop, [&](const ByOffset& placed, const Record& record) {
    return arena_offset(placed, record, alignment);
  });
}

}  // namespace terrace::planner::tflite
