// Ten programs of different structure: their period is right within three of its turns, and each event of the
// step has the same ordinal in each turn from then on.
#include <catch2/catch.hpp>

#include "tests/liballoc/lifetimes/watched.h"

namespace terrace::liballoc {
namespace {

using namespace test;

// The period must be claimed before the fourth of the steps called "step" begins; from there on, all of it.
void expect_period(const Script& script, std::size_t periods_until_right = 3,
                   std::uint32_t most_departures = 0) {
  Watched watched;
  watched.run(script.events);
  const auto steps = steps_of("step", script.events, watched.places);
  REQUIRE(steps.size() > periods_until_right + 2);
  std::set<std::uint32_t> ids;
  for (std::size_t i = periods_until_right; i < steps.size(); ++i) {
    INFO("step " << i << " of " << steps[i].events << " events, " << steps[i].claimed << " claimed");
    CHECK(steps[i].claimed == steps[i].events);
    CHECK(steps[i].lengths == std::set<std::uint32_t>{steps[i].events});
    ids.insert(steps[i].phases.begin(), steps[i].phases.end());
  }
  REQUIRE(ids.size() == 1);
  CHECK(wrong_ordinals(script.events, watched.places, *ids.begin(), "step") == 0);
  CHECK(watched.clock.counts().departures <= most_departures);
}

template <typename Step>
Script repeated(std::size_t steps, Step step) {
  Script script;
  for (std::size_t i = 0; i < steps; ++i) {
    script.begin("step");
    step(script);
  }
  return script;
}

}  // namespace

TEST_CASE("A chain of layers of different sizes") {
  const auto layers = random_layers(1, 40);
  expect_period(repeated(7, [&](Script& s) { train(s, layers); }));
}

TEST_CASE("A step of thirty events") {
  const auto layers = random_layers(2, 4);
  expect_period(repeated(12, [&](Script& s) { train(s, layers); }), 4);
}

TEST_CASE("A step of sixty thousand events") {
  const auto layers = random_layers(3, 7500);
  expect_period(repeated(6, [&](Script& s) { train(s, layers); }));
}

// Each of any eight events in a row comes many times in the step.
TEST_CASE("A long step of two sizes") {
  Script sizes(14);
  std::vector<std::uint64_t> drawn(1500);
  for (std::uint64_t& bytes : drawn) bytes = (1 + sizes.random() % 2) * mib;
  expect_period(repeated(7, [&](Script& s) {
    for (const std::uint64_t bytes : drawn) s.release(s.allocate(bytes));
  }));
}

// Every layer is the same, so that the forward pass and the backward pass each repeat within.
TEST_CASE("A transformer of equal layers") {
  const std::vector<Layer> layers(24, Layer{8 * mib, 24 * mib, 4 * mib});
  expect_period(repeated(8, [&](Script& s) { train(s, layers); }));
}

TEST_CASE("A recurrent network unrolled over time") {
  expect_period(repeated(8, [](Script& s) {
    const std::uint32_t input = s.allocate(6 * mib);
    std::vector<std::uint32_t> saved;
    for (int t = 0; t < 30; ++t) {
      const std::uint32_t gates = s.allocate(4 * mib);
      saved.push_back(s.allocate(mib));
      saved.push_back(s.allocate(mib));
      s.release(gates);
    }
    const std::uint32_t logits = s.allocate(9 * mib), loss = s.allocate(9 * mib);
    s.release(logits);
    for (; !saved.empty(); saved.pop_back()) {
      const std::uint32_t gradient = s.allocate(2 * mib);
      s.release(saved.back());
      s.release(gradient);
    }
    s.release(loss);
    s.release(input);
  }));
}

// Dense blocks: each layer reads a new concatenation of all before it.
TEST_CASE("A network that concatenates all before") {
  expect_period(repeated(7, [](Script& s) {
    std::vector<std::uint32_t> kept{s.allocate(5 * mib)};
    for (std::uint64_t i = 1; i < 30; ++i) {
      kept.push_back(s.allocate(i * mib / 2 + mib));
      const std::uint32_t narrow = s.allocate(4 * mib);
      kept.push_back(s.allocate(mib));
      s.release(narrow);
    }
    for (; !kept.empty(); kept.pop_back()) {
      const std::uint32_t gradient = s.allocate((kept.size() + 1) * mib / 4);
      s.release(kept.back());
      s.release(gradient);
    }
  }));
}

// Four times the same on the way and back, each balanced, then the optimizer: the step is all of it.
TEST_CASE("Gradients of four small batches and then one update") {
  const auto layers = random_layers(5, 12);
  const auto script = repeated(9, [&](Script& s) {
    for (int i = 0; i < 4; ++i) train(s, layers);
    for (const Layer& l : layers) {
      const std::uint32_t first = s.allocate(l.weight), second = s.allocate(l.weight + mib);
      s.release(first);
      s.release(second);
    }
  });
  expect_period(script, 3, 4);
  Watched watched;
  watched.run(script.events);
  CHECK(watched.clock.counts().phases_learned == 2);
  CHECK(watched.clock.counts().phases_known == 1);  // the small batch is a part of it
}

// Checkpoints: each layer gives back nearly all it takes, forward and back.
TEST_CASE("Activations computed again from checkpoints") {
  expect_period(repeated(8, [](Script& s) {
    std::vector<std::uint32_t> checkpoints;
    const auto layer = [&](bool is_back) {
      std::vector<std::uint32_t> inner;
      for (std::uint64_t i = 1; i < 9; ++i) inner.push_back(s.allocate(i * 2 * mib));
      if (is_back) s.release(checkpoints.back());
      if (is_back) checkpoints.pop_back();
      for (const std::uint32_t b : inner) s.release(b);
    };
    for (int i = 0; i < 16; ++i) {
      layer(false);
      checkpoints.push_back(s.allocate(4 * mib));
    }
    const std::uint32_t loss = s.allocate(30 * mib);
    for (int i = 0; i < 16; ++i) layer(true);
    s.release(loss);
  }));
}

// Two steps of one network for one of the other: a period is the three.
TEST_CASE("A discriminator and a generator by turns") {
  const auto one = random_layers(6, 10), other = random_layers(7, 14);
  const auto script = repeated(9, [&](Script& s) {
    train(s, one);
    train(s, one);
    train(s, other);
  });
  expect_period(script, 3, 2);
}

TEST_CASE("Three threads whose order is another in each step") {
  const std::vector<Layer> layers[] = {random_layers(8, 30), random_layers(9, 22), random_layers(10, 9)};
  Script script(4);
  for (int i = 0; i < 9; ++i) {
    script.begin("step");
    for (std::uint32_t thread = 0; thread < 3; ++thread) train(script, layers[thread], 1, 7 + thread);
    script.shuffle_threads();
  }
  expect_period(script);
}

TEST_CASE("First steps that differ") {
  const auto layers = random_layers(11, 25);
  Script script;
  std::vector<std::uint32_t> states;
  for (int i = 0; i < 10; ++i) {
    script.begin(i < 2 ? "" : "step");
    if (i == 0) forward_only(script, layers);
    train(script, layers);
    for (std::size_t l = 0; i < 2 && l < layers.size(); ++l)
      states.push_back(script.allocate(layers[l].weight));
  }
  expect_period(script);
}

TEST_CASE("Noise of other threads at any moment") {
  const auto layers = random_layers(12, 30);
  const bool is_of_one_size = GENERATE(false, true);
  Script script(5);
  for (int i = 0; i < 10; ++i) {
    script.begin("step");
    train(script, layers);
    script.add_noise(9, 21, is_of_one_size);
    script.add_noise(15, 22, is_of_one_size);
  }
  expect_period(script);
}

// A few events of noise equal those before them by accident, which makes their thread no part of the step.
TEST_CASE("Noise is never taken for a part of the step") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Script script(seed);
    const auto layers = random_layers(seed, 9 + seed % 16);
    for (int i = 0; i < 7; ++i) {
      script.begin("step");
      train(script, layers);
      script.add_noise(5 + static_cast<std::uint32_t>(seed % 19), 1, seed % 2 == 0);
      script.add_noise(8 + static_cast<std::uint32_t>(seed % 13), 2, seed % 3 == 0);
    }
    INFO("seed " << seed);
    expect_period(script);
  }
}

}  // namespace terrace::liballoc
