// Decoding by the kernels: what the CPU wrote, and arbitrary bytes, which get the CPU's verdicts.
#include <algorithm>
#include <catch2/catch.hpp>

#include "against_cpu.h"
#include "cases.h"
#include "compression/base/bytes.h"

using namespace terrace::compression;
using namespace terrace::compression::cuda::test;

namespace {

// Makes a damaged frame's checksums right again, so that the damage reaches the checks behind them. `block`:
// also that of the first block.
void repair(Bytes& frame, bool block) {
  const auto checksum = kernels().checksum;
  const auto payload = load<std::uint64_t>(frame.data() + 24);
  if (frame.size() < header_bytes || payload < header_bytes || payload > frame.size()) return;
  const Entry entry = frame.size() >= 80 ? read_entry(frame, 0) : Entry{};
  if (block && entry.kind != BlockKind::zero && payload + entry.offset() + entry.extent() <= frame.size())
    store(frame.data() + 64, checksum(frame.data() + payload + entry.offset(), entry.extent()));
  store(frame.data() + 32, checksum(frame.data() + 64, payload - 64));
  store(frame.data() + 56, checksum(frame.data(), 56));
}

// A frame that says to be of a codec that the kernels have not.
Bytes as_lz4(Bytes frame) {
  frame[5] = static_cast<std::byte>(Codec::lz4);
  repair(frame, false);
  return frame;
}

// A frame of one small block of any kind.
Bytes small_frame(std::mt19937_64& random, std::size_t& content_bytes) {
  const ElementType element = static_cast<ElementType>(random() % element_type_count);
  const std::size_t width = width_of(element), elements = 1 + random() % 2500;
  const double densities[] = {0.0, 0.01, 0.1, 0.5, 1.0};
  const Bytes content = random() % 2 == 0 ? activations(elements * width, width, random())
                                          : sparse(elements * width, width, densities[random() % 5], random(),
                                                   1 + random() % 100);
  content_bytes = content.size();
  return frame_of(content, gpu_codecs[random() % std::size(gpu_codecs)], element, 4 + random() % 4);
}

void damage(Bytes& frame, std::mt19937_64& random) {
  const auto payload = std::min<std::size_t>(load<std::uint64_t>(frame.data() + 24), frame.size());
  const std::size_t places[] = {frame.size(), header_bytes, std::min<std::size_t>(frame.size(), 80),
                                std::min(frame.size(), payload + 40)};
  for (std::size_t i = 1 + random() % 3; i > 0; --i) {
    const std::size_t at = random() % places[random() % 4];
    frame[at] = random() % 2 == 0 ? frame[at] ^ static_cast<std::byte>(1U << random() % 8)
                                  : static_cast<std::byte>(random());
  }
  if (random() % 16 == 0) frame.resize(random() % frame.size());
}

}  // namespace

TEST_CASE("WhatTheCpuWroteIsRead") {
  for (const Codec codec : gpu_codecs)
    for (const ElementType element : element_of_width) {
      const std::size_t width = width_of(element), n = 2 * block_bytes + 1000 * width;
      const Bytes contents[] = {zeros(n),
                                noise(n, 1),
                                repeated(n, width, 2),
                                activations(n, width, 3),
                                sparse(n, width, 0.3, 4),
                                sparse(n, width, 0.05, 5, 256),
                                one_element_at(n, width, 0),
                                activations(7 * width, width, 8),
                                {}};
      std::vector<Bytes> bytes;
      for (const Bytes& content : contents) bytes.push_back(frame_of(content, codec, element, 7));
      std::vector<Frame> frames;
      for (std::size_t i = 0; i < std::size(contents); ++i)
        frames.push_back({bytes[i], contents[i].size(), width});
      REQUIRE(require_cpus_verdicts(frames) == 0);
    }
}

