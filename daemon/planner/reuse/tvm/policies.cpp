// USMP's algorithms as policies: one pool without bound, conflicts from the lives.
//
// The greedy ones need no lists of conflicts then: a buffer goes above the highest end within its life, and
// that is a maximum over a range of time. With both range operations O(log n), 60,000 buffers with 10^8
// conflicts take milliseconds. Hill climbing does need the lists.
#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

#include "daemon/planner/reuse/families.h"
#include "daemon/planner/reuse/tvm/usmp.h"

namespace terrace::planner {
namespace {

using Indices = std::vector<std::uint32_t>;

constexpr std::uint64_t max_conflicts = 60'000'000;  // 240 MB of lists

// The highest end at each moment, as a segment tree over ranks of time.
class Skyline {
 public:
  explicit Skyline(std::size_t moments) : leaves_(std::bit_ceil(std::max<std::size_t>(moments, 1))) {
    highest_.assign(2 * leaves_, 0);
    whole_.assign(2 * leaves_, 0);
  }

  std::uint64_t highest(std::size_t from, std::size_t to) const {
    std::uint64_t most = 0;
    for_nodes(from, to, [&](std::size_t node) {
      most = std::max(most, highest_[node]);
      for (std::size_t up = node / 2; up > 0; up /= 2) most = std::max(most, whole_[up]);
    });
    return most;
  }

  void raise(std::size_t from, std::size_t to, std::uint64_t end) {
    for_nodes(from, to, [&](std::size_t node) {
      whole_[node] = std::max(whole_[node], end);
      for (std::size_t up = node; up > 0; up /= 2) highest_[up] = std::max(highest_[up], end);
    });
  }

 private:
  // The O(log n) nodes that make up [from, to).
  template <class Visit>
  void for_nodes(std::size_t from, std::size_t to, Visit visit) const {
    for (from += leaves_, to += leaves_; from < to; from /= 2, to /= 2) {
      if (from % 2 == 1) visit(from++);
      if (to % 2 == 1) visit(--to);
    }
  }

