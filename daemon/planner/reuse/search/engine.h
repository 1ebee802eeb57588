// The search: one part, one capacity, one order of the buffers, until it succeeds, is shown hopeless, or
// runs out of nodes.
//
// Canonical placements. Every feasible placement can be pushed down until each buffer lies at 0 or on
// another; and it can be built in the order of (offset, rank). So the search always looks at the buffer b
// left with the smallest (low, rank) and has two choices: b lies at its low, or higher.
//
//   place   If b's low is the top of what is beneath it. Everything that overlaps b in time moves above it.
//   raise   Else b will lie on some buffer c that is not placed yet: low of b = min over c of (low c + bytes
//   c).
//           If there is no such c, the state is hopeless (MiniMalloc's hatless pruning follows from this).
//
// MiniMalloc (Moffitt, ASPLOS'23 vol 4, sections 4 to 6) chooses among all buffers at once, and a buffer that
// has been passed over keeps its old bound; here it rises and takes the floors of its sections with it, and
// its gaps are seen at once (section_check.h). Further:
//
//   Decomposition  When no buffer left spans a border of sections, both sides are problems of their own. They
//   are
//                  solved one after the other, starting afresh from the floors.
//   Jumping back   A failure has a reason: the placed buffers without which it would not have come about
//                  (bounds.h). If the buffer placed last is not among them, no other offset of it helps, and
//                  its alternatives are skipped. In these instances failures are local in time while the
//                  order of placing is by offset, so most of the placements in between are innocent.
//   Failed states  A failure under the placements P means: no placement, canonical or not, of what is left
//   above
//                  the floors that P makes. (Any one could be pushed down to a canonical one that contains
//                  P.) So (buffers left, floors) is remembered and pruned wherever it comes up again: after
//                  an exchange in a stack, in the next restart, under another order. It is for this that
//                  sub-problems start afresh: a bound raised on the way may rest on another sub-problem.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/planner/reuse/search/activity.h"
#include "daemon/planner/reuse/search/bounds.h"
#include "daemon/planner/reuse/search/failed_states.h"
#include "daemon/planner/reuse/search/problem.h"
#include "daemon/planner/reuse/search/search.h"
#include "daemon/planner/reuse/search/section_check.h"

namespace terrace::planner::search {

// Nodes spent and allowed, and the caller's wish to stop.
class Budget {
 public:
  // A node takes time in proportion to `items`; the larger they are, the more often `stop` is asked.
  Budget(const SearchLimits& limits, std::size_t items);
  void allow(std::uint64_t nodes) { round_ = nodes; }
  bool spend();
  bool over() const { return stopped_ || used_ >= limits_.nodes; }
  bool asked_to_stop() const { return stopped_; }
  std::uint64_t used() const { return used_; }

 private:
  const SearchLimits& limits_;
  std::uint64_t used_ = 0;
  std::uint64_t nodes_per_question_;
  std::uint64_t round_ = 0;
  bool stopped_ = false;
};

class Engine {
 public:
  // `failed` must be of the same problem and a capacity that is not smaller.
  Engine(const Problem& problem, std::int64_t capacity, std::span<const std::uint32_t> order,
         FailedStates& failed, Activity& activity, Budget& budget);

  Verdict run();
  // After `found`: offsets per item of the problem.
  std::vector<std::int64_t> offsets() const;

 private:
  using List = std::vector<Rank>;  // buffers left, by (low, rank)

  Verdict component(List left, std::size_t depth);
  Verdict components(const List& left, std::size_t depth);
  Verdict descend(std::size_t depth);
  Verdict try_place(Rank b, std::size_t depth);
  Verdict place(Rank b, std::size_t depth);
  bool stack_on(Rank b, const List& before, List& after, SectionRange& touched);
  void merge_risen(List& after);
  bool raise(List& left, bool was_placed);
  std::int64_t next_support(const List& left) const;
  void explain_raise(const List& left, std::int64_t low, bool was_placed);

  bool supported(Rank b) const;
  bool before(Rank a, Rank b) const;
  bool known_failure(const List& left);
  bool uncover(Rank b);
  void unplace_to(std::size_t mark);
  void unite(const Bounds::Word* row);
  std::vector<List> split(List left) const;

  const std::int64_t capacity_;
  Bounds bounds_;
  SectionCheck check_;
  FailedStates& failed_;
  Activity& activity_;
  Budget& budget_;
  BitRows neighbours_;                // per rank: which it overlaps in time
  BitRows sets_{0, 0};                // row 0: placed buffers; row 1: the reason of the last failure
  std::vector<std::int64_t> offset_;  // per rank, of placed ones
  std::vector<char> placed_;
  std::vector<Rank> stack_;          // placed, in order
  std::vector<std::int32_t> spans_;  // per border of sections: how many buffers left span it
  std::vector<List> lists_;          // one per depth
  List risen_;                       // those whose low the last placement changed
  List merged_;
};

}  // namespace terrace::planner::search
