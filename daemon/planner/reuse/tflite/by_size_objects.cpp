// GREEDY_BY_SIZE for objects (TFLite's GreedyBySizeDistPriorityAssignment).
//
// Each step takes the unassigned tensor with the smallest (position, distance, -size): position is its place
// among the positional maxima, distance the gap in time to the nearest tensor of the nearest object that it
// does not overlap. TFLite keeps all distances of all tensors to all objects, 2 GB for 60,000 tensors. But
// position comes first and never changes, so tensors are taken position by position, and only those of the
// current one need their distances: when a position begins, its tensors replay the assignments so far in
// their order, which leaves them in the state (ties included) in which TFLite has them.
//
// One oddity is TFLite's and decides ids: when the best object of a tensor gets blocked, the smallest id
// among the nearest wins; otherwise the object that first came so near stays.
#include <algorithm>
#include <numeric>
#include <string>

#include "daemon/planner/reuse/tflite/strategies.h"

namespace terrace::planner::tflite {
namespace {

constexpr std::uint32_t infinite = 0xffffffffU;
constexpr std::size_t max_distances = std::size_t{128} << 20U;

struct Assigned {
  Record record;
  std::uint32_t object;
};

std::uint32_t distance(const Record& a, const Record& b) {
  if (a.last_task < b.first_task) return b.first_task - a.last_task;
  if (b.last_task < a.first_task) return a.first_task - b.last_task;
  return infinite;
}

struct Candidate {
  std::uint32_t record = 0;
  std::uint32_t best_distance = infinite;
  std::uint32_t best_object = unassigned;
  std::vector<std::uint32_t> distances;  // to each object; infinite: overlaps one of its tensors

  void recompute_best() {
    const auto least = std::min_element(distances.begin(), distances.end());
    best_distance = *least;
    if (best_distance != infinite) best_object = static_cast<std::uint32_t>(least - distances.begin());
  }

  void see(const Record& own, const Assigned& other) {
    const std::uint32_t d = distance(own, other.record);
    if (other.object == distances.size()) {
      distances.push_back(d);
    } else if (distances[other.object] == infinite) {
      return;
    } else if (d == infinite) {
      distances[other.object] = infinite;
      if (best_object == other.object) recompute_best();
      return;
    } else {
      distances[other.object] = std::min(distances[other.object], d);
    }
    if (d < best_distance) {
      best_distance = d;
      best_object = other.object;
    }
  }
};

// The rightmost place among the maxima that is at least as large.
std::vector<std::uint32_t> positions_of(Records records) {
  const std::vector<std::uint64_t> maxima = positional_maxima(records);
  std::vector<std::uint32_t> positions;
  positions.reserve(records.size());
  for (const Record& r : records) {
    const auto after = std::upper_bound(maxima.begin(), maxima.end(), r.size, std::greater<>());
    positions.push_back(static_cast<std::uint32_t>(after - maxima.begin() - 1));
  }
  return positions;
}

class ObjectAssignment {
 public:
  ObjectAssignment(Records records, const Stop& stop) : records_(records), stop_(stop) {
    objects_.object_of.assign(records.size(), unassigned);
  }

  // Assigns the records of one position, given in the order of their indices.
  void assign_position(std::span<const std::uint32_t> of_position) {
    candidates_.resize(of_position.size());
    for (std::size_t i = 0; i < of_position.size() && why_.empty(); ++i) {
      candidates_[i] = {of_position[i], infinite, unassigned, {}};
      for (const Assigned& earlier : history_) candidates_[i].see(records_[of_position[i]], earlier);
      check(i);
    }
    while (!candidates_.empty() && why_.empty()) assign_next();
  }

  const std::string& why() const { return why_; }
  Objects objects() && { return std::move(objects_); }

 private:
  // A step is O(n): that often enough for whoever steers, and for the bound on memory.
  void check(std::size_t rows) {
    if (rows * objects_.object_bytes.size() > max_distances)
      why_ =
          "the table of distances would exceed 512 MiB; take tflite_by_size or tflite_by_breadth, which have "
          "none";
    if (stop_ && ++steps_ % 64 == 0 && stop_()) why_ = "stopped before all buffers were assigned";
  }

  bool before(const Candidate& a, const Candidate& b) const {
    if (a.best_distance != b.best_distance) return a.best_distance < b.best_distance;
    const std::uint64_t a_size = records_[a.record].size;
    const std::uint64_t b_size = records_[b.record].size;
    return a_size != b_size ? a_size > b_size : a.record < b.record;
  }

  void assign_next() {
    const auto next = std::min_element(candidates_.begin(), candidates_.end(),
                                       [&](const Candidate& a, const Candidate& b) { return before(a, b); });
    const std::uint32_t record = next->record;
    std::uint32_t object = next->best_object;
    if (next->best_distance == infinite) {
      object = static_cast<std::uint32_t>(objects_.object_bytes.size());
      objects_.object_bytes.push_back(0);
    }
    std::swap(*next, candidates_.back());
    candidates_.pop_back();
    objects_.object_bytes[object] = std::max(objects_.object_bytes[object], records_[record].size);
    objects_.object_of[record] = object;
    history_.push_back({records_[record], object});
    for (Candidate& c : candidates_) c.see(records_[c.record], history_.back());
    check(candidates_.size());
  }

  Records records_;
  const Stop& stop_;
  std::uint64_t steps_ = 0;
  std::string why_;
  Objects objects_;
  std::vector<Assigned> history_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Result<Objects> by_size_objects(Records records, const Stop& stop) {
  const std::vector<std::uint32_t> positions = positions_of(records);
  std::vector<std::uint32_t> order(records.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return positions[a] < positions[b]; });
  ObjectAssignment assignment(records, stop);
  for (std::size_t begin = 0, end = 0; begin < order.size() && assignment.why().empty(); begin = end) {
    while (end < order.size() && positions[order[end]] == positions[order[begin]]) ++end;
    assignment.assign_position(std::span(order).subspan(begin, end - begin));
  }
  if (!assignment.why().empty()) return refused<Objects>(assignment.why());
  return ok(std::move(assignment).objects());
}

}  // namespace terrace::planner::tflite
