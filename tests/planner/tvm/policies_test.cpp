// The policies: the greedy ones, which need no lists of conflicts, against those with lists, and hill
// climbing against a second, plain implementation that places everything anew at each attempt.
#include <stdlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "daemon/planner/reuse/tvm/usmp.h"
#include "tests/planner/policies.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner::tvm::test {
namespace {

using planner::test::policy;
using planner::test::random_instance;

const std::vector<Pool> the_pool(1);

Instance some_instance(std::uint32_t seed) {
  Instance instance = random_instance(seed, 1 + seed % 40, 25, seed % 3 == 0 ? 3 : 1000);
  for (std::size_t n = 0; n < instance.buffers.size(); ++n)
    if (seed % 4 == 0) instance.buffers[n].alignment = std::uint64_t{1} << ((seed + n) % 7);
  return instance;
}

std::vector<PoolBuffer> pooled(const Instance& instance) {
  std::vector<PoolBuffer> buffers;
  for (std::uint32_t n = 0; n < instance.buffers.size(); ++n) {
    const Buffer& b = instance.buffers[n];
    buffers.push_back({{}, b.bytes, b.alignment, {}, {0}});
    for (std::uint32_t m = 0; m < instance.buffers.size(); ++m)
      if (m != n && overlap_in_time(b, instance.buffers[m])) buffers.back().conflicts.push_back(m);
  }
  return buffers;
}

// Hill climbing as TVM writes it: no part of a placement is ever reused.
class PlainClimber {
 public:
  explicit PlainClimber(const std::vector<PoolBuffer>& buffers)
      : buffers_(buffers), order_(order_by_size(buffers)) {}

  std::uint64_t climb(std::uint64_t enough) {
    std::vector<std::uint64_t> now;
    for (std::uint64_t attempt = 0; attempt < 500; ++attempt) {
      std::vector<std::uint64_t> before = std::exchange(now, place_all());
      const std::uint64_t total = top(now);
      if (best_ == 0 || total < best_ ||
          rand_r(&seed_) % 100 < static_cast<int>(50 * (total - best_) / total / attempt)) {
        best_ = total;
        if (best_ <= enough) break;
      } else {
        std::swap(order_[one_], order_[other_]);
        now = std::move(before);
      }
      propose(now);
    }
    return best_;
  }

 private:
  std::size_t position(std::uint32_t b) const {
    return static_cast<std::size_t>(std::find(order_.begin(), order_.end(), b) - order_.begin());
  }

  std::vector<std::uint64_t> place_all() const {
    std::vector<std::uint64_t> offsets(buffers_.size(), 0);
    std::vector<char> placed(buffers_.size(), 0);
    for (const std::uint32_t b : order_) {
      std::vector<std::uint32_t> near;
      for (const std::uint32_t c : buffers_[b].conflicts)
        if (placed[c] != 0) near.push_back(c);
      std::sort(near.begin(), near.end(), [&](auto x, auto y) { return offsets[x] < offsets[y]; });
      for (const std::uint32_t c : near) {
        const std::uint64_t above =
            align_up(offsets[c] + buffers_[c].bytes, std::max(buffers_[b].alignment, buffers_[c].alignment));
        if (above > offsets[b] && offsets[b] + buffers_[b].bytes > offsets[c]) offsets[b] = above;
      }
      placed[b] = 1;
    }
    return offsets;
  }

  std::uint64_t top(const std::vector<std::uint64_t>& offsets) const {
    std::uint64_t most = 0;
    for (std::size_t b = 0; b < offsets.size(); ++b) most = std::max(most, offsets[b] + buffers_[b].bytes);
    return most;
  }

  void add_earlier(std::uint32_t b, std::vector<std::size_t>* positions) const {
    for (const std::uint32_t c : buffers_[b].conflicts)
      if (position(c) < position(b)) positions->push_back(position(c));
    std::sort(positions->begin(), positions->end());
  }