TEST_CASE("AnyArrangementOfThreadsReads") {
  const Bytes content = activations(3 * block_bytes + 4, 4, 1);
  std::vector<Bytes> bytes;
  for (const Codec codec : gpu_codecs) bytes.push_back(frame_of(content, codec, ElementType::f32));
  std::vector<Frame> frames;
  frames.reserve(bytes.size());
  for (const Bytes& frame : bytes) frames.push_back({frame, content.size()});
  for (const unsigned threads : {128U, 256U, 512U})
    for (const std::uint64_t seed : {0, 1, 2})
      REQUIRE(require_cpus_verdicts(frames, {.threads = threads, .resident_ctas = 4, .seed = seed}) == 0);
}

TEST_CASE("ATableOfManyBlocksIsChecked") {
  const Bytes content = zeros(700 * block_bytes);
  Bytes frame = frame_of(content, Codec::zvc, ElementType::f32), wrong = frame;
  constexpr std::size_t entry = 650;
  store(wrong.data() + header_bytes + entry * entry_bytes + 8, std::uint32_t{1});
  repair(wrong, false);
  const Frame frames[] = {{frame, content.size()}, {wrong, content.size()}};
  REQUIRE(require_cpus_verdicts(frames) == 1);
}

TEST_CASE("FramesOfOtherCodecsAndSizesAreRefusedAsByTheCpu") {
  const Bytes content = activations(5000, 4, 1), none;
  const Bytes zvc = frame_of(content, Codec::zvc, ElementType::f32);
  const Bytes lz4 = as_lz4(zvc), empty = as_lz4(frame_of(none, Codec::zvc, ElementType::f32));
  const Frame frames[] = {{lz4, content.size()},
                          {zvc, content.size() - 4},
                          {zvc, content.size()},
                          {zvc, 0},
                          {{}, content.size()},
                          {std::span(zvc).first(63), 5000},
                          {std::span(zvc).first(90), 5000},
                          {std::span(zvc).first(zvc.size() - 1), 5000},
                          {empty, 0}};
  REQUIRE(require_cpus_verdicts(frames) == std::size(frames) - 2);
}

TEST_CASE("EveryFlippedBitIsDetected") {
  const Bytes content = activations(600, 4, 1);
  for (const Codec codec : {Codec::zvc_exp, Codec::rle, Codec::csr8}) {
    const Bytes frame = frame_of(content, codec, ElementType::f32, 5);
    std::vector<Bytes> flipped(frame.size() * 8, frame);
    std::vector<Frame> frames;
    for (std::size_t i = 0; i < flipped.size(); ++i) {
      flipped[i][i / 8] ^= static_cast<std::byte>(1U << i % 8);
      frames.push_back({flipped[i], content.size()});
    }
    REQUIRE(require_cpus_verdicts(frames) == frames.size());
  }
}

TEST_CASE("MutatedFramesGetTheCpusVerdicts") {
  const int rounds = is_fast() ? 2000 : 30;
  constexpr int batch = 500;
  std::mt19937_64 random(2024);
  std::size_t refused = 0, sound = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Bytes> bytes;
    std::vector<std::size_t> sizes;
    for (int i = 0; i < batch; ++i) {
      std::size_t content_bytes = 0;
      bytes.push_back(small_frame(random, content_bytes));
      sizes.push_back(content_bytes);
      damage(bytes.back(), random);
      if (random() % 8 != 0 && bytes.back().size() >= header_bytes) repair(bytes.back(), random() % 4 != 0);
    }
    std::vector<Frame> frames;
    frames.reserve(batch);
    for (int i = 0; i < batch; ++i)
      frames.push_back({bytes[static_cast<std::size_t>(i)], sizes[static_cast<std::size_t>(i)]});
    const std::size_t wrong = require_cpus_verdicts(frames, {.seed = random()});
    refused += wrong;
    sound += batch - wrong;
  }
  REQUIRE(refused > static_cast<std::size_t>(rounds) * 100);  // neither all damage is harmless
  REQUIRE(sound > static_cast<std::size_t>(rounds) * 20);     // nor is none
}
