// The planners of the frameworks: offsets that follow from each one's rules by hand, and what must hold
// always.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "daemon/planner/order/dependencies.h"
#include "daemon/planner/reuse/families.h"
#include "daemon/planner/reuse/frameworks/planners.h"
#include "tests/planner/reference_data.h"

namespace terrace::planner {
namespace {

using Offsets = std::vector<std::uint64_t>;

struct Life {
  std::uint64_t bytes;
  std::uint32_t lower;
  std::uint32_t upper;
};

Instance instance(const std::vector<Life>& lives, std::uint64_t alignment = 1) {
  Instance result{"by hand", {}, nullptr};
  for (const Life& life : lives)
    result.buffers.push_back({life.bytes, life.lower, life.upper, alignment, no_tensor});
  return result;
}

const ReusePolicy& policy(const std::string& name) {
  static const std::vector<ReusePolicy> all = framework_policies();
  return *std::find_if(all.begin(), all.end(), [&](const ReusePolicy& p) { return p.name == name; });
}

Placement place(const std::string& name, const Instance& of) {
  INFO(name);
  const Result<Placement> result = policy(name).place(of, {});
  REQUIRE(result);
  REQUIRE(check_placement(of, *result).empty());
  return *result;
}

wire::Trace trace_of(const std::vector<std::uint64_t>& bytes, std::vector<wire::TraceOp> ops) {
  wire::Trace trace;
  for (const std::uint64_t b : bytes) trace.tensors.push_back({0, b, {}, false, {}, {}, {}});
  trace.ops = std::move(ops);
  return trace;
}

wire::TraceOp op(std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
                 std::uint64_t workspace = 0) {
  return {"op", 1, std::move(inputs), std::move(outputs), workspace, {}, true};
}

wire::Trace random_trace(std::uint64_t seed, std::uint32_t ops) {
  std::mt19937_64 random(seed);
  wire::Trace trace;
  for (std::uint32_t i = 0; i < ops; ++i) {
    wire::TraceOp next = op({}, {}, random() % 3 == 0 ? 1 + random() % 50 : 0);
    const auto known = static_cast<std::uint32_t>(trace.tensors.size());
    for (std::uint64_t n = random() % 3; n > 0 && known > 0; --n)
      next.inputs.push_back(known - 1 - static_cast<std::uint32_t>(random() % std::min(known, 8U)));
    if (!next.inputs.empty() && random() % 8 == 0) next.outputs.push_back(next.inputs.front());
    next.outputs.push_back(known);
    trace.tensors.push_back({0, random() % 90, {}, random() % 20 == 0, {}, {}, {}});
    trace.ops.push_back(std::move(next));
  }
  return trace;
}

// Every operation that must have ended before each one, by walking back from it.
std::vector<std::vector<bool>> ancestors_of(const Dependencies& graph) {
  std::vector<std::vector<bool>> all(graph.before.size(), std::vector<bool>(graph.before.size(), false));
  for (std::uint32_t o = 0; o < all.size(); ++o) {
    std::vector<std::uint32_t> walk = graph.before[o];
    while (!walk.empty()) {
      const std::uint32_t a = walk.back();
      walk.pop_back();
      if (all[o][a]) continue;
      all[o][a] = true;
      walk.insert(walk.end(), graph.before[a].begin(), graph.before[a].end());
    }
  }
  return all;
}

std::vector<std::uint32_t> namers(const wire::Trace& trace, const Buffer& buffer) {
  if (buffer.tensor == no_tensor) return {buffer.lower};
  std::vector<std::uint32_t> ops;
  for (std::uint32_t o = 0; o < trace.ops.size(); ++o) {
    const wire::TraceOp& by = trace.ops[o];
    if (std::count(by.inputs.begin(), by.inputs.end(), buffer.tensor) != 0 ||
        std::count(by.outputs.begin(), by.outputs.end(), buffer.tensor) != 0)
      ops.push_back(o);
  }
  return ops;
}

}  // namespace

TEST_CASE("MXNet matches within a factor of 16, larger objects first") {
  const Instance lives = instance({{100, 0, 2}, {50, 1, 3}, {60, 2, 4}, {1, 3, 5}, {2000, 4, 5}});
  const Placement placement = place("mxnet", lives);
  // 60 takes the freed 100; 1 is too small for the freed 50, and 2000 too large for what is free then.
  CHECK(placement.offsets == Offsets{0, 100, 0, 150, 151});
  CHECK(placement.total_bytes == 2151);
}

TEST_CASE("MXNet's objects grow when only smaller ones are free, the largest of them first") {
  const Placement placement = place("mxnet", instance({{100, 0, 1}, {50, 0, 1}, {120, 1, 2}}));
  CHECK(placement.offsets == Offsets{0, 120, 0});
  CHECK(placement.total_bytes == 170);
}

TEST_CASE("MXNet's ties: of equal outputs the last is served first, of equal free objects the first freed") {
  CHECK(place("mxnet", instance({{8, 0, 1}, {8, 0, 1}, {8, 1, 2}})).offsets == Offsets{8, 0, 8});
  // Looking for less than what is asked, the last of equals comes first; it grows to 9, the other lies above.
  CHECK(place("mxnet", instance({{8, 0, 1}, {8, 0, 1}, {9, 1, 2}})).offsets == Offsets{9, 0, 0});
}

TEST_CASE("MXNet frees an operation's inputs in the order in which it names them") {
  const wire::Trace trace = trace_of({8, 8, 8, 8}, {op({}, {0, 1}), op({1, 0}, {2}), op({2}, {3})});
  CHECK(place("mxnet", instance_of(trace)).offsets == Offsets{8, 0, 16, 0});
  Instance without = instance_of(trace);
  without.trace = nullptr;
  CHECK(place("mxnet", without).offsets == Offsets{8, 0, 16, 8});
}

TEST_CASE("MXNet's match range of 1 shares equal sizes only, of 0 nothing; the search takes the best") {
  const Instance lives = instance({{4, 0, 1}, {8, 1, 2}, {8, 2, 3}});
  const std::vector<std::uint64_t> bytes{4, 8, 8};
  CHECK(frameworks::mxnet_objects(lives, bytes, 1).object_of == std::vector<std::uint32_t>{0, 1, 1});
  CHECK(frameworks::mxnet_objects(lives, bytes, 0).object_of == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(frameworks::mxnet_objects(lives, bytes, 2).object_of == std::vector<std::uint32_t>{0, 0, 0});
  CHECK(place("mxnet_search", lives).total_bytes == 8);
  // A range of 16 gives the large object to the first small buffer; with 8 it waits for the large one.
  const Instance greedy = instance({{160, 0, 1}, {10, 1, 4}, {160, 2, 3}});
  CHECK(place("mxnet", greedy).total_bytes == 320);
  CHECK(place("mxnet_search", greedy).total_bytes == 170);
}

TEST_CASE("MegEngine's BEST_FIT merges what is free and never extends the top chunk") {
  const Placement merged =
      place("megengine_best_fit", instance({{10, 0, 1}, {20, 0, 2}, {5, 1, 3}, {10, 2, 3}}));
  CHECK(merged.offsets == Offsets{0, 10, 0, 5});
  CHECK(merged.total_bytes == 30);
  const Placement appended = place("megengine_best_fit", instance({{10, 0, 1}, {20, 1, 2}}));
  CHECK(appended.offsets == Offsets{0, 10});
  CHECK(appended.total_bytes == 30);
}

TEST_CASE("MegEngine's BEST_FIT uses a free chunk from its first aligned address on") {
  // 5 bytes at 0 leave 5 to 8 free, which holds no aligned byte; 4 bytes fit where the 5 were.
  const Placement placement = place("megengine_best_fit", instance({{5, 0, 1}, {3, 0, 2}, {4, 1, 2}}, 4));
  CHECK(placement.offsets == Offsets{0, 8, 0});
  CHECK(placement.total_bytes == 12);
}

TEST_CASE("MegEngine's INTERVAL_MOVE pushes what is in the way, and what that meets") {
  const Placement placement =
      place("megengine_interval_move", instance({{10, 0, 4}, {10, 0, 2}, {10, 2, 4}, {15, 1, 3}}));
  // 0 at 0; 1 in under it (to 10); 3 in under both (to 15 and 25); 2 fits between 3 and 0.
  CHECK(placement.offsets == Offsets{25, 15, 15, 0});
  CHECK(placement.total_bytes == 35);
}

TEST_CASE("MegEngine's PUSHDOWN lets a free block grow instead of going to the top") {
  const Placement placement = place("megengine_pushdown", instance({{10, 0, 1}, {20, 0, 2}, {15, 1, 3}}));
  CHECK(placement.offsets == Offsets{0, 15, 0});
  CHECK(placement.total_bytes == 35);
}

TEST_CASE("MegEngine's PUSHDOWN aligns where it sinks to") {
  const Placement placement = place("megengine_pushdown", instance({{5, 0, 2}, {6, 0, 2}}, 4));
  CHECK(placement.offsets == Offsets{0, 8});
  CHECK(placement.total_bytes == 16);
}

TEST_CASE("ONNX Runtime takes the smallest gap below the last block, else the place after it") {
  const Placement placement =
      place("onnxruntime",
            instance({{10, 0, 1}, {20, 0, 2}, {5, 0, 1}, {10, 0, 2}, {5, 1, 2}, {3, 1, 2}, {45, 1, 2}}));
  CHECK(placement.offsets == Offsets{0, 10, 30, 35, 30, 0, 45});
  CHECK(placement.total_bytes == 90);
  CHECK(place("onnxruntime", instance({{10, 0, 1}, {20, 0, 2}, {15, 1, 3}})).total_bytes == 45);
}

TEST_CASE("XLA's two orders are by size and by duration") {
  const Instance lives = instance({{10, 0, 4}, {20, 0, 2}, {20, 2, 4}});
  CHECK(place("xla_spatial", lives).offsets == Offsets{20, 0, 0});
  CHECK(place("xla_temporal", lives).offsets == Offsets{0, 10, 10});
}

TEST_CASE("XLA takes the smallest gap, and the space above the last chunk only where none holds it") {
  const Placement placement =
      place("xla_spatial",
            instance({{30, 4, 5}, {16, 0, 1}, {12, 0, 2}, {10, 0, 2}, {9, 1, 2}, {8, 0, 1}, {7, 1, 2}}));
  // The fifth goes under the third (16 to 28), whose other side is open; the last between it and the third.
  CHECK(placement.offsets == Offsets{0, 0, 16, 28, 0, 38, 9});
  CHECK(placement.total_bytes == 46);
}

TEST_CASE("XLA aligns the end of each chunk, and not the heap's") {
  const Placement placement = place("xla_spatial", instance({{9, 0, 1}, {5, 0, 1}, {1, 0, 1}}, 8));
  CHECK(placement.offsets == Offsets{0, 16, 24});
  CHECK(placement.total_bytes == 25);
}

TEST_CASE("IREE packs in program order into the smallest gap") {
  const Placement placement =
      place("iree", instance({{10, 0, 2}, {6, 0, 1}, {4, 0, 2}, {5, 1, 2}, {6, 1, 2}}));
  CHECK(placement.offsets == Offsets{0, 10, 16, 10, 20});
  CHECK(placement.total_bytes == 26);
}

TEST_CASE("Left edge gives each buffer the lowest colour of its size") {
  const Placement placement = place("left_edge", instance({{8, 0, 2}, {8, 1, 3}, {8, 2, 4}, {4, 3, 5}}));
  CHECK(placement.offsets == Offsets{0, 8, 0, 16});
}

TEST_CASE("Left edge is optimal for equal sizes") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Instance lives = test::random_instance(seed, 200, 100, 1);
    for (Buffer& b : lives.buffers) b.bytes = 64;
    REQUIRE(place("left_edge", lives).total_bytes == max_live_bytes(lives.buffers));
  }
}