  void propose(const std::vector<std::uint64_t>& offsets) {
    std::vector<std::uint32_t> tops;
    for (const std::uint32_t b : order_)
      if (offsets[b] + buffers_[b].bytes == top(offsets)) tops.push_back(b);
    const std::uint32_t from = tops[static_cast<std::size_t>(rand_r(&seed_)) % tops.size()];
    std::vector<std::size_t> first, second;
    add_earlier(from, &first);
    for (const std::uint32_t c : buffers_[from].conflicts) add_earlier(c, &second);
    if (first.empty()) return;
    const std::size_t one = first[static_cast<std::size_t>(rand_r(&seed_)) % first.size()];
    std::size_t other = one;
    while (other == one) {
      const auto& level = !second.empty() && rand_r(&seed_) % 100 > 25 ? second : first;
      other = level[static_cast<std::size_t>(rand_r(&seed_)) % level.size()];
      if (second.size() < 2 && first.size() < 2) break;
    }
    if (one == other) return;
    std::swap(order_[one], order_[other]);
    one_ = one;
    other_ = other;
  }

  const std::vector<PoolBuffer>& buffers_;
  std::vector<std::uint32_t> order_;
  unsigned seed_ = 0;
  std::uint64_t best_ = 0;
  std::size_t one_ = 0;
  std::size_t other_ = 0;
};

}  // namespace

TEST_CASE("Greedy policies place as the algorithms with lists do") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const Instance instance = some_instance(seed);
    const auto buffers = pooled(instance);
    CHECK(policy("tvm_by_size").place(instance, {})->offsets == greedy_by_size(buffers, the_pool)->offsets);
    CHECK(policy("tvm_by_conflicts").place(instance, {})->offsets ==
          greedy_by_conflicts(buffers, the_pool)->offsets);
  }
}

TEST_CASE("Hill climbing takes the steps that TVM's takes") {
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    const Instance instance = some_instance(seed);
    const auto buffers = pooled(instance);
    const Result<Placement> placement = policy("tvm_hill_climb").place(instance, {});
    REQUIRE(placement);
    CHECK_THAT(check_placement(instance, *placement), Catch::Equals(""));
    CHECK(placement->total_bytes == PlainClimber(buffers).climb(max_live_bytes(instance.buffers)));
    if (buffers.size() > 20) continue;
    // Without a bound to reach, attempts without a swap come up, too.
    const Result<PoolPlacement> restless = hill_climb(buffers, the_pool, 0, {});
    REQUIRE(restless);
    CHECK(used_bytes(buffers, the_pool, *restless)[0] == PlainClimber(buffers).climb(0));
  }
}

TEST_CASE("Hill climbing stops when told and keeps what it has") {
  const Instance instance = random_instance(3, 200, 50, 1000);
  int asked = 0;
  SearchControl control;
  control.stop = [&] { return ++asked > 5; };
  const Result<Placement> placement = policy("tvm_hill_climb").place(instance, control);
  REQUIRE(placement);
  CHECK_THAT(check_placement(instance, *placement), Catch::Equals(""));
  CHECK(asked == 6);
  control.stop = nullptr;
  control.capacity_bytes = placement->total_bytes;  // reached at the latest where it was stopped
  CHECK(policy("tvm_hill_climb").place(instance, control)->total_bytes <= placement->total_bytes);
}

TEST_CASE("Hill climbing refuses more conflicts than it can list") {
  Instance all_alive;
  for (int i = 0; i < 8000; ++i) all_alive.buffers.push_back({1, 0, 1, 1, no_tensor});
  const Result<Placement> placement = policy("tvm_hill_climb").place(all_alive, {});
  CHECK_FALSE(placement);
  CHECK(placement.error.find("63992000 entries") != std::string::npos);
  CHECK(policy("tvm_by_size").place(all_alive, {})->total_bytes == 8000);
}

}  // namespace terrace::planner::tvm::test
