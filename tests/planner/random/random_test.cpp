// Every policy on small random instances of every shape that has a special case somewhere: 100,000 placements
// altogether, each judged by check_placement() and held against the bound.
//
// Every other instance comes from a random trace, for the policies that need one. Searches are stopped after
// a number of questions, not after a time, so that a run repeats exactly.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <utility>

#include "tests/planner/policies.h"

namespace terrace::planner::test {
namespace {

constexpr std::uint64_t placements = 100'000;
constexpr std::uint32_t most_buffers = 40;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::uint32_t below32(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

 private:
  std::mt19937_64 random_;
};

void add(Instance* instance, std::uint64_t bytes, std::uint32_t lower, std::uint32_t upper) {
  instance->buffers.push_back({bytes, lower, upper, 1, no_tensor});
}

// Lives and sizes at random, over few or many moments.
void fill_random(Dice* dice, std::uint32_t count, Instance* instance) {
  const std::uint32_t moments = 1 + dice->below32(60);
  const std::uint64_t most = dice->below(2) == 0 ? 4 : 100'000;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t lower = dice->below32(moments);
    add(instance, 1 + dice->below(most), lower, lower + 1 + dice->below32(moments));
  }
}

void fill_equal_sizes(Dice* dice, std::uint32_t count, Instance* instance) {
  fill_random(dice, count, instance);
  for (Buffer& b : instance->buffers) b.bytes = 64;
}

// Each overlaps the one before and the one after, as activations do.
void fill_chain(Dice* dice, std::uint32_t count, Instance* instance) {
  for (std::uint32_t i = 0; i < count; ++i) add(instance, 1 + dice->below(1000), i, i + 2);
}

// A forward and a backward pass: what begins first ends last.
void fill_nested(Dice* dice, std::uint32_t count, Instance* instance) {
  for (std::uint32_t i = 0; i < count; ++i) add(instance, 1 + dice->below(1000), i, 2 * count - i);
}

// A rectangle of time and bytes cut into pieces: a placement without any gap exists.
void cut(Dice* dice, std::uint32_t pieces, const Buffer& whole, Instance* instance) {
  const bool in_time = whole.upper - whole.lower > 1 && (whole.bytes == 1 || dice->below(2) == 0);
  if (pieces <= 1 || (!in_time && whole.bytes == 1))
    return add(instance, whole.bytes, whole.lower, whole.upper);
  Buffer a = whole;
  Buffer b = whole;
  if (in_time) {
    a.upper = b.lower = whole.lower + 1 + dice->below32(whole.upper - whole.lower - 1);
  } else {
    a.bytes = 1 + dice->below(whole.bytes - 1);
    b.bytes = whole.bytes - a.bytes;
  }
  cut(dice, pieces / 2, a, instance);
  cut(dice, pieces - pieces / 2, b, instance);
}

void fill_without_slack(Dice* dice, std::uint32_t count, Instance* instance) {
  cut(dice, count, {1 + dice->below(500), 0, 1 + dice->below32(50), 1, no_tensor}, instance);
}

void fill_all_alive(Dice* dice, std::uint32_t count, Instance* instance) {
  for (std::uint32_t i = 0; i < count; ++i) add(instance, 1 + dice->below(50), 0, 1);
}

// Changes of what was filled: alignments, empty buffers, another order, times that leave gaps.
void disturb(Dice* dice, Instance* instance) {
  std::vector<Buffer>& buffers = instance->buffers;
  const std::uint64_t what = dice->below(8);
  if (what == 0) {
    for (Buffer& b : buffers) b.alignment = std::uint64_t{1} << dice->below(9);
  } else if (what == 1) {
    for (Buffer& b : buffers) b.alignment = 256;
  } else if (what == 2) {
    for (Buffer& b : buffers) b.bytes *= dice->below(2);
  } else if (what == 3) {
    for (std::size_t i = buffers.size(); i > 1; --i) std::swap(buffers[i - 1], buffers[dice->below(i)]);
  } else if (what == 4) {
    for (Buffer& b : buffers) {
      b.lower = b.lower * 1000 + 17;
      b.upper = b.upper * 1000 + 17;
    }
  }
}

Instance instance_for(std::uint64_t seed) {
  using Fill = void (*)(Dice*, std::uint32_t, Instance*);
  constexpr std::array<Fill, 6> fills{fill_random, fill_equal_sizes,   fill_chain,
                                      fill_nested, fill_without_slack, fill_all_alive};
  Dice dice(seed);
  Instance instance{"random " + std::to_string(seed), {}, nullptr};
  fills[dice.below(fills.size())](&dice, 1 + dice.below32(most_buffers), &instance);
  disturb(&dice, &instance);
  return instance;
}

// Operations in a row; each reads some of the tensors so far, now and then updates one in place, and makes
// some.
wire::Trace trace_for(std::uint64_t seed) {
  Dice dice(seed);
  wire::Trace trace;
  trace.name = "random trace " + std::to_string(seed);
  const std::uint32_t ops = 1 + dice.below32(15);
  for (std::uint32_t o = 0; o < ops; ++o) {
    wire::TraceOp op;
    op.name = "op" + std::to_string(o);
    op.time_us = static_cast<double>(dice.below(100));
    op.workspace_bytes = dice.below(4) == 0 ? dice.below(500) : 0;
    const auto before = static_cast<std::uint32_t>(trace.tensors.size());
    for (std::uint64_t i = before == 0 ? 0 : dice.below(4); i > 0; --i)
      op.inputs.push_back(dice.below32(before));
    std::sort(op.inputs.begin(), op.inputs.end());
    op.inputs.erase(std::unique(op.inputs.begin(), op.inputs.end()), op.inputs.end());
    if (!op.inputs.empty() && dice.below(5) == 0) op.outputs.push_back(op.inputs.front());
    for (std::uint64_t i = 1 + dice.below(2); i > 0; --i) {
      op.outputs.push_back(static_cast<std::uint32_t>(trace.tensors.size()));
      const std::uint64_t bytes = dice.below(2) == 0 ? 128 : 1 + dice.below(1000);
      trace.tensors.push_back(
          {trace.tensors.size(), bytes, wire::TensorKind::activation, dice.below(10) == 0, {}, {}, {}});
    }
    trace.ops.push_back(op);
  }
  return trace;
}

// A search costs a thousand times what a heuristic does, so it gets a small share of the instances.
constexpr std::uint64_t placements_of_search = 300;
bool searches(const ReusePolicy& p) {
  return p.family == std::string("search") || p.family == std::string("terrace");
}

// Asked every few thousand steps, four times is enough for 40 buffers; those that ask at each buffer get
// more.
SearchControl bounded(std::uint64_t seed, bool is_search) {
  SearchControl control;
  control.seed = seed;
  control.stop = [asked = 0, most = is_search ? 4 : 1000]() mutable { return ++asked > most; };
  return control;
}

// How many instances each other policy gets, so that all together place as many as promised.
std::uint64_t placements_of_heuristic(const std::vector<ReusePolicy>& policies) {
  const auto of_searches =
      static_cast<std::uint64_t>(std::count_if(policies.begin(), policies.end(), searches));
  const std::uint64_t others = policies.size() - of_searches;
  return (placements - of_searches * placements_of_search + others - 1) / others;
}

std::string wrong_with(const Instance& instance, const Placement& placement) {
  std::string wrong = check_placement(instance, placement);
  const std::uint64_t bound = max_live_bytes(instance.buffers);
  if (wrong.empty() && placement.total_bytes < bound)
    wrong = "total " + std::to_string(placement.total_bytes) + " is below the bound " + std::to_string(bound);
  return wrong;
}

// Calls each(instance) for the seeds [from, to), every other one with a trace.
template <class Each>
void for_instances(std::uint64_t from, std::uint64_t to, Each each) {
  for (std::uint64_t seed = from; seed < to; ++seed) {
    if (seed % 2 == 0) {
      each(seed, instance_for(seed));
      continue;
    }
    const wire::Trace trace = trace_for(seed);
    each(seed, instance_of(trace, std::uint64_t{1} << (seed % 5)));
  }
}

}  // namespace

