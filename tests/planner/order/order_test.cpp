// Topological orders: what each must keep, what memory_minimising() must reach, and how near it comes to the
// least possible peak, which an exact search over sets of operations tells for small graphs.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <random>

#include "daemon/planner/order/order.h"
#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {
namespace {

wire::TraceTensor tensor(std::uint64_t bytes) { return {0, bytes, {}, false, {}, {}, {}}; }

wire::TraceOp op(std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
                 std::uint64_t workspace = 0) {
  return {"op", 1, std::move(inputs), std::move(outputs), workspace, {}, true};
}

// 0 makes a; 1 and 2 make large b and c of it; 3 and 4 shrink them to d and e; 5 joins.
wire::Trace diamond() {
  wire::Trace trace;
  for (const std::uint64_t bytes : {10, 100, 100, 1, 1, 1}) trace.tensors.push_back(tensor(bytes));
  trace.ops = {op({}, {0}), op({0}, {1}), op({0}, {2}), op({1}, {3}), op({2}, {4}), op({3, 4}, {5})};
  return trace;
}

// Each operation reads up to three tensors made before, one in eight updates one of them in place.
wire::Trace random_trace(std::uint64_t seed, std::uint32_t ops) {
  std::mt19937_64 random(seed);
  wire::Trace trace;
  for (std::uint32_t i = 0; i < ops; ++i) {
    wire::TraceOp next = op({}, {}, random() % 4 == 0 ? random() % 60 : 0);
    const auto known = static_cast<std::uint32_t>(trace.tensors.size());
    for (std::uint64_t n = random() % 4; n > 0 && known > 0; --n) {
      const std::uint64_t back = 1 + random() % std::min(known, 6U);
      next.inputs.push_back(known - static_cast<std::uint32_t>(back));
    }
    if (!next.inputs.empty() && random() % 8 == 0) {
      next.outputs.push_back(next.inputs.front());
    } else {
      next.outputs.push_back(known);
      trace.tensors.push_back(tensor(1 + random() % 100));
      trace.tensors.back().persistent = random() % 16 == 0;
    }
    trace.ops.push_back(std::move(next));
  }
  return trace;
}

// The bytes alive while `now` runs after the set `ran`, straight from the definition of a life.
std::uint64_t alive(const wire::Trace& trace, std::uint32_t ran, std::uint32_t now) {
  std::uint64_t bytes = trace.ops[now].workspace_bytes;
  for (std::uint32_t t = 0; t < trace.tensors.size(); ++t) {
    bool begun = trace.tensors[t].persistent;
    bool needed = begun;
    for (std::uint32_t o = 0; o < trace.ops.size(); ++o) {
      const wire::TraceOp& by = trace.ops[o];
      const bool names = std::count(by.inputs.begin(), by.inputs.end(), t) != 0 ||
                         std::count(by.outputs.begin(), by.outputs.end(), t) != 0;
      begun = begun || (names && ((ran >> o & 1) != 0 || o == now));
      needed = needed || (names && (ran >> o & 1) == 0);
    }
    bytes += begun && needed ? trace.tensors[t].bytes : 0;
  }
  return bytes;
}

// The least peak of all orders: dynamic programming over the sets of operations that have run.
std::uint64_t least_peak(const wire::Trace& trace) {
  const Dependencies graph = dependencies_of(trace);
  const auto count = static_cast<std::uint32_t>(trace.ops.size());
  std::vector<std::uint64_t> least(std::size_t{1} << count, std::numeric_limits<std::uint64_t>::max());
  least[0] = 0;
  for (std::uint32_t ran = 0; ran + 1 < least.size(); ++ran) {
    if (least[ran] == std::numeric_limits<std::uint64_t>::max()) continue;
    for (std::uint32_t o = 0; o < count; ++o) {
      const auto& before = graph.before[o];
      const bool ready =
          std::all_of(before.begin(), before.end(), [&](auto b) { return (ran >> b & 1) != 0; });
      if ((ran >> o & 1) != 0 || !ready) continue;
      const std::uint64_t peak = std::max(least[ran], alive(trace, ran, o));
      least[ran | 1U << o] = std::min(least[ran | 1U << o], peak);
    }
  }
  return least.back();
}

Order recorded(const wire::Trace& trace) {
  Order order(trace.ops.size());
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

}  // namespace

TEST_CASE("Dependencies are read after write, write after read and write after write") {
  wire::Trace trace;
  trace.tensors = {tensor(1), tensor(1)};
  trace.ops = {op({}, {0}), op({0}, {1}), op({0}, {0}), op({0}, {}), op({}, {0})};
  const Dependencies graph = dependencies_of(trace);
  using Ops = std::vector<std::uint32_t>;
  CHECK(graph.before == std::vector<Ops>{{}, {0}, {0, 1}, {2}, {2, 3}});
  CHECK(graph.after == std::vector<Ops>{{1, 2}, {2}, {3, 4}, {4}, {}});
}

TEST_CASE("Ancestors are all that an operation waits for, however far") {
  const wire::Trace trace = random_trace(3, 150);
  const Dependencies graph = dependencies_of(trace);
  std::vector<std::vector<bool>> expected(150, std::vector<bool>(150, false));
  AncestorSweep sweep(graph);
  for (std::uint32_t o = 0; o < 150; ++o) {
    for (const std::uint32_t b : graph.before[o]) {
      expected[o][b] = true;
      for (std::uint32_t a = 0; a < b; ++a) expected[o][a] = expected[o][a] || expected[b][a];
    }
    sweep.advance();
    for (std::uint32_t a = 0; a < 150; ++a) REQUIRE(sweep.is_ancestor(a) == expected[o][a]);
  }
}

TEST_CASE("The orders of a diamond are those of the rules") {
  const wire::Trace trace = diamond();
  CHECK(breadth_first(trace) == Order{0, 1, 2, 3, 4, 5});
  CHECK(reverse_depth_first(trace) == Order{0, 1, 3, 2, 4, 5});
  CHECK(peak_bytes(trace, recorded(trace)) == 210);
  CHECK(peak_bytes(trace, reverse_depth_first(trace)) ==
        111);  // 10 and 100 to make the second 1, and the first
  CHECK(peak_bytes(trace, memory_minimising(trace)) == 111);
}

TEST_CASE("A wrong order is told from a right one") {
  const Dependencies graph = dependencies_of(diamond());
  CHECK(is_topological(graph, {0, 2, 1, 4, 3, 5}));
  CHECK_FALSE(is_topological(graph, {0, 3, 1, 2, 4, 5}));
  CHECK_FALSE(is_topological(graph, {0, 1, 2, 3, 4}));
  CHECK_FALSE(is_topological(graph, {0, 1, 1, 3, 4, 5}));
  CHECK_FALSE(is_topological(graph, {0, 1, 2, 3, 4, 6}));
}

TEST_CASE("An in-place update stays between the reads before and after it") {
  wire::Trace trace;
  trace.tensors = {tensor(4), tensor(1), tensor(1), tensor(100)};
  trace.ops = {op({}, {0}), op({0}, {1}), op({0}, {0}), op({0}, {2}), op({1, 2}, {3})};
  const Dependencies graph = dependencies_of(trace);
  for (const Order& order : {breadth_first(trace), reverse_depth_first(trace), memory_minimising(trace)})
    CHECK(order == Order{0, 1, 2, 3, 4});
}

TEST_CASE("The peak of an order is max live of the reordered trace") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const wire::Trace trace = random_trace(seed, 40);
    for (const Order& order : {recorded(trace), breadth_first(trace), reverse_depth_first(trace)}) {
      const wire::Trace other = reorder(trace, order);
      REQUIRE(peak_bytes(trace, order) == max_live_bytes(instance_of(other).buffers));
    }
  }
}

