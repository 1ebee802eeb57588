// What else the event clock says: births, marks, noise within a thread; and what it takes.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/liballoc/lifetimes/watched.h"

namespace terrace::liballoc {
namespace {

using namespace test;

// As the agent has it: there before anything runs, and never destroyed.
constinit EventClock without_construction;

struct OwnClock : EventClock {
  explicit OwnClock(std::uint32_t blocks) { REQUIRE(initialise(blocks) == 0); }
  ~OwnClock() { finish(); }
};

std::size_t resident_kib() {
  std::size_t pages = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  REQUIRE(file != nullptr);
  REQUIRE(std::fscanf(file, "%zu %zu", &pages, &resident) == 2);
  std::fclose(file);
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

}  // namespace

TEST_CASE("Of what is freed it says where it was born") {
  const auto layers = random_layers(71, 20);
  Script script;
  const std::uint32_t weight = script.allocate(64 * mib);
  std::uint32_t carried = script.allocate(7 * mib);
  for (int i = 0; i < 9; ++i) {
    script.begin("step");
    train(script, layers);
    // Lives from the end of each step to the end of the next.
    const std::uint32_t next = script.allocate(7 * mib);
    script.release(carried);
    carried = next;
  }
  script.begin("end");
  script.release(weight);
  Watched watched;
  watched.run(script.events);
  std::map<std::uint32_t, std::uint32_t> ordinal_of_block;
  std::size_t here = 0, before = 0;
  for (std::size_t i = 0; i < script.events.size(); ++i) {
    const ClockEvent& e = script.events[i].event;
    const StepPlace& p = watched.places[i];
    if (e.kind == ClockEvent::Kind::allocated) {
      ordinal_of_block[e.block] = p.claimed ? p.ordinal : no_ordinal;
      CHECK(p.birth == Birth::unknown);
      continue;
    }
    if (p.birth != Birth::unknown && p.born_at != no_ordinal) REQUIRE(p.born_at == ordinal_of_block[e.block]);
    here += p.birth == Birth::here ? 1 : 0;
    if (p.birth == Birth::before) {
      ++before;
      CHECK((e.bytes == 7 * mib || e.bytes == 64 * mib));
    }
    if (e.bytes == 7 * mib && script.events[i].truth.step >= 4) CHECK(p.birth == Birth::before);
  }
  CHECK(watched.places.back().birth == Birth::before);
  const std::size_t frees = 1 + 3 * layers.size() + 1;
  CHECK(here >= 5 * frees);
  CHECK(before >= 6);
}

TEST_CASE("A period begins once for each step") {
  const auto layers = random_layers(72, 25);
  Script script;
  for (int i = 0; i < 12; ++i) {
    script.begin("step");
    train(script, layers);
  }
  Watched watched;
  watched.run(script.events);
  std::size_t began = 0;
  for (std::size_t i = 0; i < watched.places.size(); ++i) {
    if (!watched.places[i].period_began) continue;
    ++began;
    CHECK(watched.places[i].ordinal == 0);
    CHECK(script.events[i].truth.ordinal == 0);  // the program entered its loop there
  }
  CHECK(began == 9);
  CHECK(watched.clock.counts().periods == 9 + 1);
}

// The loop has been entered in the middle of a step, after what the first step alone allocates. A mark moves
// the beginning.
TEST_CASE("A mark is where the period begins") {
  const auto layers = random_layers(73, 25);
  Watched watched;
  Script script;
  script.begin("");
  forward_only(script, layers);
  watched.run(script.events);
  for (int i = 0; i < 6; ++i) {
    const StepPlace at_mark = watched.clock.mark(0);
    CHECK(at_mark.claimed == (i >= 2));  // after two equal steps: no sooner, no later
    CHECK(at_mark.period_began == (i >= 2));
    CHECK(at_mark.ordinal == 0);
    Script step;
    step.begin("step");
    train(step, layers);
    watched.run(step.events);
  }
}

TEST_CASE("Marks alone are a clock") {
  OwnClock clock(16);
  StepPlace p;
  for (int i = 0; i < 20; ++i) p = clock.mark(3);
  CHECK(p.claimed);
  CHECK(p.length == 1);
  CHECK(p.period_began);
}

// A name is an event as an allocation is: only a mark without one says that a step begins.
TEST_CASE("Named points have ordinals of their own") {
  OwnClock clock(16);
  for (int i = 0; i < 8; ++i) {
    const StepPlace begin = clock.mark(3), forward = clock.mark(3, 71), back = clock.mark(3, 72);
    CHECK(begin.claimed == (i >= 2));
    CHECK(begin.period_began == (i >= 3));  // claimed by the third mark itself
    CHECK_FALSE(forward.period_began);
    if (i < 2) continue;
    CHECK(begin.length == 3);
    CHECK((forward.claimed && forward.ordinal == 1));
    CHECK((back.claimed && back.ordinal == 2));
  }
  CHECK_FALSE(clock.mark(3, 72).claimed);  // where a step should begin
}

TEST_CASE("Names in any order are no period") {
  const std::uint64_t names = GENERATE(1U, 2U, 5U, 1000U);
  std::mt19937_64 random(9);
  OwnClock clock(16);
  // One name over and over may well be one: it comes again at once.
  const int rounds = names == 1 ? 4000 : 300'000;
  for (int i = 0; i < rounds; ++i) clock.mark(3, 1 + random() % names);
  CHECK(clock.counts().claims == 0);
}

TEST_CASE("A mark that comes too early ends the claim at once") {
  const auto layers = random_layers(74, 25);
  Watched watched;
  Script script;
  for (int i = 0; i < 6; ++i) {
    watched.clock.mark(0);
    Script step;
    step.begin("step");
    train(step, layers);
    if (i == 5) step.events.resize(step.events.size() / 2);
    watched.run(step.events);
  }
  REQUIRE(watched.clock.is_claimed());
  CHECK(watched.clock.mark(0).departed);
}

// The same thread allocates something else now and then; the step's events keep their ordinals.
TEST_CASE("A few events of the same thread that belong to no step") {
  const auto layers = random_layers(75, 40);
  Script script(5);
  for (int i = 0; i < 12; ++i) {
    script.begin("step");
    train(script, layers);
    if (i >= 4) script.add_noise(40, 0, false);
  }
  Watched watched;
  watched.run(script.events);
  const auto steps = steps_of("step", script.events, watched.places);
  for (std::size_t i = 3; i < steps.size(); ++i) CHECK(steps[i].claimed == steps[i].events);
  CHECK(watched.clock.counts().departures == 0);
  CHECK(watched.clock.counts().noise_events > 8);
  CHECK(wrong_ordinals(script.events, watched.places, 1, "step") == 0);
}

// Two neighbours by turns in either order, as where a set decides.
TEST_CASE("Neighbours that change places keep their ordinals") {
  const auto layers = random_layers(76, 40);
  Script script(6);
  for (int i = 0; i < 12; ++i) {
    script.begin("step");
    const std::size_t begin = script.events.size();
    train(script, layers);
    for (std::size_t n = 60; i >= 4 && n < 150; n += 11) {
      LabelledEvent &one = script.events[begin + n], &other = script.events[begin + n + 1];
      const bool look_alike = one.event.kind == other.event.kind && one.event.bytes == other.event.bytes;
      if (!look_alike && script.random() % 2 == 0) std::swap(one, other);
    }
  }
  Watched watched;
  watched.run(script.events);
  const auto steps = steps_of("step", script.events, watched.places);
  for (std::size_t i = 3; i < steps.size(); ++i) CHECK(steps[i].claimed == steps[i].events);
  CHECK(wrong_ordinals(script.events, watched.places, 1, "step") == 0);
}

// More threads than are followed; the ones that were first keep their step.
TEST_CASE("A crowd of threads does not hide the step") {
  const auto layers = random_layers(77, 30);
  Script script(7);
  for (int i = 0; i < 10; ++i) {
    script.begin("step");
    train(script, layers);
    // All of them at once, too, so that the step's own thread is the one that was heard least recently.
    for (std::uint32_t thread = 100; thread < 140; ++thread)
      script.allocate((1 + thread) * mib, thread, true);
    for (std::uint32_t thread = 100; thread < 140; ++thread) script.add_noise(200, thread, false);
  }
  Watched watched;
  watched.run(script.events);
  const auto steps = steps_of("step", script.events, watched.places);
  for (std::size_t i = 3; i < steps.size(); ++i) CHECK(steps[i].claimed == steps[i].events);
}

TEST_CASE("Blocks beyond those it was made for have no births and do no harm") {
  OwnClock clock(4);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    CHECK(clock.on_event({ClockEvent::Kind::allocated, 6, 0, i % 7, mib}).born_at == no_ordinal);
    const StepPlace freed = clock.on_event({ClockEvent::Kind::freed, 0, 0, i % 7, mib});
    if (i % 7 >= 4) CHECK(freed.birth == Birth::unknown);
    clock.on_event({ClockEvent::Kind::freed, 0, 0, UINT32_MAX, mib});
  }
}

TEST_CASE("A clock needs no constructor and can be made anew") {
  for (int round = 0; round < 2; ++round) {
    REQUIRE(without_construction.initialise(4) == 0);
    CHECK_FALSE(without_construction.on_event({ClockEvent::Kind::allocated, 6, 0, 1, mib}).claimed);
    without_construction.finish();
  }
}

TEST_CASE("What is not used is not paid for") {
  const std::size_t before = resident_kib();
  OwnClock clock(1U << 20);
  CHECK(resident_kib() <= before + 512);
}

// A million events of eight threads without a period, and nine long phases: the most that can be in use.
TEST_CASE("Memory has a bound") {
  Watched watched;
  Script script(9);
  for (std::size_t phase = 0; phase < 3; ++phase) {
    const auto layers = random_layers(80 + phase, 4000);
    for (std::size_t i = 0; i < 4; ++i) {
      script.begin("phase");
      train(script, layers);
    }
  }
  const std::size_t before = resident_kib();
  for (const LabelledEvent& e : script.events) watched.clock.on_event(e.event);
  for (std::uint32_t i = 0; i < 1'000'000; ++i)
    watched.clock.on_event({ClockEvent::Kind::allocated, 6, static_cast<std::uint32_t>(script.random() % 8),
                            i % 1000, (1 + script.random() % 1000) * mib});
  CHECK(resident_kib() <= before + std::size_t{9} * 1024);
}

}  // namespace terrace::liballoc
