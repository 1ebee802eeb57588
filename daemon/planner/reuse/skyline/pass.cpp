#include "daemon/planner/reuse/skyline/pass.h"

#include <algorithm>
#include <functional>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner::skyline {

Pass::Pass(const Part& part) : part_(part), first_block_(part.sections + 1), load_(part.sections + 1) {
  for (const Block& b : part.blocks) {
    ++first_block_[b.lower + 1];
    load_[b.lower] += b.bytes;  // modulo 2^64 until summed
    load_[b.upper] -= b.bytes;
  }
  for (std::uint32_t s = 0; s < part.sections; ++s) {
    first_block_[s + 1] += first_block_[s];
    load_[s + 1] += load_[s];
  }
  load_.pop_back();
}

std::optional<std::uint64_t> Pass::place(const Rule& rule, std::vector<std::uint64_t>* offsets) {
  offsets->assign(part_.blocks.size(), 0);
  offsets_ = offsets;
  reset(rule);
  while (left_ > 0) {
    if (!fill(lowest()) || (left_ % 1024 == 0 && stopped())) return std::nullopt;
  }
  return top_;
}

// A pass that is complete counts, however late it is.
bool Pass::stopped() const { return left_ > 0 && rule_.stop != nullptr && *rule_.stop && (*rule_.stop)(); }

void Pass::reset(const Rule& rule) {
  rule_ = rule;
  top_ = part_.floor_bytes;
  left_ = static_cast<std::uint32_t>(part_.blocks.size());
  waiting_.reset(load_);
  unplaced_.reset(part_.blocks, rule.priority);
  segments_.clear();
  spare_.clear();
  queue_.clear();
  announce(make({0, part_.sections, part_.floor_bytes, no_segment, no_segment, 0}));
}

// One step in the valley: a block laid, or the floor raised. False where the cutoff is reached.
bool Pass::fill(std::uint32_t valley) {
  const Segment& v = segments_[valley];
  const LoadTree::Peak peak = waiting_.peak(v.begin, v.end);
  const std::uint64_t wall = wall_of(v);
  const std::uint32_t block = peak.bytes > 0 ? choose(v, peak, wall) : no_block;
  return block == no_block ? raise(valley, wall, peak.bytes) : lay(valley, block);
}

std::uint32_t Pass::choose(const Segment& valley, const LoadTree::Peak& peak, std::uint64_t wall) const {
  const std::uint32_t begin = first_block_[valley.begin];
  const bool scarce =
      rule_.fill == Fill::tightest || wall == no_wall || wall + peak.bytes > rule_.capacity_bytes;
  if (scarce && rule_.fill != Fill::by_priority) {
    const std::uint32_t block =
        unplaced_.first({begin, first_block_[peak.section + 1], peak.section, valley.end});
    if (block != no_block) return block;
  }
  return unplaced_.first({begin, first_block_[valley.end], 0, valley.end});
}

// The total will be at least this: the capacity grows where it must, up to the cutoff.
bool Pass::afford(std::uint64_t total) {
  rule_.capacity_bytes = std::max(rule_.capacity_bytes, total);
  return total - part_.most_tail < rule_.cutoff_bytes;
}

// A valley without walls holds whatever waits, so there is always a wall here.
bool Pass::raise(std::uint32_t valley, std::uint64_t wall, std::uint64_t waiting) {
  if (waiting > 0 && !afford(wall + waiting)) return false;
  segments_[valley].height = wall;
  join(valley);
  return true;
}

bool Pass::lay(std::uint32_t valley, std::uint32_t block) {
  const Block& b = part_.blocks[block];
  const std::uint64_t offset = align_up(segments_[valley].height, b.alignment);
  if (offset != segments_[valley].height && !afford(offset + waiting_.peak(b.lower, b.upper).bytes)) {
    return false;
  }
  if (b.end_at(offset) >= rule_.cutoff_bytes) return false;
  (*offsets_)[block] = offset;
  top_ = std::max(top_, b.end_at(offset));
  waiting_.subtract(b.lower, b.upper, b.bytes);
  unplaced_.remove(block);
  --left_;
  ++placements_;
  split(valley, b.lower, b.upper, offset + b.bytes);
  return true;
}

std::uint64_t Pass::height_of(std::uint32_t segment) const {
  return segment == no_segment ? no_wall : segments_[segment].height;
}

std::uint64_t Pass::wall_of(const Segment& valley) const {
  return std::min(height_of(valley.left), height_of(valley.right));
}

std::uint32_t Pass::lowest() {
  while (segments_[queue_.front().segment].version != queue_.front().version) {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    queue_.pop_back();
  }
  return queue_.front().segment;
}

std::uint32_t Pass::make(const Segment& segment) {
  if (spare_.empty()) {
    segments_.push_back(segment);
    return static_cast<std::uint32_t>(segments_.size() - 1);
  }
  const std::uint32_t reused = spare_.back();
  spare_.pop_back();
  const std::uint32_t version = segments_[reused].version;
  segments_[reused] = segment;
  segments_[reused].version = version;
  return reused;
}

void Pass::announce(std::uint32_t segment) {
  Segment& s = segments_[segment];
  queue_.push_back({s.height, s.begin, segment, ++s.version});
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

// [lower, upper) of the valley gets another height; what is left of it on both sides stays as it is.
void Pass::split(std::uint32_t valley, std::uint32_t lower, std::uint32_t upper, std::uint64_t height) {
  const Segment v = segments_[valley];
  if (v.begin < lower) {
    const std::uint32_t before = make({v.begin, lower, v.height, v.left, valley, 0});
    if (v.left != no_segment) segments_[v.left].right = before;
    segments_[valley].left = before;
    announce(before);
  }
  if (upper < v.end) {
    const std::uint32_t after = make({upper, v.end, v.height, valley, v.right, 0});
    if (v.right != no_segment) segments_[v.right].left = after;
    segments_[valley].right = after;
    announce(after);
  }
  segments_[valley].begin = lower;
  segments_[valley].end = upper;
  segments_[valley].height = height;
  join(valley);
}

// Neighbours of one height are one segment.
void Pass::join(std::uint32_t segment) {
  const std::uint64_t height = segments_[segment].height;
  if (height_of(segments_[segment].right) == height) absorb_right(segment);
  const std::uint32_t left = segments_[segment].left;
  if (height_of(left) == height) {
    absorb_right(left);
    segment = left;
  }
  announce(segment);
}

void Pass::absorb_right(std::uint32_t segment) {
  const std::uint32_t gone = segments_[segment].right;
  const std::uint32_t right = segments_[gone].right;
  segments_[segment].end = segments_[gone].end;
  segments_[segment].right = right;
  if (right != no_segment) segments_[right].left = segment;
  ++segments_[gone].version;
  spare_.push_back(gone);
}

}  // namespace terrace::planner::skyline
