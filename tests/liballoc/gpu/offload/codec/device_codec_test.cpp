// Frames that the device makes: out through the staging and back, on the emulated device.
#include <algorithm>
#include <cerrno>
#include <string>

#include "tests/liballoc/gpu/offload/engine_fixture.h"

using namespace terrace::liballoc::offload::test;

namespace {

std::vector<std::byte> noise(std::uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  std::uint64_t state = 1;
  for (auto& byte : out)
    byte = static_cast<std::byte>((state = state * 6364136223846793005 + 1442695040888963407) >> 56);
  return out;
}

}  // namespace

TEST_CASE("ManyFramesAtOnceShareAStagingThatHoldsTwo") {
  const Opened engine({.device = "emulated:1G,h2d=20G,d2h=10G",
                       .compress = GENERATE("auto", "zvc"),
                       .staging_bytes = 4 * mib});
  std::vector<std::vector<std::byte>> sources;
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < 40; ++i) sources.push_back(content(mib + i * 4096, i));
  for (const auto& source : sources) ids.push_back(engine.store(source));
  for (const std::uint64_t id : ids) REQUIRE(engine.left(id) == 1);
  CHECK(engine.statistics().compressed_bytes >= 40 * mib / 20);
  CHECK(engine.statistics().not_staged == 0);
  std::vector<std::vector<std::byte>> back;
  for (const auto& source : sources) back.emplace_back(source.size());
  for (std::size_t i = ids.size(); i-- > 0;)
    REQUIRE(terrace_offload_fetch(engine.get(), ids[i], back[i].data(), nullptr) == 0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    REQUIRE(terrace_offload_arrive(engine.get(), ids[i], nullptr) == 0);
    CHECK((back[i] == sources[i]));
  }
}

TEST_CASE("ATensorThatTheStagingCannotHoldGoesAsItIs") {
  const Opened engine({.device = "emulated:1G", .compress = "zvc", .staging_bytes = 2 * mib});
  CHECK(survives(engine, 4 * mib, 1));
  CHECK(engine.statistics().not_staged == 1);
  CHECK(engine.statistics().compressed_bytes == 0);
  CHECK(survives(engine, mib, 2));
  CHECK(engine.statistics().not_staged == 1);
  CHECK(engine.statistics().compressed_bytes == mib);
}

TEST_CASE("ADeviceWithoutMemoryForTheStagingStoresAsItIs") {
  const Opened engine({.device = "emulated:8M", .compress = "zvc", .staging_bytes = 64 * mib});
  CHECK(survives(engine, mib, 1));
  CHECK(survives(engine, mib, 2));
  CHECK(engine.statistics().not_staged == 2);
  CHECK(engine.statistics().compressed_bytes == 0);
}

TEST_CASE("WhatTheDeviceCannotShrinkIsStoredAsItIs") {
  const Opened engine({.device = "emulated:1G", .compress = GENERATE("auto", "zvc_exp")});
  const auto source = noise(mib);
  const std::uint64_t id = engine.store(source);
  REQUIRE(engine.left(id) == 1);
  CHECK(engine.statistics().dram_content_bytes == mib);
  CHECK(engine.statistics().compressed_bytes == 0);
  CHECK(engine.statistics().compress_ns > 0);  // it was tried
  std::vector<std::byte> back(mib);
  REQUIRE(engine.fetch(id, back) == 0);
  CHECK((back == source));
}

TEST_CASE("AutoCompressesWhatItSeesForTheFirstTime") {
  const Opened engine({.device = "emulated:1G", .compress = "auto"});
  const auto source = content(8 * mib, 1);
  const std::uint64_t id = engine.store(source, 3);
  REQUIRE(engine.left(id) == 1);
  CHECK(engine.statistics().compressed_bytes == 8 * mib);
}

TEST_CASE("AFrameLeavesItsSourceUntouchedUntilToldOtherwise") {
  const Opened engine({.device = "emulated:1G,d2h=50M", .compress = "zvc"});
  const auto source = content(4 * mib, 1);
  const std::uint64_t id = engine.store(source);
  CHECK(terrace_offload_left(engine.get(), id) == 0);  // the copy of its frame takes 30 ms
  std::vector<std::byte> back(source.size());
  REQUIRE(engine.fetch(id, back) == 0);
  CHECK((back == source));
  CHECK(engine.statistics().handed_back == 1);
  engine.release(id);
}

TEST_CASE("ReleasedWhileItsFrameIsMadeItIsForgotten") {
  const Opened engine({.device = "emulated:1G,d2h=200M", .compress = "zvc", .staging_bytes = 4 * mib});
  for (std::uint64_t i = 0; i < 30; ++i) {
    auto source = content(mib, i);
    std::vector<std::uint64_t> ids;
    for (int k = 0; k < 3; ++k) ids.push_back(engine.store(source));
    for (const std::uint64_t id : ids) engine.release(id);
    std::fill(source.begin(), source.end(), std::byte{1});
  }
  CHECK(engine.statistics().live == 0);
  CHECK(survives(engine, mib, 99));
}

TEST_CASE("AFrameDamagedOnTheDriveIsNotDecoded") {
  const Opened engine({.device = "emulated:1G",
                       .dram_bytes = 16 * mib,
                       .nvme_bytes = 256 * mib,
                       .compress = "zvc",
                       .fault = "corrupt:1"});
  std::vector<std::uint64_t> ids;
  std::vector<std::vector<std::byte>> sources;
  for (std::uint64_t i = 0; i < 60; ++i) sources.push_back(content(mib, i));
  for (const auto& source : sources) {
    ids.push_back(engine.store(source));
    REQUIRE(engine.left(ids.back()) == 1);
  }
  std::size_t damaged = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::vector<std::byte> back(mib);
    const int error = engine.fetch(ids[i], back);
    if (error == -EBADMSG)
      ++damaged;
    else
      CHECK((error == 0 && back == sources[i]));
  }
  CHECK(damaged > 0);
  CHECK(engine.statistics().checksum_failures == damaged);
}

TEST_CASE("ATargetThatKernelsCannotWriteIsRefused") {
  const Opened engine({.device = "emulated:1G", .compress = "zvc"});
  const auto source = content(mib, 1);
  const std::uint64_t id = engine.store(source);
  REQUIRE(engine.left(id) == 1);
  std::vector<std::byte> back(mib + 4);
  REQUIRE(terrace_offload_fetch(engine.get(), id, back.data() + 1, nullptr) == 0);
  CHECK(terrace_offload_arrive(engine.get(), id, nullptr) == -EINVAL);
}

TEST_CASE("CodecsWithoutKernelsAreRefusedWithAWayOut") {
  const std::string codec = GENERATE("lz4", "zstd");
  const terrace_offload_config config =
      config_of({.device = GENERATE("emulated:1G", "cuda"), .compress = codec.c_str()});
  terrace_offload* engine = nullptr;
  char reason[512] = "";
  CHECK(terrace_offload_open(&config, &engine, reason, sizeof(reason)) == -EINVAL);
  CHECK_THAT(reason, Catch::Contains(codec) && Catch::Contains("zvc_exp"));
}
