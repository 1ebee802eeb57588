// USMP's hill climbing, with its sequence of random numbers.
//
// An attempt places all buffers in the current order; if the total is smaller, or by chance, it is accepted,
// otherwise the swap that led to it is taken back. Then a buffer at the top of a pool is drawn, and two
// buffers that may have pushed it there are swapped: earlier neighbours of it, or of its neighbours.
//
// Only what stands behind the first swapped position can move, so an attempt starts there. The one subtlety
// is TVM's: when nothing can be swapped, the next attempt equals the last, is not better, and takes back the
// last swap a second time; the order then differs from the one in which the buffers lie. `valid_` says up to
// where the two agree.
#include <stdlib.h>

#include <algorithm>
#include <optional>

#include "daemon/planner/reuse/tvm/usmp.h"

namespace terrace::planner::tvm {
namespace {

constexpr std::uint64_t max_attempts = 500;

class Climber {
 public:
  Climber(PoolBuffers buffers, Pools pools, std::uint64_t seed)
      : buffers_(buffers), pools_(pools), seed_(static_cast<unsigned>(seed)), order_(order_by_size(buffers)) {
    position_.resize(order_.size());
    for (std::uint32_t p = 0; p < order_.size(); ++p) position_[order_[p]] = p;
    placed_ = {std::vector<std::uint32_t>(order_.size(), no_pool),
               std::vector<std::uint64_t>(order_.size(), 0)};
    weight_.resize(order_.size(), 0);
  }

  Result<PoolPlacement> climb(std::uint64_t enough_bytes, const SearchControl& control) {
    for (std::uint64_t attempt = 0; attempt < max_attempts; ++attempt) {
      if (attempt > 0 && control.stop && control.stop()) break;
      PoolPlacement before = placed_;
      if (!place_all(attempt == 0 ? SearchControl{} : control)) break;
      if (is_accepted(attempt)) {
        accept(enough_bytes, control);
        if (total_ && *total_ <= enough_bytes) break;
      } else {
        take_back(std::move(before));
      }
      agreed_ = valid_;
      swap_of_attempt_ = false;
      if (!propose()) return refused<PoolPlacement>("no pool has room for any buffer");
    }
    if (misfits(accepted_) > 0)
      return refused<PoolPlacement>("the pools have no room for " + std::to_string(misfits(accepted_)) +
                                    " buffers");
    return ok(std::move(accepted_));
  }

 private:
  std::uint32_t random() { return static_cast<std::uint32_t>(rand_r(&seed_)); }

  // Places everything behind valid_; false when stopped in the middle.
  bool place_all(const SearchControl& control) {
    for (; valid_ < order_.size(); ++valid_) {
      if (control.stop && valid_ % 1024 == 1023 && control.stop()) return false;
      place(order_[valid_]);
    }
    return true;
  }

  // First fit among the conflicts that come earlier in the order, in each pool; then the preferred pool that
  // fits.
  void place(std::uint32_t b) {
    const PoolBuffer& buffer = buffers_[b];
    neighbours_.clear();
    for (const std::uint32_t c : buffer.conflicts)
      if (position_[c] < position_[b] && placed_.pool_of[c] != no_pool) neighbours_.push_back(c);
    std::sort(neighbours_.begin(), neighbours_.end(),
              [&](std::uint32_t x, std::uint32_t y) { return placed_.offsets[x] < placed_.offsets[y]; });
    placed_.pool_of[b] = no_pool;
    placed_.offsets[b] = 0;
    for (const std::uint32_t p : buffer.pools) {
      const std::optional<std::uint64_t> offset = first_fit(buffer, p);
      if (!offset) continue;
      placed_.pool_of[b] = p;
      placed_.offsets[b] = *offset;
      return;
    }
  }

  // As in TVM a pool is out as soon as the room above any neighbour is too small, whether it is needed or
  // not.
  std::optional<std::uint64_t> first_fit(const PoolBuffer& buffer, std::uint32_t pool) const {
    const std::uint64_t capacity = pools_[pool].capacity_bytes;
    if (buffer.bytes > capacity) return std::nullopt;
    std::uint64_t offset = 0;
    for (const std::uint32_t c : neighbours_) {
      if (placed_.pool_of[c] != pool) continue;
      const std::uint64_t alignment = std::max(buffer.alignment, buffers_[c].alignment);
      const std::uint64_t above = align_up(placed_.offsets[c] + buffers_[c].bytes, alignment);
      if (above + buffer.bytes > capacity) return std::nullopt;
      if (above > offset && offset + buffer.bytes > placed_.offsets[c]) offset = above;
    }
    return offset;
  }

  static std::size_t misfits(const PoolPlacement& placement) {
    return static_cast<std::size_t>(std::count(placement.pool_of.begin(), placement.pool_of.end(), no_pool));
  }

  std::uint64_t total_of_placed() const {
    std::uint64_t total = 0;
    for (const std::uint64_t used : used_bytes(buffers_, pools_, placed_)) total += used;
    return total;
  }

  // Better ones always; a worse one with (50 * excess / total / attempt) percent, in whole numbers.
  bool is_accepted(std::uint64_t attempt) {
    if (!total_) return true;
    if (misfits(placed_) > 0) return false;
    const std::uint64_t total = total_of_placed();
    if (total < *total_) return true;
    const std::uint64_t percent = total == 0 ? 0 : (total - *total_) / (total / 50 + 1);
    return random() % 100 < exact_percent(total, percent) / attempt;
  }

