// Dynamic storage allocation: which address each buffer gets, so that buffers that are alive together do not
// overlap.
//
// A buffer lives in the half-open interval [lower, upper) of logical time (operation indices, or positions in
// a log of allocations). The field's two kinds of answer: a Placement gives every buffer an offset; Objects
// give every buffer one of a set of shared objects, each as large as its largest buffer. Bounds: max live
// bytes for a placement, the sum of the positional maxima for objects. Memory that is never shared has bytes
// == 0 only where the trace says so: an empty buffer takes offset 0 and conflicts with nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "liballoc/wire/result.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

inline constexpr std::uint32_t no_tensor = 0xffffffffU;

struct Buffer {
  std::uint64_t bytes = 0;
  std::uint32_t lower = 0;
  std::uint32_t upper = 1;           // > lower
  std::uint64_t alignment = 1;       // of the offset; a power of two
  std::uint32_t tensor = no_tensor;  // index into the trace's tensors; no_tensor: a workspace, or no trace
};

struct Instance {
  std::string name;
  std::vector<Buffer> buffers;
  const wire::Trace* trace = nullptr;  // not owned; for policies that look at the graph. May be null
};

struct Placement {
  std::vector<std::uint64_t> offsets;  // one per buffer
  std::uint64_t total_bytes = 0;       // what has to be reserved: at least the highest end
};

struct Objects {
  std::vector<std::uint32_t> object_of;     // one per buffer
  std::vector<std::uint64_t> object_bytes;  // one per object
};

inline bool overlap_in_time(const Buffer& a, const Buffer& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

// The begin or the end of a life.
struct LifeEvent {
  std::uint32_t time;
  bool begins;
  std::uint32_t buffer;
};

// Of all buffers that have bytes, by time, ends first (lives are half-open), then by index. O(n log n).
std::vector<LifeEvent> events_of(std::span<const Buffer> buffers);

// How a search is steered. The planner has no clock: the caller says when time is up.
struct SearchControl {
  std::uint64_t seed = 0;
  std::uint64_t capacity_bytes = 0;  // stop as soon as a placement fits this; 0: as small as can be found
  std::function<bool()> stop;        // asked every few thousand steps at least; empty: never
  std::function<void(std::uint64_t total_bytes, std::uint64_t bound_bytes)>
      progress;             // after each improvement; may be empty
  std::uint64_t steps = 0;  // about how many placements of a single buffer to spend; 0: the policy's default
};

// One published (or our own) way to place. Throws nothing but std::bad_alloc.
struct ReusePolicy {
  const char* name;    // as typed: "tflite_by_size", "exact", "terrace"
  const char* family;  // "tflite", "tvm", "allocator", "terrace", …
  const char* source;  // paper and section, or project and file
  // Of an instance that refusal() lets pass.
  Result<Placement> (*solve)(const Instance&, const SearchControl&);

  // The placement, or why there is none: refusal(), or what this policy cannot do ("needs a trace", "stopped
  // before any was found").
  Result<Placement> place(const Instance& instance, const SearchControl& control) const;
};

// Every policy, in the order of the table of `terrace plan --policy all`.
std::vector<ReusePolicy> reuse_policies();

// Buffers of a trace: one per tensor that some operation names or that is persistent, then one per workspace;
// time is the index of the operation.
Instance instance_of(const wire::Trace& trace, std::uint64_t alignment = 1);

// All bytes of an instance together, paddings included; leaves room for sums of two totals.
inline constexpr std::uint64_t max_instance_bytes = std::uint64_t{1} << 61;

// Why no policy can place this instance; empty if any may. O(n).
std::string refusal(const Instance& instance);

// The smallest multiple of a power of two that is not below the offset.
template <class Bytes>
Bytes align_up(Bytes offset, Bytes alignment) {
  return (offset + alignment - 1) & ~(alignment - 1);
}

// Objects one after the other, in the order of their ids (TFLite's ObjectsToOffsets).
Placement offsets_of(const Objects& objects);

// The largest sum of bytes alive at one time: no placement is smaller.
std::uint64_t max_live_bytes(std::span<const Buffer> buffers);

// What is wrong with a placement, empty if nothing: overlap in address and time, alignment, an end beyond
// total_bytes, a missing offset. Independent of every policy: an event sweep with an ordered set of live
// address ranges, O(n log n).
std::string check_placement(const Instance& instance, const Placement& placement);

}  // namespace terrace::planner
