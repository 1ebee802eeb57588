// Every byte comes back, on every device, and what is asked wrongly is refused.
#include <atomic>
#include <cerrno>
#include <thread>

#include "tests/liballoc/gpu/offload/engine_fixture.h"

using namespace terrace::liballoc::offload::test;

namespace {

constexpr std::uint64_t tried_sizes[] = {1,     2,     63,  4095,     4096,          4097,    65535,
                                         65536, 65537, mib, mib + 12, 3 * mib - 100, 8 * mib, 64 * mib};
constexpr const char* devices[] = {"cpu", "emulated:1G", "emulated:1G,h2d=20G,d2h=10G,latency=10us"};

}  // namespace

TEST_CASE("EverySizeComesBackAsItWas") {
  const char* device = GENERATE(from_range(std::begin(devices), std::end(devices)));
  CAPTURE(device);
  const Opened engine({.device = device});
  for (const std::uint64_t bytes : tried_sizes) {
    CAPTURE(bytes);
    CHECK(survives(engine, bytes, bytes));
  }
  CHECK(engine.statistics().live == 0);
  CHECK(engine.statistics().dram_content_bytes == 0);
}

TEST_CASE("ManyTensorsAtOnceKeepApart") {
  const char* device = GENERATE(from_range(std::begin(devices), std::end(devices)));
  const Opened engine({.device = device});
  std::vector<std::vector<std::byte>> sources;
  sources.reserve(100);
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < 100; ++i) sources.push_back(content(100 * kib + i * 4001, i));
  ids.reserve(sources.size());
  for (const auto& source : sources) ids.push_back(engine.store(source));
  for (const std::uint64_t id : ids) REQUIRE(engine.left(id) == 1);
  for (std::size_t i = ids.size(); i-- > 0;) {
    std::vector<std::byte> back(sources[i].size());
    REQUIRE(engine.fetch(ids[i], back) == 0);
    CHECK((back == sources[i]));
    engine.release(ids[i]);
  }
}

TEST_CASE("ATensorIsFetchedAsOftenAsAskedFor") {
  const Opened engine({.device = GENERATE("cpu", "emulated:1G")});
  const auto source = content(mib, 1);
  const std::uint64_t id = engine.store(source);
  REQUIRE(engine.left(id) == 1);
  for (int i = 0; i < 3; ++i) {
    std::vector<std::byte> back(source.size());
    REQUIRE(engine.fetch(id, back) == 0);
    CHECK((back == source));
  }
  CHECK(engine.statistics().fetched == 3);
  CHECK(engine.statistics().handed_back == 0);
}

TEST_CASE("WhatHasNotLeftIsHandedBackFromItsOwnMemory") {
  const Opened engine({.device = GENERATE("cpu", "emulated:1G,d2h=100M")});
  const auto source = content(8 * mib, 1);
  const std::uint64_t id = engine.store(source);
  std::vector<std::byte> back(source.size());
  REQUIRE(engine.fetch(id, back) == 0);
  CHECK((back == source));
  CHECK(engine.statistics().handed_back == 1);
  engine.release(id);
}

TEST_CASE("AFetchToElsewhereWaitsForTheFirst") {
  const Opened engine({.device = "emulated:1G,h2d=100M"});
  const auto source = content(mib, 1);
  std::vector<std::byte> one(source.size()), other(source.size());
  const std::uint64_t id = engine.store(source);
  REQUIRE(engine.left(id) == 1);
  REQUIRE(terrace_offload_fetch(engine.get(), id, one.data(), nullptr) == 0);
  CHECK(terrace_offload_fetch(engine.get(), id, one.data(), nullptr) == 0);
  CHECK(terrace_offload_fetch(engine.get(), id, other.data(), nullptr) == -EALREADY);
  REQUIRE(terrace_offload_arrive(engine.get(), id, nullptr) == 0);
  CHECK((one == source));
}

TEST_CASE("UnknownNumbersAreEnoent") {
  const Opened engine;
  std::byte to[8];
  CHECK(terrace_offload_left(engine.get(), 1) == -ENOENT);
  CHECK(terrace_offload_fetch(engine.get(), 0, to, nullptr) == -ENOENT);
  CHECK(terrace_offload_arrive(engine.get(), 7, nullptr) == -ENOENT);
  CHECK(terrace_offload_release(engine.get(), ~std::uint64_t{0}, nullptr) == -ENOENT);
}

TEST_CASE("WrongArgumentsAreEinval") {
  const Opened engine;
  const auto data = content(64, 1);
  std::uint64_t id = 77;
  const terrace_offload_tensor good{
      .size = sizeof(good), .data = data.data(), .bytes = 64, .element = TERRACE_ELEMENT_F32, .site = 0};
  const auto refused = [&](auto&& change) {
    terrace_offload_tensor tensor = good;
    change(tensor);
    return terrace_offload_store(engine.get(), &tensor, nullptr, &id) == -EINVAL;
  };
  CHECK(refused([](auto& tensor) { tensor.size = 8; }));
  CHECK(refused([](auto& tensor) { tensor.data = nullptr; }));
  CHECK(refused([](auto& tensor) { tensor.bytes = 0; }));
  CHECK(refused([](auto& tensor) { tensor.element = static_cast<terrace_element>(10); }));
  int stream = 0;
  CHECK(terrace_offload_store(engine.get(), &good, &stream, &id) == -EINVAL);
  CHECK(id == 77);
  const std::uint64_t stored = engine.store(data);
  CHECK(terrace_offload_fetch(engine.get(), stored, nullptr, nullptr) == -EINVAL);
  CHECK(terrace_offload_arrive(engine.get(), stored, nullptr) == -EINVAL);
}

