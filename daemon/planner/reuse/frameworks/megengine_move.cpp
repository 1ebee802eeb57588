// MegEngine's INTERVAL_MOVE (static_mem_alloc/interval_move.cpp, commit 364afec): place the longest-lived
// first, and push up what is in the way.
//
// Buffers by length of life, longest first, then by begin, then by size, largest first. A new one looks at
// the gaps between the buffers it meets in time. Where it fits, the gap that leaves least wins. Where it fits
// in none, it goes into the gap that raises the peak least, then the one that is short by the least, and all
// that lies above makes room by moving up, which pushes others in turn:
//
//        | C |      | C |          the order of two buffers that meet in time never changes afterwards, so
//   gap  |   |  →   | B | new      "lies below" is a graph without cycles along which space and pushes
//        | A |      | A |          are passed on
//
// The original keeps an edge for every pair that meets, and visits whole subgraphs again for each push. Here
// an edge goes only to what can be seen, at some time, straight above or below; the others are reached
// through it, and neither the room above a buffer (the least over all paths) nor the push (the greatest)
// changes. Pushes go in order of address, so that each buffer moves once.
#include <algorithm>
#include <map>
#include <numeric>
#include <queue>

#include "daemon/planner/reuse/frameworks/common.h"
#include "daemon/planner/reuse/frameworks/planners.h"

namespace terrace::planner::frameworks {
namespace {

constexpr std::uint64_t most = ~std::uint64_t{0};

struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint32_t lower = 0;
  std::uint32_t upper = 0;
  std::vector<std::uint32_t> above;  // seen straight above when one of the two came
  std::uint64_t room = 0;            // how far it can move without raising the peak, if room_of_ says so
  std::uint32_t room_of = 0;

  [[nodiscard]] std::uint64_t end() const { return begin + bytes; }
};

// The times that no buffer has covered yet, looking away from a new one.
class Sight {
 public:
  Sight(std::uint32_t lower, std::uint32_t upper) { open_.emplace(lower, upper); }

  // Whether any of [lower, upper) was open; covers it.
  bool cover(std::uint32_t lower, std::uint32_t upper) {
    auto it = open_.upper_bound(lower);
    if (it != open_.begin()) --it;
    bool seen = false;
    while (it != open_.end() && it->first < upper) {
      const auto [from, to] = *it;
      if (to <= lower) {
        ++it;
        continue;
      }
      seen = true;
      it = open_.erase(it);
      if (from < lower) open_.emplace(from, lower);
      if (to > upper) it = open_.emplace(upper, to).first;
    }
    return seen;
  }

  [[nodiscard]] bool closed() const { return open_.empty(); }

 private:
  std::map<std::uint32_t, std::uint32_t> open_;
};

class Mover {
 public:
  explicit Mover(std::size_t count) { intervals_.reserve(count); }

  // Places it; its number is the number of those before it.
  void insert(const Interval& interval) {
    intervals_.push_back(interval);
    Interval& now = intervals_.back();
    gather(now);
    now.begin = conflicts_.empty() ? 0 : choose(now.bytes);
    peak_ = std::max(peak_, now.end());
    push_up(now);
    connect(static_cast<std::uint32_t>(intervals_.size() - 1));
  }

  [[nodiscard]] std::uint64_t begin(std::size_t n) const { return intervals_[n].begin; }
  [[nodiscard]] std::uint64_t peak() const { return peak_; }

 private:
  struct Gap {
    std::uint64_t begin;
    std::uint64_t end;
    std::size_t above;  // the first conflict above it
  };

  void gather(const Interval& now) {
    conflicts_.clear();
    for (std::uint32_t n = 0; n + 1 < intervals_.size(); ++n) {
      const Interval& other = intervals_[n];
      if (other.lower < now.upper && now.lower < other.upper) conflicts_.push_back(n);
    }
    std::sort(conflicts_.begin(), conflicts_.end(),
              [&](auto a, auto b) { return intervals_[a].begin < intervals_[b].begin; });
    gaps_.clear();
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < conflicts_.size(); ++i) {
      const Interval& other = intervals_[conflicts_[i]];
      // Between two that touch, and under one at the bottom, is a gap of no bytes, which can be widened too.
      if (other.begin >= end) gaps_.push_back({end, other.begin, i});
      end = std::max(end, other.end());
    }
    gaps_.push_back({end, peak_, conflicts_.size()});
  }

  std::uint64_t choose(std::uint64_t bytes) {
    std::uint64_t least = most;
    std::uint64_t best = most;
    for (const Gap& gap : gaps_) {
      const std::uint64_t size = gap.end - gap.begin;
      if (size < bytes || size - bytes >= least) continue;
      least = size - bytes;
      best = gap.begin;
    }
    return best != most ? best : choose_to_widen(bytes);
  }

  std::uint64_t choose_to_widen(std::uint64_t bytes) {
    const std::vector<std::uint64_t> ceiling = ceilings();
    std::uint64_t best = most;
    std::uint64_t least_rise = most;
    std::uint64_t least_short = most;
    for (const Gap& gap : gaps_) {
      const std::uint64_t end = gap.begin + bytes;
      const std::uint64_t above = std::min(ceiling[gap.above], peak_);
      const std::uint64_t rise = end - std::min(end, above);
      const std::uint64_t lacks = bytes - (gap.end - gap.begin);
      if (rise > least_rise || (rise == least_rise && lacks >= least_short)) continue;
      best = gap.begin;
      least_rise = rise;
      least_short = lacks;
    }
    return best;
  }

