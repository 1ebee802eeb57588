// Which tensor lies in the fast memory when: what all policies of this folder decide, and the room it takes.
//
// A stay [begin, end) of positions: room is taken before operation `begin` and free again before operation
// `end`. A tensor's stay that begins with its life is a birth in the fast memory; every other one begins with
// a move in, so that a use within it may still find the tensor on its way. A persistent tensor's stay that
// ends with the step and one that begins with it are one stay over the step's border.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/load_tree.h"
#include "daemon/planner/memories/simulate.h"

namespace terrace::planner::memories {

struct Span {
  std::uint32_t begin = 0, end = 0;
  bool holds(std::uint32_t op) const { return begin <= op && op < end; }
};

using Residence = std::vector<std::vector<Span>>;  // per tensor, in order, none touching the next one

// All of the tensor's life.
Span life(const Tensor& tensor);

// Moves out stand before moves in at each position; those in by the tensor's next use.
Plan plan_of(const Step& step, const Residence& residence);

// Bytes of the fast memory that stays take, by operation; O(log n) each.
class Room {
 public:
  explicit Room(const Step& step) : limit_(step.fast_bytes) {
    load_.reset(std::vector<std::uint64_t>(step.ops.size(), 0));
  }
  bool has(const Span& span, std::uint64_t bytes) const {
    return span.begin >= span.end ||
           (bytes <= limit_ && load_.peak(span.begin, span.end).bytes <= limit_ - bytes);
  }
  void take(const Span& span, std::uint64_t bytes) { load_.add(span.begin, span.end, bytes); }
  void give(const Span& span, std::uint64_t bytes) { load_.subtract(span.begin, span.end, bytes); }
  // Where in the span most is taken.
  std::uint32_t fullest(const Span& span) const { return load_.peak(span.begin, span.end).section; }
  // The earliest begin, not below `least`, of a span up to `end` that has room.
  std::uint32_t earliest(std::uint32_t least, std::uint32_t end, std::uint64_t bytes) const;

 private:
  std::uint64_t limit_;
  LoadTree load_;
};

}  // namespace terrace::planner::memories