  std::size_t leaves_;
  std::vector<std::uint64_t> highest_;  // within the node's range
  std::vector<std::uint64_t> whole_;    // everywhere in it
};

// Sorted times of what begins and of what ends; empty buffers take no part.
struct Times {
  Indices lowers;
  Indices uppers;
};

Times times_of(const std::vector<Buffer>& buffers) {
  Times times;
  for (const Buffer& b : buffers) {
    if (b.bytes == 0) continue;
    times.lowers.push_back(b.lower);
    times.uppers.push_back(b.upper);
  }
  std::sort(times.lowers.begin(), times.lowers.end());
  std::sort(times.uppers.begin(), times.uppers.end());
  return times;
}

// All but those that begin after it ends or end before it begins, and but itself.
std::uint32_t conflicts_of(const Times& times, const Buffer& b) {
  if (b.bytes == 0) return 0;
  const auto begun =
      std::lower_bound(times.lowers.begin(), times.lowers.end(), b.upper) - times.lowers.begin();
  const auto ended =
      std::upper_bound(times.uppers.begin(), times.uppers.end(), b.lower) - times.uppers.begin();
  return static_cast<std::uint32_t>(begun - ended - 1);
}

Placement place_above(const std::vector<Buffer>& buffers, const Times& times, const Indices& order) {
  Skyline skyline(times.lowers.size());
  const auto rank = [&](std::uint32_t time) {
    const auto at = std::lower_bound(times.lowers.begin(), times.lowers.end(), time);
    return static_cast<std::size_t>(at - times.lowers.begin());
  };
  Placement placement{std::vector<std::uint64_t>(buffers.size(), 0), 0};
  for (const std::uint32_t n : order) {
    const Buffer& b = buffers[n];
    if (b.bytes == 0) continue;
    const std::size_t from =
        rank(b.lower);  // moments at which something begins are enough to see every overlap
    const std::size_t to = rank(b.upper);
    const std::uint64_t offset = align_up(skyline.highest(from, to), b.alignment);
    skyline.raise(from, to, align_up(offset + b.bytes, b.alignment));
    placement.offsets[n] = offset;
    placement.total_bytes = std::max(placement.total_bytes, offset + b.bytes);
  }
  return placement;
}

// Key: (bytes, conflicts, index) -> what to sort by, descending.
template <class Key>
Result<Placement> place_greedily(const Instance& instance, Key key) {
  const Times times = times_of(instance.buffers);
  std::vector<decltype(key(std::uint64_t{}, std::uint32_t{}, std::uint32_t{}))> keys;
  for (std::uint32_t n = 0; n < instance.buffers.size(); ++n)
    keys.push_back(key(instance.buffers[n].bytes, conflicts_of(times, instance.buffers[n]), n));
  Indices order(instance.buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return keys[b] < keys[a]; });
  return ok(place_above(instance.buffers, times, order));
}

Result<Placement> place_tvm_by_size(const Instance& instance, const SearchControl&) {
  return place_greedily(instance, [](std::uint64_t bytes, std::uint32_t conflicts, std::uint32_t n) {
    return std::make_tuple(bytes, conflicts, n);
  });
}

Result<Placement> place_by_conflicts(const Instance& instance, const SearchControl&) {
  return place_greedily(instance, [](std::uint64_t bytes, std::uint32_t conflicts, std::uint32_t n) {
    return std::make_tuple(conflicts, bytes, n);
  });
}

void add_conflicts(const Instance& instance, std::vector<tvm::PoolBuffer>* pooled) {
  const std::vector<Buffer>& buffers = instance.buffers;
  Indices by_lower;
  for (std::uint32_t n = 0; n < buffers.size(); ++n)
    if (buffers[n].bytes > 0) by_lower.push_back(n);
  std::sort(by_lower.begin(), by_lower.end(),
            [&](std::uint32_t a, std::uint32_t b) { return buffers[a].lower < buffers[b].lower; });
  for (auto a = by_lower.begin(); a != by_lower.end(); ++a) {
    for (auto b = a + 1; b != by_lower.end() && buffers[*b].lower < buffers[*a].upper; ++b) {
      (*pooled)[*a].conflicts.push_back(*b);
      (*pooled)[*b].conflicts.push_back(*a);
    }
  }
}

Result<Placement> place_climbing(const Instance& instance, const SearchControl& control) {
  const Times times = times_of(instance.buffers);
  std::uint64_t conflicts = 0;
  std::vector<tvm::PoolBuffer> pooled;
  for (const Buffer& b : instance.buffers) {
    conflicts += conflicts_of(times, b);
    pooled.push_back({{}, b.bytes, b.alignment, {}, {0}});
  }
  if (conflicts > max_conflicts) {
    return refused<Placement>("the lists of conflicts would have " + std::to_string(conflicts) +
                              " entries, and the limit is 60000000; take tvm_by_size, which has no lists");
  }
  add_conflicts(instance, &pooled);
  const tvm::Pool pool;
  const std::uint64_t enough =
      control.capacity_bytes > 0 ? control.capacity_bytes : max_live_bytes(instance.buffers);
  auto climbed = tvm::hill_climb(pooled, {&pool, 1}, enough, control);
  if (!climbed) return refused<Placement>(climbed.error);
  const std::uint64_t total = tvm::used_bytes(pooled, {&pool, 1}, *climbed)[0];
  return ok(Placement{std::move(climbed->offsets), total});
}

}  // namespace

std::vector<ReusePolicy> tvm_policies() {
  const char* const family = "tvm";
  return {
      {"tvm_by_size", family, "TVM v0.15, tir/usmp/algo/greedy.cc", place_tvm_by_size},
      {"tvm_by_conflicts", family, "TVM v0.15, tir/usmp/algo/greedy.cc", place_by_conflicts},
      {"tvm_hill_climb", family, "TVM v0.15, tir/usmp/algo/hill_climb.cc", place_climbing},
  };
}

}  // namespace terrace::planner
