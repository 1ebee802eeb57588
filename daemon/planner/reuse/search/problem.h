// A part of an instance (skyline/cut.h), made ready for search.
//
// Time is cut into sections. MiniMalloc begins a section at every change of the live set; here only the
// maximal live sets count (the maximal cliques of the interval graph), because a section whose live set lies
// within another's adds no constraint.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/reuse/skyline/part.h"

namespace terrace::planner::search {

struct Item {
  std::int64_t bytes = 0;
  std::int64_t alignment = 1;
  std::int32_t first = 0;  // sections of the life, both inclusive
  std::int32_t last = 0;
  double width = 0;          // of the life in logical time
  double area = 0;           // width * bytes
  std::int64_t crowd = 0;    // the largest section total that it is part of
  std::uint32_t block = 0;   // index into the part
  std::uint32_t buffer = 0;  // index into the instance
};

struct Problem {
  std::vector<Item> items;
  std::int32_t sections = 0;
  std::int64_t bound = 0;  // the largest section total: no capacity below is feasible
};

inline bool overlap(const Item& a, const Item& b) { return a.first <= b.last && b.first <= a.last; }

// Whether the bytes alive never exceed `limit` <= max_instance_bytes. Safe for any sizes.
bool live_within(const Instance& instance, std::uint64_t limit);

// What lies above the part's first offset. Sizes are those of the buffers, without what rounding added.
// O(n log n).
Problem problem_of(const skyline::Part& part);

// What all heights of canonical placements are multiples of: the sizes' greatest common divisor, if all
// alignments divide it, else 1.
std::int64_t granule(const Problem& problem);

}  // namespace terrace::planner::search
