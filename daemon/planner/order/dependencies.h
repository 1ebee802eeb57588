// Which operation must wait for which: the graph of a trace.
//
// An operation that reads a tensor waits for the one that wrote it last before; one that writes waits for the
// last writer and for every reader since (an in-place update names its tensor among inputs and outputs, so
// its place among the other readers and writers is kept). The recorded order satisfies all of them. Of a
// trace whose reads are not known the graph lacks edges: no other order may be made from it.
#pragma once

#include <cstdint>
#include <vector>

#include "liballoc/wire/trace.h"

namespace terrace::planner {

struct Dependencies {
  std::vector<std::vector<std::uint32_t>> before;  // per operation: what it waits for, ascending, once each
  std::vector<std::vector<std::uint32_t>> after;   // the same edges from the other end
};

Dependencies dependencies_of(const wire::Trace& trace);

// For every operation `i` in recorded order, calls visit(i, is_ancestor): is_ancestor(a) says whether `a`
// must have ended before `i` may begin. The sets are bitsets of the operations before `i`, kept until the
// last operation that waits for `i` is done: n²/16 bytes at worst (225 MB for 60,000 operations).
class AncestorSweep {
 public:
  explicit AncestorSweep(const Dependencies& graph);

  // To the next operation, beginning with 0.
  void advance();

  // Whether `op` is a strict ancestor of the operation advanced to.
  [[nodiscard]] bool is_ancestor(std::uint32_t op) const;

 private:
  void absorb(std::uint32_t op);

  const Dependencies& graph_;
  std::vector<std::vector<std::uint64_t>> sets_;
  std::vector<std::size_t> waiting_;  // successors that have not been visited
  std::uint32_t current_ = 0xffffffffU;
};

}  // namespace terrace::planner
