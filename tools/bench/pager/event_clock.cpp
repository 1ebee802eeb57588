// terrace-event-clock: what the event clock takes of each event (liballoc/lifetimes/event_clock.h).
//
// The agent runs it for every block of 256 KiB and more that a program allocates or frees. Programs are made
// up: steps of three lengths, equal layers, training and evaluation by turns, and two that have no period,
// where the search never ends. Each is run several times from the beginning, learning included, and the least
// processor time counts; beside it stands the longest that a single event took, which is where a phase was
// learned.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "liballoc/lifetimes/event_clock.h"
#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

using liballoc::ClockEvent;
using liballoc::EventClock;

constexpr const char* usage = R"(usage: terrace-event-clock [options]

Measures how many nanoseconds the event clock takes for one event, on made-up programs.

  --events N       give it so many events, 1000 at least (500000)
  --rounds N       repeat the whole so often (7)
  --json FILE      write all figures into this file)";

class Events {
 public:
  std::uint32_t allocate(std::uint64_t kib) {
    const std::uint32_t block = unused_.empty() ? next_++ : unused_.back();
    if (!unused_.empty()) unused_.pop_back();
    list.push_back({ClockEvent::Kind::allocated, 6, 0, block, kib << 10U});
    return block;
  }
  void release(std::uint32_t block) {
    list.push_back({ClockEvent::Kind::freed, 0, 0, block, 0});
    unused_.push_back(block);
  }
  std::vector<ClockEvent> list;

 private:
  std::vector<std::uint32_t> unused_;
  std::uint32_t next_ = 0;
};

// Forward and back through layers with outputs of these sizes: eight events a layer.
void train(Events& events, const std::vector<std::uint64_t>& layers) {
  std::vector<std::uint32_t> outputs;
  for (const std::uint64_t kib : layers) {
    const std::uint32_t workspace = events.allocate(kib / 2 + 300);
    outputs.push_back(events.allocate(kib));
    events.release(workspace);
  }
  for (std::size_t i = layers.size(); i-- > 0;) {
    const std::uint32_t flowing = events.allocate(layers[i] + 4),
                        weight = events.allocate(layers[i] / 4 + 256);
    events.release(outputs[i]);
    events.release(flowing);
    events.release(weight);
  }
}

void evaluate(Events& events, const std::vector<std::uint64_t>& layers) {
  std::uint32_t before = events.allocate(layers[0]);
  for (const std::uint64_t kib : layers) {
    const std::uint32_t output = events.allocate(kib);
    events.release(before);
    before = output;
  }
  events.release(before);
}

std::vector<std::uint64_t> random_sizes(std::size_t count) {
  std::mt19937_64 random(count);
  std::vector<std::uint64_t> kib(count);
  for (std::uint64_t& k : kib) k = 256 * (1 + random() % 64);
  return kib;
}

void draw_few_sizes(Events& events, std::size_t count) {
  std::mt19937_64 random(1);
  std::vector<std::uint32_t> blocks;
  while (events.list.size() < count) {
    if (blocks.size() < 4 || random() % 2 == 0) {
      blocks.push_back(events.allocate(1024 * (1 + random() % 3)));
      continue;
    }
    std::swap(blocks[random() % blocks.size()], blocks.back());
    events.release(blocks.back());
    blocks.pop_back();
  }
}

struct Program {
  const char* name;
  std::function<void(Events&, std::size_t)> write;
};

std::vector<Program> programs() {
  const auto steps = [](std::vector<std::uint64_t> layers) {
    return [layers = std::move(layers)](Events& events, std::size_t count) {
      while (events.list.size() < count) train(events, layers);
    };
  };
  return {{"a step of 320 events", steps(random_sizes(40))},
          {"a step of 8,000 events", steps(random_sizes(1000))},
          {"a step of 60,000 events", steps(random_sizes(7500))},
          {"24 equal layers", steps(std::vector<std::uint64_t>(24, 4096))},
          {"training and evaluation by turns",
           [](Events& events, std::size_t count) {
             const auto layers = random_sizes(50);
             while (events.list.size() < count) {
               for (int i = 0; i < 8; ++i) train(events, layers);
               for (int i = 0; i < 5; ++i) evaluate(events, layers);
             }
           }},
          {"three sizes at random", draw_few_sizes},
          {"Thue and Morse", [](Events& events, std::size_t count) {
             for (std::size_t i = 0; events.list.size() < count; ++i)
               events.release(events.allocate(1024U << static_cast<unsigned>(std::popcount(i) % 2)));
           }}};
}

double processor_ns() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

struct Taken {
  double ns_an_event = 0;
  double longest_us = 0;
  std::uint64_t claimed = 0;
};

Taken run_once(const std::vector<ClockEvent>& events, bool is_each_timed) {
  const auto clock = std::make_unique<EventClock>();
  if (clock->initialise(1U << 16U) != 0) throw std::runtime_error("no memory for the event clock");
  Taken taken;
  const double begin = processor_ns();
  for (const ClockEvent& e : events) {
    const double before = is_each_timed ? processor_ns() : 0;
    clock->on_event(e);
    if (is_each_timed) taken.longest_us = std::max(taken.longest_us, (processor_ns() - before) / 1000);
  }
  taken.ns_an_event = (processor_ns() - begin) / static_cast<double>(events.size());
  taken.claimed = clock->counts().claimed_events;
  clock->finish();
  return taken;
}

nlohmann::json measure(const Program& program, std::size_t count, long rounds) {
  Events events;
  program.write(events, count);
  Taken least = run_once(events.list, false);
  for (long i = 1; i < rounds; ++i) {
    least.ns_an_event = std::min(least.ns_an_event, run_once(events.list, false).ns_an_event);
  }
  const double longest_us = run_once(events.list, true).longest_us;
  const double share = static_cast<double>(least.claimed) / static_cast<double>(events.list.size());
  std::printf("%-34s %6.1f ns an event, %7.0f us the longest, %5.1f%% claimed\n", program.name,
              least.ns_an_event, longest_us, 100 * share);
  return {{"program", program.name},
          {"events", events.list.size()},
          {"ns_per_event", least.ns_an_event},
          {"longest_event_us", longest_us},
          {"claimed_share", share}};
}

int run(int argc, char** argv) {
  const Arguments arguments(argc, argv, {"--events", "--rounds", "--json"}, usage);
  const auto count = static_cast<std::size_t>(arguments.number("--events", 500'000, 1000, 100'000'000));
  const long rounds = arguments.number("--rounds", 7, 1, 1000);
  const std::string path = arguments.text("--json", "");
  refuse_unwritable(path);
  nlohmann::json report = begin_report("terrace-event-clock");
  for (const Program& program : programs()) report["programs"].push_back(measure(program, count, rounds));
  if (!path.empty()) write_json(path, report);
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) { return terrace::bench::run_as_program(terrace::bench::run, argc, argv); }
