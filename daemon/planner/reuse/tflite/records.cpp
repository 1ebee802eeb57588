#include "daemon/planner/reuse/tflite/records.h"

#include <algorithm>

namespace terrace::planner::tflite {
namespace {

std::vector<std::uint32_t> times_of(const Instance& instance) {
  std::vector<std::uint32_t> times;
  for (const Buffer& b : instance.buffers) {
    if (b.bytes == 0) continue;
    times.push_back(b.lower);
    times.push_back(b.upper);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

std::uint32_t rank(const std::vector<std::uint32_t>& times, std::uint32_t time) {
  return static_cast<std::uint32_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
}

}  // namespace

InstanceRecords records_of(const Instance& instance) {
  const std::vector<std::uint32_t> times = times_of(instance);
  InstanceRecords all;
  for (std::uint32_t n = 0; n < instance.buffers.size(); ++n)
    if (instance.buffers[n].bytes > 0) all.buffer_of.push_back(n);
  std::stable_sort(all.buffer_of.begin(), all.buffer_of.end(), [&](std::uint32_t a, std::uint32_t b) {
    return instance.buffers[a].lower < instance.buffers[b].lower;
  });
  for (const std::uint32_t n : all.buffer_of) {
    const Buffer& b = instance.buffers[n];
    all.records.push_back({b.bytes, rank(times, b.lower), rank(times, b.upper) - 1});
    all.alignment = std::max(all.alignment, b.alignment);
    all.tasks = std::max(all.tasks, all.records.back().last_task + 1);
  }
  return all;
}

Placement placement_of(const Instance& instance, const InstanceRecords& records,
                       const Placement& of_records) {
  Placement placement{std::vector<std::uint64_t>(instance.buffers.size(), 0), of_records.total_bytes};
  for (std::size_t r = 0; r < records.buffer_of.size(); ++r)
    placement.offsets[records.buffer_of[r]] = of_records.offsets[r];
  return placement;
}

Placement placement_of(const Instance& instance, const InstanceRecords& records, const Objects& of_records) {
  std::vector<std::uint64_t> alignment(of_records.object_bytes.size(), 1);
  for (std::size_t r = 0; r < records.buffer_of.size(); ++r) {
    std::uint64_t& of_object = alignment[of_records.object_of[r]];
    of_object = std::max(of_object, instance.buffers[records.buffer_of[r]].alignment);
  }
  std::vector<std::uint64_t> begin(alignment.size());
  Placement by_record{std::vector<std::uint64_t>(records.buffer_of.size()), 0};
  for (std::size_t o = 0; o < begin.size(); ++o) {
    begin[o] = align_up(by_record.total_bytes, alignment[o]);
    by_record.total_bytes = begin[o] + of_records.object_bytes[o];
  }
  for (std::size_t r = 0; r < records.buffer_of.size(); ++r)
    by_record.offsets[r] = begin[of_records.object_of[r]];
  return placement_of(instance, records, by_record);
}

}  // namespace terrace::planner::tflite