  // Per conflict: the lowest that any conflict from it upwards would begin at, were all pushed to the peak.
  std::vector<std::uint64_t> ceilings() {
    ++room_version_;
    std::vector<std::uint64_t> ceiling(conflicts_.size() + 1, most);
    for (std::size_t i = conflicts_.size(); i-- > 0;) {
      const Interval& other = intervals_[conflicts_[i]];
      ceiling[i] = std::min(ceiling[i + 1], other.begin + room_above(conflicts_[i]));
    }
    return ceiling;
  }

  // Post-order over what lies above; each is computed once per version.
  std::uint64_t room_above(std::uint32_t root) {
    stack_.assign(1, root);
    while (!stack_.empty()) {
      Interval& top = intervals_[stack_.back()];
      if (top.room_of == room_version_) {
        stack_.pop_back();
        continue;
      }
      const std::size_t depth = stack_.size();
      std::uint64_t room = peak_ - top.end();
      for (const std::uint32_t n : top.above) {
        const Interval& other = intervals_[n];
        if (other.room_of != room_version_) {
          stack_.push_back(n);
        } else {
          room = std::min(room, other.room + other.begin - top.end());
        }
      }
      if (stack_.size() != depth) continue;
      top.room = room;
      top.room_of = room_version_;
      stack_.pop_back();
    }
    return intervals_[root].room;
  }

  // Everything that meets `now` and reaches above its begin moves to its end, and pushes on.
  void push_up(const Interval& now) {
    using Push = std::pair<std::uint64_t, std::uint32_t>;  // where it lay, buffer
    std::priority_queue<Push, std::vector<Push>, std::greater<>> pushes;
    const auto push = [&](std::uint32_t n, std::uint64_t end) {
      Interval& other = intervals_[n];
      if (other.begin >= end) return;
      if (wanted_.size() < intervals_.size()) wanted_.resize(intervals_.size(), 0);
      if (wanted_[n] == 0) pushes.emplace(other.begin, n);
      wanted_[n] = std::max(wanted_[n], end);
    };
    for (const std::uint32_t n : conflicts_) {
      if (intervals_[n].end() > now.begin) push(n, now.end());
    }
    for (; !pushes.empty();) {
      const std::uint32_t n = pushes.top().second;
      pushes.pop();
      intervals_[n].begin = std::exchange(wanted_[n], 0);
      peak_ = std::max(peak_, intervals_[n].end());
      for (const std::uint32_t above : intervals_[n].above) push(above, intervals_[n].end());
    }
  }

  void connect(std::uint32_t now) {
    Interval& fresh = intervals_[now];
    const auto first_above = std::partition_point(conflicts_.begin(), conflicts_.end(), [&](std::uint32_t n) {
      return intervals_[n].begin < fresh.begin;
    });
    Sight up(fresh.lower, fresh.upper);
    for (auto it = first_above; it != conflicts_.end() && !up.closed(); ++it) {
      if (up.cover(intervals_[*it].lower, intervals_[*it].upper)) fresh.above.push_back(*it);
    }
    Sight down(fresh.lower, fresh.upper);
    for (auto it = first_above; it != conflicts_.begin() && !down.closed();) {
      Interval& other = intervals_[*--it];
      if (down.cover(other.lower, other.upper)) other.above.push_back(now);
    }
  }

  std::vector<Interval> intervals_;
  std::vector<std::uint32_t> conflicts_;  // of the one being placed, by address
  std::vector<Gap> gaps_;                 // between them
  std::vector<std::uint64_t> wanted_;     // during push_up(): the begin it is pushed to, 0: not pushed
  std::vector<std::uint32_t> stack_;
  std::uint32_t room_version_ = 0;
  std::uint64_t peak_ = 0;
};

std::vector<std::uint32_t> longest_first(const std::vector<Buffer>& buffers) {
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) {
    const Buffer& a = buffers[x];
    const Buffer& b = buffers[y];
    const std::uint32_t length_a = a.upper - a.lower;
    const std::uint32_t length_b = b.upper - b.lower;
    if (length_a != length_b) return length_a > length_b;
    return a.lower != b.lower ? a.lower < b.lower : a.bytes > b.bytes;
  });
  return order;
}

}  // namespace

Result<Placement> place_interval_move(const Instance& instance, const SearchControl& control) {
  const Sizes sizes = aligned_sizes(instance);
  std::vector<std::uint32_t> order = longest_first(instance.buffers);
  std::erase_if(order, [&](std::uint32_t n) { return instance.buffers[n].bytes == 0; });
  Mover mover(order.size());
  for (const std::uint32_t n : order) {
    if (control.stop && control.stop()) return refused<Placement>("stopped before any placement was found");
    mover.insert({0, sizes.bytes[n], instance.buffers[n].lower, instance.buffers[n].upper, {}, 0, 0});
  }
  Placement placement{std::vector<std::uint64_t>(instance.buffers.size(), 0), mover.peak()};
  for (std::size_t i = 0; i < order.size(); ++i) placement.offsets[order[i]] = mover.begin(i);
  return ok(std::move(placement));
}

}  // namespace terrace::planner::frameworks
