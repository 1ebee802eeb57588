// Plans whose moves are compressed: by cDMA's rule, by CSWAP's, and by the joint search.
#include "daemon/planner/simulate/policies/compressing.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "daemon/planner/schedule_period.h"
#include "daemon/planner/simulate/joint/joint.h"
#include "daemon/planner/simulate/program.h"
#include "tests/planner/simulate/random_plans.h"
#include "tests/planner/simulate/simulated.h"

namespace terrace::planner {
namespace {

using namespace test;
using wire::Action;
using wire::ScheduleEntry;

// All that plan their moves and compress none by a rule of this file.
std::vector<std::string> planning_policies() {
  std::vector<std::string> names;
  for (const SwapPolicy& p : published_swap_policies())
    if (!p.moves_on_demand_only() && p.coding == Coding::as_planned) names.push_back(p.name);
  return names;
}

wire::TraceTensor sparse(std::uint64_t bytes, double share) {
  wire::TraceTensor t = tensor(bytes);
  t.sparsity = share;
  return t;
}

// Of random machines codec 1 halves every tensor, codec 2 drops zeros.
bool is_sparse(const wire::Trace& trace, const Machine& machine, std::uint32_t tensor) {
  return trace.tensors[tensor].sparsity &&
         stored_bytes(trace.tensors[tensor], machine.codecs[1]) < trace.tensors[tensor].bytes;
}

// A codec for zeros without masks.
Machine with_codec(Machine machine, double bytes_per_second) {
  machine.codecs = {{"zeros", bytes_per_second, bytes_per_second, 1, true, 0}};
  return machine;
}

SwapPlan by_hand(const wire::Trace& trace, std::vector<ScheduleEntry> entries) {
  SwapPlan plan{{trace.name, "by hand", std::move(entries)}, Victims::none};
  describe(trace, &plan);
  return plan;
}

std::vector<std::uint32_t> compressed_tensors(const wire::Schedule& schedule) {
  std::vector<std::uint32_t> tensors;
  for (const ScheduleEntry& e : schedule.entries)
    if (e.codec != 0) tensors.push_back(e.object);
  return tensors;
}

bool equal_schedules(const wire::Schedule& a, const wire::Schedule& b) {
  return std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(),
                    [](const ScheduleEntry& x, const ScheduleEntry& y) {
                      return x.at == y.at && x.object == y.object && x.action == y.action &&
                             x.tier == y.tier && x.codec == y.codec && x.by == y.by;
                    });
}

}  // namespace

TEST_CASE("cDMA compresses every sparse move of a plan, no dense one, and changes nothing else") {
  std::uint32_t coded = 0, dense = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    const Machine m = roomy_machine(random, t);
    for (const std::string& name : planning_policies()) {
      const auto plain = swap_policy(name)->plan(t, m, brief);
      const auto plan = swap_policy(name + "+cdma")->plan(t, m, brief);
      INFO("seed " << seed << " " << name << " " << plan.error);
      if (!plain || !plan) continue;
      REQUIRE(plan->policy == name + "+cdma");
      REQUIRE(plan->victims == plain->victims);
      wire::Schedule expected = *plain;
      for (ScheduleEntry& e : expected.entries) {
        if (e.action != Action::out || e.codec != 0) continue;
        e.codec = is_sparse(t, m, e.object) ? 2 : 0;
        ++(e.codec != 0 ? coded : dense);
      }
      REQUIRE(equal_schedules(*plan, expected));
    }
  }
  CHECK(coded > 500);
  CHECK(dense > 500);
}

TEST_CASE("The judge accepts every compressed plan, and CSWAP's is never slower than the plain one") {
  std::uint32_t ran = 0, faster = 0, left_plain = 0, cdma_slower = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    const Machine m = roomy_machine(random, t);
    for (const std::string& name : planning_policies()) {
      const auto plain = swap_policy(name)->plan(t, m, brief);
      const auto always = swap_policy(name + "+cdma")->plan(t, m, brief);
      const auto paying = swap_policy(name + "+cswap")->plan(t, m, brief);
      if (!plain || !paying) continue;
      INFO("seed " << seed << " " << name);
      const double plain_us = repeated_us(t, m, *plain);
      const double paying_us = repeated_us(t, m, *paying);
      REQUIRE(paying_us <= plain_us);
      if (plain_us == never_us) continue;
      ++ran;
      faster += paying_us < plain_us ? 1 : 0;
      left_plain += equal_schedules(*plain, *paying) ? 1 : 0;
      cdma_slower += repeated_us(t, m, *always) > plain_us ? 1 : 0;
    }
  }
  CHECK(ran > 1000);
  CHECK(faster > 100);
  CHECK(left_plain > 100);
  CHECK(cdma_slower > 100);  // so that a rule is needed
}