  // floor(50 * excess / total) without overflow: 50 * excess exceeds 64 bits only above 2^58 bytes.
  std::uint64_t exact_percent(std::uint64_t total, std::uint64_t roughly) const {
    const std::uint64_t excess = total - *total_;
    if (total == 0 || excess > (std::uint64_t{1} << 58U)) return roughly;
    return 50 * excess / total;
  }

  void accept(std::uint64_t enough_bytes, const SearchControl& control) {
    accepted_ = placed_;
    if (misfits(placed_) > 0) return;
    const std::uint64_t total = total_of_placed();
    const bool smaller = !total_ || total < *total_;
    total_ = total;
    if (smaller && control.progress) control.progress(total, enough_bytes);
  }

  void take_back(PoolPlacement before) {
    placed_ = std::move(before);
    valid_ = agreed_;
    exchange(swapped_.first, swapped_.second);
    if (swap_of_attempt_) valid_ = agreed_;  // order and places are both what they were
  }

  void exchange(std::uint32_t p, std::uint32_t q) {
    std::swap(order_[p], order_[q]);
    position_[order_[p]] = p;
    position_[order_[q]] = q;
    if (p != q) valid_ = std::min({valid_, p, q});
  }

  // Swaps two buffers, or nothing when there are no two; false when no buffer is placed at all.
  bool propose() {
    const std::optional<std::uint32_t> top = draw_top();
    if (!top) return false;
    const Drawn first = earlier_neighbours(*top, false);
    if (first.count == 0) return true;
    const std::uint32_t one = nth(first, random() % first.count);
    const std::uint32_t other = draw_other(one, first, earlier_neighbours(*top, true));
    if (one == other) return true;
    swapped_ = {one, other};
    exchange(one, other);
    swap_of_attempt_ = true;
    return true;
  }

  // One of those that end where their pool's use ends.
  std::optional<std::uint32_t> draw_top() {
    const std::vector<std::uint64_t> used = used_bytes(buffers_, pools_, placed_);
    std::vector<std::uint32_t> tops;
    for (const std::uint32_t b : order_) {
      const std::uint32_t pool = placed_.pool_of[b];
      if (pool != no_pool && placed_.offsets[b] + buffers_[b].bytes == used[pool]) tops.push_back(b);
    }
    if (tops.empty()) return std::nullopt;
    return tops[random() % tops.size()];
  }

  // A multiset of positions as one weight for each.
  struct Drawn {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> weights;  // position, how often; ascending
    std::uint64_t count = 0;
  };

  // Positions of the conflicts before b, or (second level) of the conflicts of any conflict c before c, each
  // as often as it is found. Weights instead of a sorted list: the second level of a long-lived buffer has
  // 10^7 entries.
  Drawn earlier_neighbours(std::uint32_t b, bool second_level) {
    const auto count = [&](std::uint32_t of) {
      for (const std::uint32_t c : buffers_[of].conflicts)
        if (position_[c] < position_[of]) ++weight_[position_[c]];
    };
    if (second_level) {
      for (const std::uint32_t c : buffers_[b].conflicts) count(c);
    } else {
      count(b);
    }
    Drawn drawn;
    for (std::uint32_t p = 0; p < weight_.size(); ++p) {
      if (weight_[p] == 0) continue;
      drawn.weights.emplace_back(p, weight_[p]);
      drawn.count += weight_[p];
      weight_[p] = 0;
    }
    return drawn;
  }

  static std::uint32_t nth(const Drawn& drawn, std::uint64_t n) {
    auto it = drawn.weights.begin();
    for (; n >= it->second; ++it) n -= it->second;
    return it->first;
  }

  static bool has_other(const Drawn& drawn, std::uint32_t position) {
    return std::any_of(drawn.weights.begin(), drawn.weights.end(),
                       [&](const auto& w) { return w.first != position; });
  }

  // From the second level three times of four. Where TVM would draw for ever, because there is only `one`, it
  // gives up.
  std::uint32_t draw_other(std::uint32_t one, const Drawn& first, const Drawn& second) {
    std::uint32_t other = one;
    while (other == one) {
      const bool from_second = second.count > 0 && random() % 100 > 25;
      const Drawn& drawn = from_second ? second : first;
      other = nth(drawn, random() % drawn.count);
      if (second.count < 2 && first.count < 2) break;
      if (!has_other(first, one) && !has_other(second, one)) break;
    }
    return other;
  }

  PoolBuffers buffers_;
  Pools pools_;
  unsigned seed_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> position_;  // of each buffer in the order
  PoolPlacement placed_;
  std::uint32_t valid_ = 0;             // so many of the order lie where this order puts them
  std::uint32_t agreed_ = 0;            // valid_ before the last proposal
  std::optional<std::uint64_t> total_;  // of the last one accepted in which everything fits
  PoolPlacement accepted_;
  std::pair<std::uint32_t, std::uint32_t> swapped_{0, 0};  // positions
  bool swap_of_attempt_ = false;           // whether swapped_ was made for the present attempt
  std::vector<std::uint32_t> neighbours_;  // scratch of place()
  std::vector<std::uint32_t> weight_;      // scratch of earlier_neighbours(), all 0 between calls
};

}  // namespace

Result<PoolPlacement> hill_climb(PoolBuffers buffers, Pools pools, std::uint64_t enough_bytes,
                                 const SearchControl& control) {
  if (std::string why = refusal(buffers, pools); !why.empty()) return refused<PoolPlacement>(std::move(why));
  if (buffers.empty()) return ok(PoolPlacement{});
  return Climber(buffers, pools, control.seed).climb(enough_bytes, control);
}

}  // namespace terrace::planner::tvm
