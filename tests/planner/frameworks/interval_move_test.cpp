// INTERVAL_MOVE against its definition taken word for word: an edge for every pair that meets, the room above
// and the pushes by plain recursion, the rise of the peak by a loop over all pairs. The planner keeps far
// fewer edges, and must still give the very same offsets.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "daemon/planner/reuse/frameworks/planners.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner {
namespace {

class PlainMover {
 public:
  explicit PlainMover(const std::vector<Buffer>& buffers)
      : buffers_(buffers), begin_(buffers.size(), 0), above_(buffers.size()) {}

  std::vector<std::uint64_t> run() {
    std::vector<std::uint32_t> order(buffers_.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto key = [&](std::uint32_t n) {
      const Buffer& b = buffers_[n];
      return std::tuple(~std::uint64_t{b.upper - b.lower}, b.lower, ~b.bytes);
    };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return key(a) < key(b); });
    for (std::size_t i = 0; i < order.size(); ++i) {
      conflicts_.clear();
      for (std::size_t j = 0; j < i; ++j) {
        if (overlap_in_time(buffers_[order[i]], buffers_[order[j]])) conflicts_.push_back(order[j]);
      }
      insert(order[i]);
    }
    return begin_;
  }

 private:
  std::uint64_t end(std::uint32_t n) const { return begin_[n] + buffers_[n].bytes; }

  void insert(std::uint32_t now) {
    begin_[now] = conflicts_.empty() ? 0 : choose(buffers_[now].bytes);
    peak_ = std::max(peak_, end(now));
    for (const std::uint32_t n : conflicts_) {
      if (end(n) > begin_[now]) push(n, end(now));
    }
    for (const std::uint32_t n : conflicts_) {
      if (begin_[n] < begin_[now]) {
        above_[n].push_back(now);
      } else {
        above_[now].push_back(n);
      }
    }
  }

  void push(std::uint32_t n, std::uint64_t to) {
    if (begin_[n] >= to) return;
    begin_[n] = to;
    peak_ = std::max(peak_, end(n));
    for (const std::uint32_t m : above_[n]) push(m, end(n));
  }

  std::uint64_t room(std::uint32_t n) const {
    std::uint64_t least = peak_ - end(n);
    for (const std::uint32_t m : above_[n]) least = std::min(least, room(m) + begin_[m] - end(n));
    return least;
  }

  std::uint64_t rise(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) const {
    std::uint64_t most = std::max(from + bytes, peak_) - peak_;
    const std::uint64_t lacks = bytes - (to - from);
    for (const std::uint32_t n : conflicts_) {
      if (end(n) <= from) continue;
      const std::uint64_t distance = begin_[n] - to + room(n);
      if (distance < lacks) most = std::max(most, lacks - distance);
    }
    return most;
  }

  void consider(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
    if (to - from >= bytes) {
      if (to - from - bytes >= best_space_) return;
      best_rise_ = best_lack_ = 0;
      best_space_ = to - from - bytes;
      best_ = from;
      return;
    }
    const std::uint64_t lacks = bytes - (to - from);
    const std::uint64_t rises = rise(from, to, bytes);
    if (std::pair(rises, lacks) >= std::pair(best_rise_, best_lack_)) return;
    best_rise_ = rises;
    best_lack_ = lacks;
    best_ = from;
  }

  std::uint64_t choose(std::uint64_t bytes) {
    best_rise_ = best_lack_ = best_space_ = ~std::uint64_t{0};
    std::sort(conflicts_.begin(), conflicts_.end(), [&](auto a, auto b) { return begin_[a] < begin_[b]; });
    std::vector<std::pair<std::uint64_t, std::uint64_t>> merged;
    for (const std::uint32_t n : conflicts_) {
      if (merged.empty() || begin_[n] >= merged.back().second) {
        merged.emplace_back(begin_[n], end(n));
      } else {
        merged.back().second = std::max(merged.back().second, end(n));
      }
    }
    std::uint64_t from = 0;
    for (const auto& [begins, ends] : merged) {
      consider(from, begins, bytes);
      from = ends;
    }
    consider(from, peak_, bytes);
    return best_;
  }

  const std::vector<Buffer>& buffers_;
  std::vector<std::uint64_t> begin_;
  std::vector<std::vector<std::uint32_t>> above_;
  std::vector<std::uint32_t> conflicts_;
  std::uint64_t peak_ = 0;
  std::uint64_t best_ = 0;
  std::uint64_t best_rise_ = 0;
  std::uint64_t best_lack_ = 0;
  std::uint64_t best_space_ = 0;
};

}  // namespace

TEST_CASE("INTERVAL_MOVE gives the offsets of its definition") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::uint32_t count = 5 + static_cast<std::uint32_t>(seed % 30);
    const Instance lives = test::random_instance(seed, count, 12 + count / 2, seed % 2 == 0 ? 6 : 900);
    const Result<Placement> result = frameworks::place_interval_move(lives, {});
    INFO("seed " << seed);
    REQUIRE(result);
    REQUIRE(result->offsets == PlainMover(lives.buffers).run());
  }
}

}  // namespace terrace::planner
