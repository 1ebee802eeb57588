// Programs without a period: nothing is claimed, at any event.
#include <bit>
#include <catch2/catch.hpp>
#include <deque>

#include "tests/liballoc/lifetimes/watched.h"

namespace terrace::liballoc {
namespace {

using namespace test;

constexpr std::uint64_t kib = 1024;
constexpr std::size_t many = 300'000;  // events

void expect_silence(const Script& script) {
  Watched watched;
  watched.run(script.events);
  const ClockCounts counts = watched.clock.counts();
  CHECK(counts.events == script.events.size());
  CHECK(counts.claims == 0);
  CHECK(counts.phases_known == 0);
}

// Allocates what `size_of(i)` says; each block lives until `live` others have come.
template <typename SizeOf>
Script sequence(std::size_t live, SizeOf size_of) {
  Script script(live);
  script.begin("");
  std::deque<std::uint32_t> blocks;
  for (std::size_t i = 0; script.events.size() < many; ++i) {
    blocks.push_back(script.allocate(size_of(i)));
    if (blocks.size() <= live) continue;
    script.release(blocks.front());
    blocks.pop_front();
  }
  return script;
}

// The letters of a de Bruijn sequence of bits: each word of `order` bits occurs once. By the rule that
// prefers one (Martin 1934).
std::vector<bool> de_bruijn(std::uint32_t order) {
  std::vector<bool> seen(std::size_t{1} << order), out;
  std::size_t word = 0;
  while (!seen[word]) {
    seen[word] = true;
    const std::size_t shifted = (word << 1U) & (seen.size() - 1);
    const bool bit = !seen[shifted | 1U];
    word = shifted | (bit ? 1U : 0U);
    out.push_back(bit);
  }
  return out;
}

}  // namespace

TEST_CASE("Random sizes are no period") {
  std::mt19937_64 random(1);
  const std::uint64_t sizes = GENERATE(2U, 5U, 40U, 100'000U);
  expect_silence(sequence(6, [&](std::size_t) { return (1 + random() % sizes) * 256 * kib; }));
}

TEST_CASE("A random walk is no period") {
  std::mt19937_64 random(2);
  const std::uint64_t states = GENERATE(4U, 12U, 200U);
  const bool may_stay = GENERATE(false, true);
  std::uint64_t at = states / 2;
  expect_silence(sequence(3, [&](std::size_t) {
    const std::uint64_t step = random() % (may_stay ? 3 : 2);
    if (step == 0 && at > 1) --at;
    if (step == 1 && at < states) ++at;
    return at * 512 * kib;
  }));
}

// Each token makes the caches of all layers a little larger: the new one is allocated before the old one
// goes.
TEST_CASE("A decoder's growing caches are no period") {
  const std::size_t layers = GENERATE(1U, 32U, 120U);
  const bool both_first = GENERATE(false, true);
  Script script;
  script.begin("");
  std::vector<std::uint32_t> caches(2 * layers);
  for (std::uint64_t token = 1; script.events.size() < many; ++token) {
    for (std::size_t i = 0; i < caches.size(); i += 2) {
      const std::uint32_t old[] = {caches[i], caches[i + 1]};
      for (std::size_t n = 0; n < 2; ++n) {
        caches[i + n] = script.allocate((256 + 4 * token) * kib);
        if (!both_first && old[n] != 0) script.release(old[n]);
      }
      for (std::size_t n = 0; both_first && n < 2; ++n) {
        if (old[n] != 0) script.release(old[n]);
      }
    }
  }
  expect_silence(script);
}

// Requests of a few sizes come and go as they like: short repeats by accident are common.
TEST_CASE("Arrivals and departures of a few sizes are no period") {
  const std::uint64_t sizes = GENERATE(1U, 2U, 3U, 4U, 9U);
  const std::size_t usual = GENERATE(4U, 64U);
  Script script(sizes * 100 + usual);
  script.begin("");
  std::vector<std::uint32_t> blocks;
  while (script.events.size() < many) {
    if (script.random() % (blocks.size() + usual) < usual) {
      blocks.push_back(script.allocate((1 + script.random() % sizes) << 20U));
    } else {
      std::swap(blocks[script.random() % blocks.size()], blocks.back());
      script.release(blocks.back());
      blocks.pop_back();
    }
  }
  expect_silence(script);
}

// It has two equal turns side by side of every length 2^n and 3 * 2^n.
TEST_CASE("The sequence of Thue and Morse is no period") {
  const std::size_t live = GENERATE(0U, 1U, 5U);
  // Letters of many sizes each, so that no rule about few sizes decides.
  const std::uint64_t letters = GENERATE(1U, 6U);
  expect_silence(sequence(live, [&](std::size_t i) {
    const std::size_t at = i / letters, within = i % letters;
    return (1 + 2 * within + static_cast<unsigned>(std::popcount(at) % 2)) << 20U;
  }));
}

TEST_CASE("A de Bruijn sequence is no period") {
  const std::uint32_t bits_of_letter = GENERATE(1U, 3U);
  const auto bits = de_bruijn(17);
  expect_silence(sequence(4, [&](std::size_t i) {
    std::uint64_t letter = 0;
    for (std::uint32_t n = 0; n < bits_of_letter; ++n)
      letter = 2 * letter + (bits[(i * bits_of_letter + n) % bits.size()] ? 1U : 0U);
    return (1 + letter) << 20U;
  }));
}

// Several threads that each draw sizes of their own.
TEST_CASE("Threads that have no period have none together") {
  Script script(3);
  script.begin("");
  std::vector<std::deque<std::uint32_t>> blocks(12);
  while (script.events.size() < many) {
    const auto thread = static_cast<std::uint32_t>(script.random() % blocks.size());
    blocks[thread].push_back(script.allocate((1 + script.random() % 3) << 20U, thread));
    if (blocks[thread].size() < 4) continue;
    script.release(blocks[thread].front(), thread);
    blocks[thread].pop_front();
  }
  expect_silence(script);
}

}  // namespace terrace::liballoc
