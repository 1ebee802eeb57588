// One pass that places a part bottom up, and knows at every step what it can still afford.
//
//   offset
//     |   ____           the skyline: per section the end of what lies there. Every block is laid on the
//     |  |    |__        floor of the lowest valley, so a valley takes only blocks that live inside it:
//     |__|  <-valley |__ nothing is wasted by laying one, only by giving a valley up and raising its floor
//     |______________    to the lower of its walls.
//        sections ->
//
// The bytes still to be laid at section s are known, so height(s) + waiting(s) is a lower bound of the total
// at every step; the difference from the capacity is what may still be wasted at s. The rule: fill the valley
// at its tightest section while raising it would exceed the capacity, otherwise by priority. A pass that can
// no longer get below `cutoff_bytes` ends at once. The bound is the section inference of MiniMalloc (Moffitt,
// ASPLOS'23 vol. 4, sec. 4); used to steer a greedy pass it reaches the max-load bound on most training
// steps. O(n log n) a pass: 18,700 blocks take 30 ms.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "daemon/planner/load_tree.h"
#include "daemon/planner/reuse/skyline/part.h"
#include "daemon/planner/reuse/skyline/pick_tree.h"

namespace terrace::planner::skyline {

// Which block goes into the lowest valley.
enum class Fill : std::uint8_t {
  tightest_where_scarce,  // at its tightest section where raising it would exceed the capacity, else by
                          // priority
  tightest,               // always at its tightest section
  by_priority             // always the first of all that live inside it
};

struct Rule {
  std::uint64_t capacity_bytes = 0;  // in rounded sizes, what to stay within; exceeded if it must be
  std::uint64_t cutoff_bytes = 0;    // give up when the highest end cannot be below
  Fill fill = Fill::tightest_where_scarce;
  std::span<const float> priority = {};         // one per block; higher goes first
  const std::function<bool()>* stop = nullptr;  // asked every 1,024 placements; null or empty: never
};

class Pass {
 public:
  explicit Pass(const Part& part);  // the part must outlive it

  // The highest end, or nothing where the cutoff was reached or `stop` said so; *offsets are by block, and
  // mean nothing in that case.
  std::optional<std::uint64_t> place(const Rule& rule, std::vector<std::uint64_t>* offsets);

  std::uint64_t placements() const { return placements_; }  // blocks laid since construction: the work done

 private:
  struct Segment {
    std::uint32_t begin;
    std::uint32_t end;
    std::uint64_t height;
    std::uint32_t left;  // neighbours, no_segment at the ends
    std::uint32_t right;
    std::uint32_t version;  // changed whenever the segment does: older entries of the queue are void
  };
  struct Entry {
    std::uint64_t height;
    std::uint32_t begin;
    std::uint32_t segment;
    std::uint32_t version;
    bool operator>(const Entry& o) const { return height != o.height ? height > o.height : begin > o.begin; }
  };
  static constexpr std::uint32_t no_segment = 0xffffffffU;
  static constexpr std::uint64_t no_wall = ~std::uint64_t{0};

  void reset(const Rule& rule);
  bool fill(std::uint32_t valley);
  bool stopped() const;
  std::uint32_t choose(const Segment& valley, const LoadTree::Peak& peak, std::uint64_t wall) const;
  bool raise(std::uint32_t valley, std::uint64_t wall, std::uint64_t waiting);
  bool lay(std::uint32_t valley, std::uint32_t block);
  bool afford(std::uint64_t total);
  std::uint64_t wall_of(const Segment& valley) const;
  std::uint64_t height_of(std::uint32_t segment) const;
  std::uint32_t lowest();
  std::uint32_t make(const Segment& segment);
  void split(std::uint32_t valley, std::uint32_t lower, std::uint32_t upper, std::uint64_t height);
  void join(std::uint32_t segment);
  void absorb_right(std::uint32_t segment);
  void announce(std::uint32_t segment);

  const Part& part_;
  std::vector<std::uint32_t> first_block_;  // of each section, and one past the last
  std::vector<std::uint64_t> load_;         // of each section
  LoadTree waiting_;
  PickTree unplaced_;
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> spare_;
  std::vector<Entry> queue_;  // a binary heap, lowest first
  Rule rule_;
  std::vector<std::uint64_t>* offsets_ = nullptr;
  std::uint64_t top_ = 0;
  std::uint32_t left_ = 0;
  std::uint64_t placements_ = 0;
};

}  // namespace terrace::planner::skyline