TEST_CASE(
    "A codec that overlaps takes no time of the computation, and its transfer takes at least the codec's") {
  // A of 100 bytes, half zeros, leaves and returns over 1 byte/µs while others compute.
  const wire::Trace t = step({sparse(100, 0.5), tensor(1)},
                             {op(10, {}, {0}), op(500, {}, {1}), op(500, {}, {}), op(10, {0, 1}, {})});
  const SwapPlan plan = by_hand(t, {{1, 0, Action::out, 1, 1}, {2, 0, Action::in, 1, {}}});
  const auto times = [&](double codec_bytes_per_second) {
    Machine m = with_codec(two_tiers(1000), codec_bytes_per_second);
    m.codecs[0].overlaps = true;
    const SimulationReport r = simulated(t, m, plan.entries);
    CHECK(r.total_us == 1020);
    CHECK(r.codec_us == 0);
    REQUIRE(r.transfers.size() == 2);
    const auto taken_us = [&](const Transfer& x) { return x.end_us - x.start_us; };
    CHECK(taken_us(r.transfers[0]) == Approx(taken_us(r.transfers[1])));
    return taken_us(r.transfers[0]);
  };
  CHECK(times(100e6) == Approx(50));
  CHECK(times(2e6) == Approx(50));
  CHECK(times(1e6) == Approx(100));
  CHECK(times(0.5e6) == Approx(200));
}

TEST_CASE("An eviction through a codec that overlaps waits until what writes the tensor has ended") {
  // B's way keeps the link busy until 110; A's waits behind it, while operation 2 writes A. A codec that
  // works before would have encoded A's old content: that eviction is called off.
  const wire::Trace t =
      step({sparse(100, 0.5), tensor(100)},
           {op(10, {}, {0, 1}), op(1, {}, {}), op(50, {0}, {0}), op(300, {}, {}), op(1, {0, 1}, {})});
  const std::vector<ScheduleEntry> entries{{1, 1, Action::out, 1, {}}, {1, 0, Action::out, 1, 1}};
  Machine m = with_codec(two_tiers(1000), 100e6);
  CHECK(simulated(t, m, entries).transfers.size() == 2);  // B, out and in
  m.codecs[0].overlaps = true;
  const SimulationReport r = simulated(t, m, entries);
  REQUIRE(r.transfers.size() == 4);
  CHECK(r.transfers[1].tensor == 0);
  CHECK(r.transfers[1].stored_bytes == 50);
  CHECK(r.transfers[1].start_us == Approx(110));
}

TEST_CASE("What comes through a codec that overlaps is as it was: it leaves whole for elsewhere") {
  Machine m = with_codec(two_tiers(1000), 100e6);
  m.codecs[0].overlaps = true;
  m.tiers.push_back({"ssd", unlimited_bytes});
  m.routes.push_back({2, {0}});
  const wire::Trace t = step({sparse(100, 0.5)}, {op(10, {}, {0}), op(100, {}, {}), op(10, {}, {}),
                                                  op(500, {}, {}), op(1, {0}, {})});
  const SimulationReport r =
      simulated(t, m, {{1, 0, Action::out, 1, 1}, {2, 0, Action::in, 1, {}}, {3, 0, Action::out, 2, {}}});
  REQUIRE(r.transfers.size() == 4);
  CHECK(r.transfers[2].tier == 2);
  CHECK(r.transfers[2].stored_bytes == 100);
}

TEST_CASE("A step that begins while something waits to leave through a codec that overlaps has it whole") {
  wire::TraceTensor weights = sparse(100, 0.5);
  weights.persistent = true;
  const wire::Trace t = step({tensor(100, true), weights}, {op(10, {0, 1}, {0, 1}), op(500, {}, {})});
  Machine m = with_codec(two_tiers(1000), 100e6);
  m.codecs[0].overlaps = true;
  SimulationOptions twice;
  twice.steps = 2;
  const SimulationReport r = simulated(t, m, {{2, 0, Action::out, 1, {}}, {2, 1, Action::out, 1, 1}}, twice);
  const auto at =
      std::find_if(r.start.begin(), r.start.end(), [](const Residence& x) { return x.tensor == 1; });
  REQUIRE(at != r.start.end());
  CHECK(at->tier == 0);
  CHECK(at->stored_bytes == 100);
}