TEST_CASE("AWrongConfigurationIsRefusedWithItsReason") {
  const auto reason_for = [](const Options& options, const char* word) {
    const terrace_offload_config config = config_of(options);
    char reason[512] = "";
    terrace_offload* engine = nullptr;
    CHECK(terrace_offload_open(&config, &engine, reason, sizeof(reason)) < 0);
    CHECK(engine == nullptr);
    INFO(reason);
    CHECK(std::string(reason).find(word) != std::string::npos);
  };
  reason_for({.device = nullptr}, "device");
  reason_for({.device = "tpu"}, "tpu");
  reason_for({.dram_bytes = mib}, "16 MiB");
  reason_for({.dram_bytes = std::uint64_t{1} << 60}, "host memory");
  reason_for({.compress = "lz4"}, "lz4");
  reason_for({.dram_bytes = 16 * mib, .read_ahead_bytes = 17 * mib}, "read_ahead_bytes");
}

TEST_CASE("FullHostMemoryIsEnospcAndTheOthersAreIntact") {
  const Opened engine({.dram_bytes = 16 * mib});
  std::vector<std::vector<std::byte>> sources;
  sources.reserve(16);
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < 16; ++i) sources.push_back(content(mib, i));
  ids.reserve(sources.size());
  for (const auto& source : sources) ids.push_back(engine.store(source));
  std::uint64_t id = 5;
  CHECK(engine.try_store(sources[0], &id) == -ENOSPC);
  CHECK(id == 5);
  engine.release(ids.back());
  CHECK(engine.try_store(sources.back(), &id) == 0);
  ids.back() = id;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::vector<std::byte> back(mib);
    CHECK(engine.left(ids[i]) == 1);
    CHECK(engine.fetch(ids[i], back) == 0);
    CHECK((back == sources[i]));
  }
  CHECK(engine.statistics().dram_peak_bytes <= 16 * mib);
}

namespace {

int store_left(const Opened& engine, const std::vector<std::byte>& source, std::uint64_t* id) {
  const terrace_offload_tensor tensor{.size = sizeof(terrace_offload_tensor),
                                      .data = source.data(),
                                      .bytes = source.size(),
                                      .element = TERRACE_ELEMENT_U8,
                                      .site = 0};
  return terrace_offload_store_left(engine.get(), &tensor, nullptr, id);
}

}  // namespace

TEST_CASE("OneCallStoresAndTellsWhetherItHasLeftAndOneBringsBack") {
  const char* device = GENERATE(from_range(std::begin(devices), std::end(devices)));
  CAPTURE(device);
  const Opened engine({.device = device});
  for (const std::uint64_t bytes : tried_sizes) {
    CAPTURE(bytes);
    const auto expected = content(bytes, bytes);
    auto source = expected;
    std::uint64_t id = 0;
    const int left = store_left(engine, source, &id);
    REQUIRE((left == 1 || (left == 0 && engine.left(id) == 1)));
    std::fill(source.begin(), source.end(), std::byte{0x5a});
    std::vector<std::byte> back(bytes, std::byte{0xa5});
    CHECK(terrace_offload_fetch_arrive(engine.get(), id, back.data(), nullptr) == 0);
    CHECK((back == expected));
    engine.release(id);
  }
  CHECK(engine.statistics().handed_back == 0);
  CHECK(engine.statistics().live == 0);
}

TEST_CASE("ASmallTensorHasLeftWhenItIsStored") {
  const auto source = content(64 * kib, 1);
  std::uint64_t id = 0;
  CHECK(store_left(Opened({.device = "cpu"}), source, &id) == 1);
  CHECK(store_left(Opened({.device = "emulated:1G"}), source, &id) == 1);
  CHECK(store_left(Opened({.device = "emulated:1G,d2h=1M"}), source, &id) == 0);
}

TEST_CASE("WhatOneCallCannotBringBackItRefusesAsTwoDo") {
  const Opened engine;
  std::vector<std::byte> back(kib);
  std::uint64_t id = 5;
  CHECK(terrace_offload_fetch_arrive(engine.get(), 77, back.data(), nullptr) == -ENOENT);
  CHECK(terrace_offload_store_left(engine.get(), nullptr, nullptr, &id) == -EINVAL);
  REQUIRE(store_left(engine, content(kib, 1), &id) == 1);
  CHECK(terrace_offload_fetch_arrive(engine.get(), id, nullptr, nullptr) == -EINVAL);
  engine.release(id);
}

// Whoever wakes late from the wait for one fetch meets the next.
TEST_CASE("AThreadThatArrivesLateDoesNotEndTheNextFetch") {
  const Opened engine({.device = "emulated:1G,h2d=2G"});
  const auto source = content(256 * kib, 1);
  std::vector<std::byte> first(source.size());
  std::atomic<int> unfilled = 0;
  for (int round = 0; round < 500; ++round) {
    const std::uint64_t id = engine.store(source);
    REQUIRE(engine.left(id) == 1);
    REQUIRE(terrace_offload_fetch(engine.get(), id, first.data(), nullptr) == 0);
    const auto arrive = [&] { return terrace_offload_arrive(engine.get(), id, nullptr); };
    const auto fetch_again = [&] {
      std::vector<std::byte> second(source.size());
      const bool arrived = arrive() == 0 && engine.fetch(id, second) == 0;
      if (!arrived || second != source) ++unfilled;
    };
    std::thread late[] = {std::thread(arrive), std::thread(arrive), std::thread(arrive)};
    std::thread again(fetch_again);
    for (std::thread& thread : late) thread.join();
    again.join();
    engine.release(id);
  }
  CHECK(unfilled == 0);
}
