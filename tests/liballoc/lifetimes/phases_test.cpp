// Phases that end and return, and steps like no other between them.
#include <catch2/catch.hpp>

#include "tests/liballoc/lifetimes/watched.h"

namespace terrace::liballoc {
namespace {

using namespace test;

// Training, a last batch of half the size, evaluation.
Script epochs(std::size_t count, std::size_t train_steps, std::size_t evaluations, std::size_t depth = 40) {
  const auto layers = random_layers(21, depth);
  Script script(3);
  for (std::size_t epoch = 0; epoch < count; ++epoch) {
    for (std::size_t i = 0; i < train_steps; ++i) {
      script.begin("train");
      train(script, layers);
    }
    script.begin("last batch");
    train(script, layers, 0.5);
    for (std::size_t i = 0; i < evaluations; ++i) {
      script.begin("evaluation");
      forward_only(script, layers);
    }
  }
  return script;
}

// Without the first of every `in_a_row` steps: it may begin like the phase before it.
std::set<std::uint32_t> ids_of(const std::vector<StepResult>& steps, std::size_t in_a_row) {
  std::set<std::uint32_t> ids;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i % in_a_row != 0) ids.insert(steps[i].phases.begin(), steps[i].phases.end());
  }
  return ids;
}

}  // namespace

TEST_CASE("Training and evaluation are two phases that are known again") {
  const Script script = epochs(5, 8, 6);
  Watched watched;
  watched.run(script.events);
  const auto training = steps_of("train", script.events, watched.places);
  const auto evaluation = steps_of("evaluation", script.events, watched.places);
  CHECK(watched.clock.counts().phases_learned == 2);
  REQUIRE(ids_of(training, 8) == std::set<std::uint32_t>{1});
  REQUIRE(ids_of(evaluation, 6).size() == 1);
  const std::uint32_t evaluation_id = *ids_of(evaluation, 6).begin();
  CHECK(wrong_ordinals(script.events, watched.places, 1, "train") == 0);
  CHECK(wrong_ordinals(script.events, watched.places, evaluation_id, "evaluation") == 0);
  for (std::size_t i = 8; i < training.size(); ++i) {
    const bool is_first = i % 8 == 0;
    INFO("training step " << i);
    CHECK(training[i].claimed >= (is_first ? training[i].events * 7 / 8 : training[i].events));
  }
  for (std::size_t i = 6; i < evaluation.size(); ++i) {
    const bool is_first = i % 6 == 0;
    INFO("evaluation " << i);
    CHECK(evaluation[i].claimed >= (is_first ? evaluation[i].events * 3 / 4 : evaluation[i].events));
  }
}

TEST_CASE("A last batch of another size ends the claim within its step") {
  const Script script = epochs(3, 8, 6);
  Watched watched;
  watched.run(script.events);
  std::size_t departed = 0, into_it = 0;
  for (std::size_t i = 0, begin = 0; i < script.events.size(); ++i) {
    if (script.events[i].truth.phase != "last batch") continue;
    if (script.events[i - 1].truth.phase == "train") begin = i;
    if (!watched.places[i].departed) continue;
    ++departed;
    into_it = std::max(into_it, i - begin);
  }
  CHECK(departed >= 3);
  CHECK(into_it <= 32);
}

// The way forward without gradients begins like training's; each fourth event differs.
TEST_CASE("An evaluation is no training for long") {
  const auto layers = random_layers(24, 40);
  Script script;
  for (std::size_t i = 0; i < 7; ++i) {
    script.begin(i < 6 ? "train" : "evaluation");
    if (i < 6) train(script, layers);
    if (i == 6) forward_only(script, layers);
  }
  Watched watched;
  watched.run(script.events);
  const auto evaluation = steps_of("evaluation", script.events, watched.places);
  CHECK(watched.clock.counts().departures == 1);
  CHECK(evaluation[0].claimed <= 32);
}

// What the first step alone allocates at its end lets the repeat begin in the middle of a step. Four small
// batches look alike, so that nothing but the place where the step was entered the last time says which one
// it is.
TEST_CASE("A phase is known again where it was entered before") {
  const auto layers = random_layers(26, 12);
  Script script;
  for (std::size_t i = 0; i < 60; ++i) {
    script.begin(i % 12 < 7 ? "train" : "evaluation");
    for (int n = 0; n < 4; ++n) {
      if (i % 12 < 7) train(script, layers);
    }
    for (std::size_t l = 0; i % 12 < 7 && l < 8; ++l) {
      const std::uint32_t state = script.allocate(layers[l].weight + mib);
      if (i == 0) script.allocate(layers[l].weight);
      script.release(state);
    }
    if (i % 12 >= 7) forward_only(script, random_layers(27, 30));
  }
  Watched watched;
  watched.run(script.events);
  const auto steps = steps_of("train", script.events, watched.places);
  for (std::size_t i = 14; i < steps.size(); ++i) {
    INFO("training step " << i);
    CHECK(steps[i].claimed >= steps[i].events * 7 / 8);
  }
}