TEST_CASE("The judge knows how fast a codec that overlaps is, and what it makes of a tensor") {
  const wire::Trace t =
      step({sparse(100, 0.5), tensor(1)}, {op(10, {}, {0}), op(500, {}, {1}), op(10, {0, 1}, {})});
  Machine m = with_codec(two_tiers(1000), 2e6);
  m.codecs[0].overlaps = true;
  SimulationReport r = simulated(t, m, {{1, 0, Action::out, 1, 1}, {2, 0, Action::in, 1, {}}});
  REQUIRE(r.transfers.size() == 2);
  Machine other = m;
  other.codecs[0].compress_bytes_per_second = 1.9e6;
  CHECK_THAT(check_timeline(t, other, r), Catch::Contains("faster than its codec"));
  other = m;
  other.codecs[0].decompress_bytes_per_second = 1.9e6;
  CHECK_THAT(check_timeline(t, other, r), Catch::Contains("faster than its codec"));
  other = m;
  other.codecs[0].overlaps = false;
  CHECK_THAT(check_timeline(t, other, r), Catch::Contains("sent compressed, but was not"));
  other = m;
  other.codecs[0].stored_share = 0.9;
  CHECK_THAT(check_timeline(t, other, r), Catch::Contains("is sent"));
}

TEST_CASE(
    "Plans whose codecs overlap pass the judge, and cost no time where the codec is faster than any link") {
  std::uint32_t faster = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    Machine m = roomy_machine(random, t);
    m.codecs[0].overlaps = m.codecs[1].overlaps = true;
    const bool fast = seed % 2 == 0;
    if (fast) m.codecs[1].compress_bytes_per_second = m.codecs[1].decompress_bytes_per_second = 1e12;
    for (const std::string name : {"vdnnpp_all", "swapadvisor_first", "flashneuron", "capuchin"}) {
      const auto always = swap_policy(name + "+cdma")->plan(t, m, brief);
      const auto plain = swap_policy(name)->plan(t, m, brief);
      const auto paying = swap_policy(name + "+cswap")->plan(t, m, brief);
      if (!always || !plain || !paying) continue;
      INFO("seed " << seed << " " << name);
      const double plain_us = repeated_us(t, m, *plain), always_us = repeated_us(t, m, *always);
      REQUIRE(repeated_us(t, m, *paying) <= plain_us);
      faster += fast && always_us < plain_us ? 1 : 0;
    }
  }
  CHECK(faster > 20);
}

TEST_CASE("CSWAP's rule: encoding, two coded transfers and decoding against two plain ones") {
  // 100 bytes, half zeros, over 1 byte/us: 100 us each way, 50 when coded. The codec has 100 us for both.
  const wire::Trace t =
      step({sparse(100, 0.5), tensor(100)}, {op(1, {}, {0, 1}), op(1, {}, {}), op(1, {0, 1}, {})});
  const auto pays = [&](double bytes_per_second, std::uint32_t tensor) {
    const Machine m = with_codec(two_tiers(1000), bytes_per_second);
    return SparseCodecs(t, m).pays(tensor, 1);
  };
  CHECK(pays(2.01e6, 0));
  CHECK_FALSE(pays(2e6, 0));
  CHECK_FALSE(pays(1e12, 1));  // dense
  // Of two codecs the one with which the tensor is back first, not the one that makes least of it.
  Machine two = with_codec(two_tiers(1000), 4e6);
  two.codecs.push_back({"smaller", 0.5e6, 0.5e6, 0.8, true, 0});
  CHECK(SparseCodecs(t, two).of(0, 1) == 1);
  two.codecs[1].compress_bytes_per_second = two.codecs[1].decompress_bytes_per_second = 4e6;
  CHECK(SparseCodecs(t, two).of(0, 1) == 2);
  // One that overlaps costs what it takes longer than the link.
  two.codecs = {{"beside", 2e6, 2e6, 1, true, 0}};
  two.codecs[0].overlaps = true;
  CHECK(SparseCodecs(t, two).pays(0, 1));
  CHECK(SparseCodecs(t, two).transfer_us(0, 1, 1, true) == Approx(50));
  two.codecs[0].decompress_bytes_per_second = 0.5e6;
  CHECK(SparseCodecs(t, two).transfer_us(0, 1, 1, true) == Approx(200));
  CHECK_FALSE(SparseCodecs(t, two).pays(0, 1));
  // Another kind of codec may lose precision.
  two.codecs = {{"half", 1e12, 1e12, 0.5, false, 0}};
  CHECK_FALSE(SparseCodecs(t, two).any());
}

