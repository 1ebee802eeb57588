// Events of real programs: PyTorch's, recorded (recordings/record_events.c), and the steps of eight networks
// that DTR logged (uwsampl/dtr-prototype), with another thread and noise beside them.
#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <sstream>

#include "daemon/planner/trace_json.h"
#include "tests/liballoc/lifetimes/watched.h"
#include "tests/planner/reference_data.h"

namespace terrace::liballoc {
namespace {

using namespace test;

std::string unpacked_recording(const std::string& name) {
  const std::string path = std::string(TERRACE_RECORDINGS) + "/" + name + ".events.gz";
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rbe"), gzclose);
  INFO(path);
  REQUIRE(file != nullptr);
  std::string text;
  char buffer[1 << 16];
  for (int n = 0; (n = gzread(file.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<unsigned>(n));
  return text;
}

// As record_events.c wrote it; the number of an allocation is the block's id.
std::vector<ClockEvent> recording(const std::string& name) {
  std::istringstream lines(unpacked_recording(name));
  std::vector<ClockEvent> events;
  std::uint32_t allocations = 0;
  char kind = 0;
  for (std::uint32_t thread = 0, number = 0; lines >> kind >> thread >> number;) {
    if (kind == 'a') {
      std::uint64_t bytes = 0;
      lines >> bytes;
      events.push_back(
          {ClockEvent::Kind::allocated, static_cast<std::uint8_t>(number), thread, allocations++, bytes});
    } else {
      events.push_back({ClockEvent::Kind::freed, 0, thread, number, 0});
    }
  }
  REQUIRE(events.size() > 4000);
  return events;
}

// Of blocks that were freed in the period of their birth: how often the event of their end was the same as in
// the period before.
struct Lives {
  std::size_t same = 0, other = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> end_of;  // by phase and ordinal of birth

  void see(const StepPlace& p) {
    if (!p.claimed || p.birth != Birth::here) return;
    const auto [end, is_first] = end_of.try_emplace({p.phase, p.born_at}, p.ordinal);
    if (!is_first) ++(end->second == p.ordinal ? same : other);
    end->second = p.ordinal;
  }
};

}  // namespace

// Four steps and a smaller one, three evaluations; and twice three, one and three (recordings/phases.py).
TEST_CASE("Phases of recorded training") {
  struct Recorded {
    const char* name;
    std::uint32_t train, evaluate;  // events of a step, by comparing each event with the one so far before it
  };
  const auto recorded = GENERATE(Recorded{"unet", 676, 244}, Recorded{"densenet121", 1746, 538},
                                 Recorded{"transformer", 288, 100});
  INFO(recorded.name);
  Watched watched;
  EventClock& clock = watched.clock;
  std::map<std::uint32_t, std::uint32_t> lengths;  // by phase
  std::map<std::uint32_t, std::size_t> claimed, periods;
  std::size_t first_claim = 0, number = 0;
  Lives lives;
  for (const ClockEvent& e : recording(recorded.name)) {
    ++number;
    const StepPlace p = clock.on_event(e);
    lives.see(p);
    if (p.claim_began && first_claim == 0) first_claim = number;
    if (!p.claimed) continue;
    REQUIRE(p.ordinal < p.length);
    lengths[p.phase] = p.length;
    ++claimed[p.phase];
    periods[p.phase] += p.period_began ? 1 : 0;
  }
  CHECK(lengths == std::map<std::uint32_t, std::uint32_t>{{1, recorded.train}, {2, recorded.evaluate}});
  CHECK(clock.counts().phases_learned == 2);
  CHECK(first_claim <= 4 * recorded.train);  // the first step also makes the optimizer's states
  // Of the six later steps and six later evaluations, at most an eighth of each three is not claimed.
  CHECK(claimed[1] >= 6 * recorded.train * 7 / 8);
  CHECK(claimed[2] >= 6 * recorded.evaluate * 7 / 8);
  CHECK(periods[1] >= 6);
  CHECK(periods[2] >= 6);
  // Ends are known by their births. The first step behind an evaluation also frees what that left: one in
  // thirty.
  CHECK(lives.same > 4 * recorded.train / 2);
  CHECK(lives.other * 30 <= lives.same);
}

namespace {

constexpr std::uint64_t least_bytes = std::uint64_t{256} << 10U;

// One step: tensors of 256 KiB and more, from the first operation that names them to the last.
void replay(Script& script, const wire::Trace& trace) {
  std::vector<std::size_t> first(trace.tensors.size(), SIZE_MAX), last(trace.tensors.size(), 0);
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    for (const auto* list : {&trace.ops[op].inputs, &trace.ops[op].outputs}) {
      for (const std::uint32_t t : *list) {
        first[t] = std::min(first[t], op);
        last[t] = op;
      }
    }
  }
  std::vector<std::vector<std::size_t>> begins(trace.ops.size()), ends(trace.ops.size());
  for (std::size_t t = 0; t < trace.tensors.size(); ++t) {
    if (first[t] == SIZE_MAX || trace.tensors[t].persistent || trace.tensors[t].bytes < least_bytes) continue;
    begins[first[t]].push_back(t);
    ends[last[t]].push_back(t);
  }
  std::vector<std::uint32_t> blocks(trace.tensors.size());
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    const std::uint64_t workspace = trace.ops[op].workspace_bytes;
    for (const std::size_t t : begins[op]) blocks[t] = script.allocate(trace.tensors[t].bytes);
    if (workspace >= least_bytes) script.release(script.allocate(workspace));
    for (const std::size_t t : ends[op]) script.release(blocks[t]);
  }
}

}  // namespace

TEST_CASE("Steps of networks that DTR logged") {
  const std::string name = GENERATE("densenet", "inceptionv4-64", "lstm-128", "resnet32-56", "transformer-10",
                                    "treelstm-6", "unet-6", "unroll_gan-512");
  const std::string file = name == "densenet" ? "tv_densenet121-84" : name;
  const auto text = planner::test::reference_data("dtr/" + file + ".json.gz");
  if (!text) return;
  const auto trace = planner::parse_trace(*text);
  INFO(name);
  REQUIRE(trace);
  const auto loader = random_layers(3, 8);
  Script script(6);
  for (int i = 0; i < 7; ++i) {
    script.begin("step");
    replay(script, *trace);
    forward_only(script, loader, 1);
    script.shuffle_threads();
    script.add_noise(20, 2, false);
  }
  Watched watched;
  watched.run(script.events);
  const auto steps = steps_of("step", script.events, watched.places);
  std::set<std::uint32_t> ids;
  for (std::size_t i = 3; i < steps.size(); ++i) {
    INFO("step " << i << " of " << steps[i].events << " events, " << steps[i].claimed << " claimed");
    CHECK(steps[i].claimed == steps[i].events);
    CHECK(steps[i].lengths == std::set<std::uint32_t>{steps[i].events});
    ids.insert(steps[i].phases.begin(), steps[i].phases.end());
  }
  REQUIRE(ids.size() == 1);
  CHECK(wrong_ordinals(script.events, watched.places, *ids.begin(), "step") == 0);
}

}  // namespace terrace::liballoc
