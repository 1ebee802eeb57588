// The form in which TFLite's strategies see a graph: usage records, one per tensor, with the first and the
// last task that uses it. Both tasks are included (closed intervals), two records conflict unless one ends
// before the other begins, and the strategies expect records in the order of their first tasks.
//
// An instance becomes records by sorting its buffers by lower (stable) and by replacing times with their
// ranks among all lowers and uppers: MiniMalloc's times run to millions, tasks have to be dense. Empty
// buffers make no record.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner::tflite {

inline constexpr std::uint32_t unassigned = 0xffffffffU;

template <class Size>
struct UsageRecord {
  Size size{};
  std::uint32_t first_task = 0;
  std::uint32_t last_task = 0;  // >= first_task, included
};
using Record = UsageRecord<std::uint64_t>;
using Records = std::span<const Record>;

inline bool conflict(const Record& a, const Record& b) {
  return a.first_task <= b.last_task && b.first_task <= a.last_task;
}

struct InstanceRecords {
  std::vector<Record> records;           // by first task, then by index of the buffer
  std::vector<std::uint32_t> buffer_of;  // of each record
  std::uint64_t alignment = 1;           // the largest of all buffers
  std::uint32_t tasks = 0;               // one more than the last task of all
};

// Needs an instance that refusal() lets pass. O(n log n).
InstanceRecords records_of(const Instance& instance);

// Offsets of records as offsets of buffers; empty buffers get 0.
Placement placement_of(const Instance& instance, const InstanceRecords& records, const Placement& of_records);

// Objects one after the other in the order of their ids, as offsets_of(), but each object begins where the
// strictest of its buffers may lie; TFLite, which aligns sizes beforehand, has nothing to align here.
Placement placement_of(const Instance& instance, const InstanceRecords& records, const Objects& of_records);

}  // namespace terrace::planner::tflite