TEST_CASE("CSWAP leaves plain what the codec takes longer for than the link") {
  // 0 rests over operation 1, which has room for nothing else. The link takes 200 us for it, or 100 and the
  // codec.
  const wire::Trace t =
      step({sparse(100, 0.5), tensor(100)}, {op(10, {}, {0}), op(10, {}, {1}), op(10, {0}, {})});
  const SwapPlan plain = by_hand(t, {{1, 0, Action::out, 1, {}}, {2, 0, Action::in, 1, {}}});
  const Machine slow = with_codec(two_tiers(100), 1e6), fast = with_codec(two_tiers(100), 10e6);
  CHECK(equal_schedules(plain, compressed(t, slow, plain, Coding::where_it_pays)));
  const SwapPlan paying = compressed(t, fast, plain, Coding::where_it_pays);
  CHECK(compressed_tensors(paying) == std::vector<std::uint32_t>{0});
  CHECK(repeated_us(t, fast, plain) == 230);
  CHECK(repeated_us(t, fast, paying) == Approx(130 + 20));
  // cDMA does not ask.
  CHECK(compressed_tensors(compressed(t, slow, plain, Coding::always)) == std::vector<std::uint32_t>{0});
}

TEST_CASE("CSWAP compresses what is waited for, and leaves plain what moves behind computing") {
  // 0 is out and back while operations 1 and 2 take 1,000 us; for 1 operation 7 waits.
  const wire::Trace t = step({sparse(100, 0.5), sparse(100, 0.5)},
                             {op(10, {}, {0}), op(500, {}, {}), op(500, {}, {}), op(10, {0}, {}),
                              op(10, {}, {1}), op(150, {}, {}), op(10, {}, {}), op(10, {1}, {})});
  const Machine m = with_codec(two_tiers(200), 10e6);
  const SwapPlan plain = by_hand(t, {{1, 0, Action::out, 1, {}},
                                     {2, 0, Action::in, 1, {}},
                                     {5, 1, Action::out, 1, {}},
                                     {6, 1, Action::in, 1, {}}});
  const SwapPlan paying = compressed(t, m, plain, Coding::where_it_pays);
  CHECK(compressed_tensors(paying) == std::vector<std::uint32_t>{1});
  // 1's way back of 100 us, 10 of which are hidden, becomes 50, and the codec takes 20.
  CHECK(repeated_us(t, m, plain) == 1200 + 90);
  CHECK(repeated_us(t, m, paying) == Approx(1200 + 40 + 20));
}

TEST_CASE("What comes back coded begins later where its memory serves another until then") {
  // 0 comes back before operation 2, and with 1 fills the memory, so that 3 waits until 1 has left. Coded and
  // 50 us later, it leaves room for 3's output.
  const wire::Trace t = step({sparse(100, 0.5), tensor(100), tensor(100)},
                             {op(10, {}, {0}), op(200, {}, {1}), op(50, {1}, {}), op(100, {}, {2}),
                              op(10, {0, 2}, {}), op(10, {1}, {})});
  const Machine m = with_codec(two_tiers(200), 1e12);
  const SwapPlan plain = by_hand(t, {{1, 0, Action::out, 1, {}},
                                     {2, 0, Action::in, 1, {}},
                                     {3, 1, Action::out, 1, {}},
                                     {5, 1, Action::in, 1, {}}});
  const SwapPlan paying = compressed(t, m, plain, Coding::where_it_pays);
  CHECK(repeated_us(t, m, compressed(t, m, plain, Coding::always)) == Approx(repeated_us(t, m, plain)));
  CHECK(repeated_us(t, m, plain) - repeated_us(t, m, paying) == Approx(50));
  REQUIRE(paying.entries.size() == 4);
  CHECK(paying.entries[1].object == 0);
  CHECK(paying.entries[1].at == 3);
  CHECK(paying.entries[1].by == 4);
}