TEST_CASE("Every order respects every dependency, and ours is never worse than the one given") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const wire::Trace trace = random_trace(seed, 1 + static_cast<std::uint32_t>(seed % 90));
    const Dependencies graph = dependencies_of(trace);
    const Order ours = memory_minimising(trace);
    INFO("seed " << seed);
    REQUIRE(is_topological(graph, breadth_first(trace)));
    REQUIRE(is_topological(graph, reverse_depth_first(trace)));
    REQUIRE(is_topological(graph, ours));
    const std::uint64_t peak = peak_bytes(trace, ours);
    REQUIRE(peak <= peak_bytes(trace, recorded(trace)));
    REQUIRE(peak <= peak_bytes(trace, breadth_first(trace)));
    REQUIRE(peak <= peak_bytes(trace, reverse_depth_first(trace)));
  }
}

TEST_CASE("Ours keeps its promise with no effort at all") {
  const wire::Trace trace = random_trace(5, 60);
  const Order order = memory_minimising(trace, {0, 0, 0, 0});
  CHECK(is_topological(dependencies_of(trace), order));
  CHECK(peak_bytes(trace, order) <= peak_bytes(trace, recorded(trace)));
  CHECK(memory_minimising({}).empty());
}

TEST_CASE("Ours reaches the least possible peak of small graphs") {
  std::uint32_t exact = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const wire::Trace trace = random_trace(seed, 8 + static_cast<std::uint32_t>(seed % 5));
    const std::uint64_t least = least_peak(trace);
    const std::uint64_t ours = peak_bytes(trace, memory_minimising(trace));
    REQUIRE(ours >= least);
    exact += ours == least ? 1 : 0;
  }
  CHECK(exact == 120);  // up to 12 operations fit one window, which is solved exactly
}

TEST_CASE("Ours comes near the least possible peak of graphs larger than its window") {
  std::uint64_t sum = 0;
  std::uint64_t least = 0;
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    const wire::Trace trace = random_trace(1000 + seed, 17);
    sum += peak_bytes(trace, memory_minimising(trace, {4, 1'000'000, 8, 400}));
    least += least_peak(trace);
  }
  CHECK(sum <= least + least / 100);
}

}  // namespace terrace::planner