// Departures stay few: one where training ends and one where evaluation does, for each epoch.
TEST_CASE("Departures are counted and few") {
  const Script script = epochs(5, 8, 6);
  Watched watched;
  watched.run(script.events);
  const std::uint64_t departures = watched.clock.counts().departures;
  CHECK(departures >= 9);
  CHECK(departures <= 15);
}

// Another thread does the same with one buffer for ever. Where the program does something that never comes
// again, that loop is all that repeats; it must give way when training goes on.
TEST_CASE("A loop of a thread beside does not hide the phases") {
  Script script(9);
  const auto layers = random_layers(25, 40);
  std::uint32_t buffer = 0;
  for (std::size_t i = 0; i < 60; ++i) {
    const bool is_training = i < 40 || i % 4 < 2;
    script.begin(is_training ? "train" : "never again");
    train(script, is_training ? layers : random_layers(100 + i, 40));
    for (int n = 0; n < 60; ++n) {
      if (buffer != 0) script.release(buffer, 4);
      buffer = buffer != 0 ? 0 : script.allocate(mib, 4);
    }
    script.shuffle_threads();
  }
  Watched watched;
  watched.run(script.events);
  std::set<std::uint32_t> claimed_phases;
  std::size_t events = 0, claimed = 0;
  for (std::size_t i = 0; i < script.events.size(); ++i) {
    claimed_phases.insert(watched.places[i].phase);
    const Truth& truth = script.events[i].truth;
    if (script.events[i].event.thread != 0 || truth.phase != "train" || truth.step < 44) continue;
    ++events;
    claimed += watched.places[i].claimed ? 1 : 0;
  }
  CHECK(claimed_phases == std::set<std::uint32_t>{0, 1, 2});  // the second is the loop
  CHECK(claimed * 10 >= events * 9);
}

TEST_CASE("A program that changes its step for good is learned anew") {
  Script script;
  for (std::size_t i = 0; i < 20; ++i) {
    const bool is_second = i >= 10;
    script.begin(is_second ? "second" : "first");
    train(script, random_layers(is_second ? 31 : 30, 30), 1);
  }
  Watched watched;
  watched.run(script.events);
  const auto second = steps_of("second", script.events, watched.places);
  for (std::size_t i = 3; i < second.size(); ++i) CHECK(second[i].claimed == second[i].events);
  CHECK(ids_of(second, 10) == std::set<std::uint32_t>{2});
}

// Nine phases by turns, each long enough to be learned: the one that was away the longest makes room.
TEST_CASE("No more than eight phases are known") {
  Script script;
  for (std::size_t round = 0; round < 2; ++round) {
    for (std::size_t phase = 0; phase < 9; ++phase) {
      for (std::size_t i = 0; i < 5; ++i) {
        script.begin("phase " + std::to_string(phase));
        train(script, random_layers(50 + phase, 20));
      }
    }
  }
  Watched watched;
  for (const LabelledEvent& e : script.events) {
    watched.clock.on_event(e.event);
    REQUIRE(watched.clock.counts().phases_known <= 8);
  }
  CHECK(watched.clock.counts().phases_known == 8);
  CHECK(watched.clock.counts().phases_learned > 9);
}

// A fifth of the step's events is different, and stays so.
TEST_CASE("A step that changes in part keeps no claim that is wrong") {
  auto layers = random_layers(61, 40);
  Script script;
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 8) {
      for (std::size_t l = 0; l < layers.size(); l += 5) layers[l].output += mib / 2;
    }
    script.begin(i < 8 ? "before" : "after");
    train(script, layers);
  }
  Watched watched;
  watched.run(script.events);
  const auto after = steps_of("after", script.events, watched.places);
  CHECK(after.back().claimed == after.back().events);
  for (std::size_t i = script.events.size() - after.back().events; i < script.events.size(); ++i)
    REQUIRE(watched.places[i].length == after.back().events);
}

}  // namespace terrace::liballoc