TEST_CASE("A joint plan with codecs is never slower than one without, nor than any compressed plan") {
  std::uint32_t ran = 0, faster = 0, coded = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const wire::Trace t = random_step(random);
    Machine m = roomy_machine(random, t);
    m.codecs = {{"zeros", 500e6, 500e6, 1, true, 0.03125}};
    Machine plain = m;
    plain.codecs.clear();
    const auto with = joint::plan_jointly(t, m, brief);
    const auto without = joint::plan_jointly(t, plain, brief);
    INFO("seed " << seed << " " << with.error << without.error);
    REQUIRE(bool(with) == bool(without));
    if (!with) continue;
    ++ran;
    const double with_us = repeated_us(t, m, *with), without_us = repeated_us(t, plain, *without);
    REQUIRE(with_us <= without_us);
    faster += with_us < without_us * (1 - 1e-9) ? 1 : 0;
    coded += compressed_tensors(*with).empty() ? 0 : 1;
    for (const std::string& name : planning_policies()) {
      for (const char* rule : {"+cdma", "+cswap"}) {
        const auto other = swap_policy(name + rule)->plan(t, m, {});
        if (other) REQUIRE(with_us <= joint::planned_step_us(t, m, *other) * (1 + 1e-12));
      }
    }
  }
  CHECK(ran > 40);
  CHECK(faster > 10);
  CHECK(coded > 10);
}

TEST_CASE("Codecs that a step has no use for leave the joint plan as it is") {
  std::uint32_t moved = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    wire::Trace t = random_step(random);
    Machine m = roomy_machine(random, t);
    m.codecs = {{"zeros", 50e6, 50e6, 1, true, 0.03125}};
    Machine plain = m;
    plain.codecs.clear();
    const auto sparse_step = joint::plan_jointly(t, plain, brief);
    for (wire::TraceTensor& one : t.tensors) one.sparsity = std::nullopt;
    const auto dense_step = joint::plan_jointly(t, plain, brief);
    const auto with_codec = joint::plan_jointly(t, m, brief);
    INFO("seed " << seed);
    REQUIRE(bool(dense_step) == bool(with_codec));
    if (!dense_step) continue;
    REQUIRE(equal_schedules(*dense_step, *sparse_step));
    REQUIRE(equal_schedules(*dense_step, *with_codec));
    moved += dense_step->entries.empty() ? 0 : 1;
  }
  CHECK(moved > 20);
}

TEST_CASE("What cannot be compressed is refused with a reason, and what to do instead") {
  const auto error = [](const char* name) { return swap_policy(name).error; };
  CHECK_THAT(error("lru+cdma"),
             Catch::Contains("'lru' plans no move") && Catch::Contains("swapadvisor+cdma"));
  CHECK_THAT(error("keep+cswap"),
             Catch::Contains("'keep' plans no move") && Catch::Contains("swapadvisor+cswap"));
  CHECK_THAT(error("cdma+cswap"),
             Catch::Contains("'cdma' compresses") && Catch::Contains("leave +cswap out"));
  CHECK_THAT(error("g10+cdma+cswap"), Catch::Contains("'g10+cdma' compresses"));
  CHECK_THAT(error("nonsense+cdma"), Catch::Contains("'nonsense'") && Catch::Contains("--list"));
  CHECK_THAT(error("g10+zip"), Catch::Contains("'g10+zip'") && Catch::Contains("--list"));
  CHECK(swap_policy("joint+cswap"));
  const wire::Trace dense = step({tensor(100)}, {op(1, {}, {0}), op(1, {}, {}), op(1, {0}, {})});
  wire::Trace zeros = dense;
  zeros.tensors[0].sparsity = 0.5;
  for (const char* name : {"cdma", "cswap", "swapadvisor+cdma", "swapadvisor+cswap"}) {
    const SwapPolicy policy = *swap_policy(name);
    CHECK_THAT(policy.plan(zeros, two_tiers(100)).error, Catch::Contains("no codec that drops zeros"));
    CHECK_THAT(policy.plan(dense, with_codec(two_tiers(100), 1e6)).error, Catch::Contains("sparsity"));
  }
  CHECK(swap_policy("swapadvisor+cdma")->plan(zeros, with_codec(two_tiers(100), 1e6)));
}

}  // namespace terrace::planner
