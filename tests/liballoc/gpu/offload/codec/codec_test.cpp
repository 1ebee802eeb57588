// Every codec gives back the bytes, in less memory.
#include <cerrno>

#include "tests/liballoc/gpu/offload/engine_fixture.h"

using namespace terrace::liballoc::offload::test;

TEST_CASE("EveryCodecGivesBackEverySize") {
  const char* codec = GENERATE("auto", "zvc", "zvc_exp", "rle", "csr8");
  const char* device = GENERATE("cpu", "emulated:1G,h2d=20G,d2h=10G");
  CAPTURE(codec, device);
  const Opened engine({.device = device, .compress = codec});
  for (const std::uint64_t bytes : {std::uint64_t{1}, 4 * std::uint64_t{1}, std::uint64_t{4095}, 64 * kib,
                                    64 * kib + 4, mib, 3 * mib + 100, 16 * mib}) {
    CAPTURE(bytes);
    CHECK(survives(engine, bytes, bytes));
  }
}

TEST_CASE("ZerosTakeLessMemory") {
  const Opened engine({.device = GENERATE("cpu", "emulated:1G"), .compress = "zvc"});
  const auto source = content(8 * mib, 1);
  const std::uint64_t id = engine.store(source);
  REQUIRE(engine.left(id) == 1);
  const auto now = engine.statistics();
  CHECK(now.dram_content_bytes < 6 * mib);
  CHECK(now.compressed_bytes == 8 * mib);
  CHECK(now.frame_bytes == now.dram_content_bytes);
}

TEST_CASE("WhatDoesNotShrinkIsStoredAsItIs") {
  const Opened engine({.compress = "zvc"});
  std::vector<std::byte> source(mib);
  std::uint64_t state = 1;
  for (auto& byte : source)
    byte = static_cast<std::byte>((state = state * 6364136223846793005 + 1442695040888963407) >> 56);
  const std::uint64_t id = engine.store(source);
  REQUIRE(engine.left(id) == 1);
  CHECK(engine.statistics().dram_content_bytes == mib);
  std::vector<std::byte> back(mib);
  REQUIRE(engine.fetch(id, back) == 0);
  CHECK((back == source));
}

// Only copies that were timed both ways are held against a codec; a codec is tried then unless it is
// hopeless. Copies of what no cache holds are never so fast that one is.
TEST_CASE("AutoTriesACodecInMemoryOnceCopiesWereTimedOutAndBack") {
  constexpr int copies_to_time = 3, many = 200;
  const Opened engine({.compress = "auto"});
  const auto source = content(64 * mib, 1);
  std::vector<std::byte> back(source.size());
  int stored = 0;
  for (; stored < many && engine.statistics().compressed_bytes == 0; ++stored) {
    const std::uint64_t id = engine.store(source, 1);
    REQUIRE(engine.left(id) == 1);
    REQUIRE(engine.fetch(id, back) == 0);
    CHECK((back == source));
    engine.release(id);
  }
  CHECK(stored > copies_to_time);
  CHECK(stored < many);
}

TEST_CASE("FramesGoToTheDriveAndBack") {
  const Opened engine(
      {.dram_bytes = 16 * mib, .nvme_bytes = 256 * mib, .compress = GENERATE("auto", "zvc_exp")});
  std::vector<std::vector<std::byte>> sources;
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < 60; ++i) sources.push_back(content(mib, i));
  for (const auto& source : sources) {
    ids.push_back(engine.store(source, 1 + ids.size() % 5));
    REQUIRE(engine.left(ids.back()) == 1);
  }
  for (std::size_t i = ids.size(); i-- > 0;) {
    std::vector<std::byte> back(mib);
    REQUIRE(engine.fetch(ids[i], back) == 0);
    CHECK((back == sources[i]));
    engine.release(ids[i]);
  }
}