TEST_CASE("Parallel-safe reuse needs a trace") {
  const Result<Placement> result = policy("parallel_safe").place(instance({{8, 0, 1}}), {});
  CHECK_FALSE(result);
  CHECK(result.error.find("needs a trace") != std::string::npos);
}

TEST_CASE("Parallel-safe reuse follows a chain, and keeps branches apart") {
  const wire::Trace chain = trace_of({8, 8, 8, 8}, {op({}, {0}), op({0}, {1}), op({1}, {2}), op({2}, {3})});
  CHECK(place("parallel_safe", instance_of(chain)).offsets == Offsets{0, 8, 0, 8});
  const wire::Trace branches = trace_of({8, 8, 8, 8, 8, 8}, {op({}, {0}), op({0}, {1}), op({0}, {2}),
                                                             op({1}, {3}), op({2}, {4}), op({3, 4}, {5})});
  // 3 may not take 0's memory, which the other branch may still read, nor 4 that of 1; 5 comes after all.
  CHECK(place("parallel_safe", instance_of(branches)).offsets == Offsets{0, 8, 16, 24, 32, 0});
  wire::Trace without_reads = chain;
  without_reads.reads_known = false;
  CHECK(
      policy("parallel_safe").place(instance_of(without_reads), {}).error.find("what each operation reads") !=
      std::string::npos);
}