TEST_CASE("Every policy's placements are right on 100,000 random instances") {
  const std::vector<ReusePolicy> policies = reuse_policies();
  std::uint64_t first_seed = 0;
  for (std::size_t p = 0; p < policies.size(); ++p) {
    const std::uint64_t each =
        searches(policies[p]) ? placements_of_search : placements_of_heuristic(policies);
    const std::uint64_t from = std::exchange(first_seed, first_seed + each);
    std::uint64_t placed = 0;
    for_instances(from, from + each, [&](std::uint64_t seed, const Instance& instance) {
      const Result<Placement> placement = policies[p].place(instance, bounded(seed, searches(policies[p])));
      if (!placement) return;
      ++placed;
      const std::string wrong = wrong_with(instance, *placement);
      if (!wrong.empty()) FAIL(policies[p].name << ", " << instance.name << ": " << wrong);
    });
    INFO(policies[p].name << " placed " << placed << " of " << each);
    CHECK(placed >= each / 4);
  }
  CHECK(first_seed >= placements);
}

TEST_CASE("The same instance and seed give the same placement") {
  for (const ReusePolicy& p : reuse_policies()) {
    for_instances(0, 40, [&](std::uint64_t seed, const Instance& instance) {
      const Result<Placement> once = p.place(instance, bounded(seed, searches(p)));
      const Result<Placement> again = p.place(instance, bounded(seed, searches(p)));
      INFO(p.name << ", " << instance.name);
      REQUIRE(bool(once) == bool(again));
      if (once) REQUIRE(once->offsets == again->offsets);
    });
  }
}

TEST_CASE("The best of TFLite's strategies is never worse than its parts") {
  const ReusePolicy best = policy("tflite_best");
  const ReusePolicy by_size = policy("tflite_by_size_objects");
  const ReusePolicy by_breadth = policy("tflite_by_breadth");
  std::map<bool, int> by_size_won;
  for_instances(1'000'000, 1'003'000, [&](std::uint64_t, const Instance& instance) {
    const std::uint64_t size = by_size.place(instance, {})->total_bytes;
    const std::uint64_t breadth = by_breadth.place(instance, {})->total_bytes;
    if (best.place(instance, {})->total_bytes != std::min(size, breadth)) FAIL(instance.name);
    if (size != breadth) ++by_size_won[size < breadth];
  });
  CHECK(by_size_won.size() == 2);  // otherwise one part would do
}

}  // namespace terrace::planner::test