TEST_CASE("Parallel-safe reuse shares no byte between what may run together") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const wire::Trace trace = random_trace(seed, 60);
    const Instance lives = instance_of(trace);
    const Placement placement = place("parallel_safe", lives);
    const auto ancestors = ancestors_of(dependencies_of(trace));
    const auto before = [&](const Buffer& x, const Buffer& y) {
      const auto first = namers(trace, x);
      const auto then = namers(trace, y);
      return std::all_of(first.begin(), first.end(), [&](auto a) {
        return std::all_of(then.begin(), then.end(), [&](auto b) { return ancestors[b][a]; });
      });
    };
    for (std::size_t i = 0; i < lives.buffers.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Buffer& x = lives.buffers[i];
        const Buffer& y = lives.buffers[j];
        const bool shared = placement.offsets[i] < placement.offsets[j] + y.bytes &&
                            placement.offsets[j] < placement.offsets[i] + x.bytes && x.bytes > 0 &&
                            y.bytes > 0;
        INFO("seed " << seed << ", buffers " << j << " and " << i);
        if (shared) REQUIRE((before(x, y) || before(y, x)));
      }
    }
  }
}

TEST_CASE("Every planner's placement is right on random instances, aligned and not") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Instance lives = test::random_instance(seed, 120, 50, seed % 3 == 0 ? 7 : 5000);
    std::mt19937_64 random(seed);
    for (Buffer& b : lives.buffers) {
      b.alignment = seed % 2 == 0 ? 1 : std::uint64_t{1} << (random() % 7);
      if (random() % 20 == 0) b.bytes = 0;
    }
    for (const ReusePolicy& p : framework_policies()) {
      if (std::string(p.name) == "parallel_safe") continue;
      const Placement placement = place(p.name, lives);
      REQUIRE(placement.total_bytes >= max_live_bytes(lives.buffers));
    }
  }
}

TEST_CASE("Every planner's placement is right on random traces") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const wire::Trace trace = random_trace(seed, 80);
    const Instance lives = instance_of(trace, seed % 2 == 0 ? 1 : 64);
    for (const ReusePolicy& p : framework_policies()) place(p.name, lives);
  }
}

TEST_CASE("Nothing to place is placed") {
  const wire::Trace none;
  for (const ReusePolicy& p : framework_policies()) {
    INFO(p.name);
    const Instance empty{"empty", {}, &none};
    const Result<Placement> placed = p.place(empty, {});
    REQUIRE(placed);
    CHECK(placed->total_bytes == 0);
  }
}

TEST_CASE("What may take seconds stops when told to") {
  SearchControl control;
  control.stop = [] { return true; };
  for (const char* name : {"megengine_interval_move", "xla_spatial", "xla_temporal", "iree"})
    CHECK(policy(name).place(instance({{8, 0, 1}}), control).error.find("stopped") == 0);
}

}  // namespace terrace::planner
