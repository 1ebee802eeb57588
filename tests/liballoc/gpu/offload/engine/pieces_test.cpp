// What host memory cannot hold goes to the drive in pieces, and comes back whole or not at all.
#include <algorithm>
#include <cerrno>

#include "tests/liballoc/gpu/offload/engine_fixture.h"

using namespace terrace::liballoc::offload::test;

namespace {

constexpr const char* devices_in_turn[] = {"cpu", "emulated:1G", "emulated:1G,h2d=4G,d2h=4G"};

Options over_the_drive(const char* device, const char* fault = nullptr) {
  return {.device = device, .dram_bytes = 16 * mib, .nvme_bytes = 256 * mib, .fault = fault};
}

// Fills host memory with tensors of a MiB that are all on their way back, so that none can be written or
// dropped for another.
std::vector<std::uint64_t> occupy(const Opened& engine, const std::vector<std::byte>& source,
                                  std::vector<std::vector<std::byte>>* to) {
  std::vector<std::uint64_t> ids;
  to->assign(16, std::vector<std::byte>(source.size()));
  for (auto& buffer : *to) {
    const std::uint64_t id = engine.store(source);
    REQUIRE(engine.left(id) == 1);
    REQUIRE(engine.fetch(id, buffer) == 0);
    ids.push_back(id);
  }
  return ids;
}

// Stores tensors of so many bytes until there is no room for one.
void fill(const Opened& engine, std::uint64_t bytes, std::vector<std::uint64_t>* ids) {
  for (;;) {
    const auto source = content(bytes, ids->size());
    std::uint64_t id = 0;
    if (engine.try_store(source, &id) != 0) return;
    const bool has_left = engine.left(id) == 1;
    if (has_left) ids->push_back(id);
    if (!has_left) return engine.release(id);
  }
}

}  // namespace

TEST_CASE("TensorsLargerThanHostMemoryComeBackFromTheDrive") {
  const char* device = GENERATE(from_range(std::begin(devices_in_turn), std::end(devices_in_turn)));
  CAPTURE(device);
  const Opened engine(over_the_drive(device));
  for (const std::uint64_t bytes : {40 * mib, 17 * mib + 5, 64 * mib - 4096}) {
    CAPTURE(bytes);
    CHECK(survives(engine, bytes, bytes));
  }
  const auto now = engine.statistics();
  CHECK(now.in_pieces == 3);
  CHECK(now.nvme_written_bytes >= 121 * mib);
  CHECK(now.nvme_bytes == 0);
  CHECK(now.dram_peak_bytes <= 16 * mib);
}

TEST_CASE("LargeAndSmallTensorsShareHostMemoryAndDrive") {
  const char* device = GENERATE(from_range(std::begin(devices_in_turn), std::end(devices_in_turn)));
  CAPTURE(device);
  const Opened engine(over_the_drive(device));
  for (int step = 0; step < 3; ++step) {
    std::vector<std::vector<std::byte>> sources;
    std::vector<std::uint64_t> ids;
    for (std::uint64_t i = 0; i < 24; ++i) {
      sources.push_back(content(i % 5 == 4 ? 12 * mib + i : mib + i, i));
      auto copy = sources.back();
      ids.push_back(engine.store(copy));
      REQUIRE(engine.left(ids.back()) == 1);
    }
    for (std::size_t i = ids.size(); i-- > 0;) {
      std::vector<std::byte> back(sources[i].size());
      REQUIRE(engine.fetch(ids[i], back) == 0);
      CHECK((back == sources[i]));
      if (i % 2 == 0) engine.release(ids[i]);
    }
    REQUIRE(terrace_offload_end_step(engine.get()) == 0);
  }
  CHECK(engine.statistics().in_pieces > 0);
  CHECK(engine.statistics().dram_peak_bytes <= 16 * mib);
}

TEST_CASE("WithADriveAStoreIsNotRefusedBecauseHostMemoryIsInUse") {
  const char* device = GENERATE(from_range(std::begin(devices_in_turn), std::end(devices_in_turn)));
  const Opened engine(over_the_drive(device));
  const auto source = content(mib, 7);
  std::vector<std::vector<std::byte>> buffers;
  {
    const auto large = content(40 * mib, 1);  // from here on there is a staging extent
    REQUIRE(engine.left(engine.store(large)) == 1);
  }
  occupy(engine, source, &buffers);
  CHECK(engine.statistics().in_pieces > 1);
  CHECK(survives(engine, 3 * mib + 1, 9));
  for (const auto& buffer : buffers) CHECK((buffer == source));
}

// Between the drive and a tensor of 7 MiB is a window of 1 MiB, and not another 7 MiB: two more have room.
TEST_CASE("TheWayBackTakesAWindowOfHostMemoryAndNotATensors") {
  const char* device = GENERATE(from_range(std::begin(devices_in_turn), std::end(devices_in_turn)));
  CAPTURE(device);
  const Opened engine(over_the_drive(device));
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto source = content(7 * mib, i);
    ids.push_back(engine.store(source));
    REQUIRE(engine.left(ids.back()) == 1);
  }
  CHECK(engine.statistics().dram_content_bytes == 14 * mib);
  CHECK(engine.statistics().in_pieces == 0);
  for (std::uint64_t i = ids.size(); i-- > 0;) {
    std::vector<std::byte> back(7 * mib);
    CHECK(engine.fetch(ids[i], back) == 0);
    CHECK((back == content(7 * mib, i)));
  }
  CHECK(engine.statistics().dram_peak_bytes <= 16 * mib);
}

// The drive takes a few tensors and then no more: what is in host memory stays there.
TEST_CASE("WhatIsOnTheDriveAloneComesBackThroughAFullHostMemory") {
  const bool has_flipped_bit = GENERATE(false, true);
  Options options =
      over_the_drive(GENERATE(from_range(std::begin(devices_in_turn), std::end(devices_in_turn))),
                     has_flipped_bit ? "corrupt:2,write:12:ENOSPC" : "write:12:ENOSPC");
  options.compress = GENERATE("off", "zvc");
  options.checksums = GENERATE("drive", "all");
  CAPTURE(options.device, options.compress, options.checksums, has_flipped_bit);
  const Opened engine(options);
  std::vector<std::uint64_t> ids, more;
  fill(engine, 3 * mib, &ids);
  fill(engine, 100 * kib, &more);
  const auto before = engine.statistics();
  REQUIRE(before.nvme_written_bytes > 0);
  int damaged = 0;
  for (std::uint64_t i = 0; i < ids.size(); ++i) {
    std::vector<std::byte> back(3 * mib);
    const int error = engine.fetch(ids[i], back);
    if (error == -EBADMSG) ++damaged;
    if (error != -EBADMSG) CHECK(error == 0);
    CHECK((back == content(3 * mib, i)) == (error == 0));
  }
  CHECK(damaged == (has_flipped_bit ? 1 : 0));
  const auto after = engine.statistics();
  CHECK(after.checksum_failures == (has_flipped_bit ? 1 : 0));
  CHECK(after.nvme_read_bytes - before.nvme_read_bytes == before.nvme_written_bytes);
  CHECK(after.dram_content_bytes == before.dram_content_bytes);
  CHECK(after.dram_peak_bytes <= 16 * mib);
}

TEST_CASE("APieceThatTheDriveRefusesLeavesTheTensorWhereItWas") {
  const char* fault = GENERATE("write:7:EIO", "write:1:ENOSPC", "reserve:1:ENOSPC");
  CAPTURE(fault);
  const Opened engine(over_the_drive(GENERATE("cpu", "emulated:1G"), fault));
  const auto source = content(40 * mib, 1);
  std::uint64_t id = 0;
  const int refused = engine.try_store(source, &id);
  const int left = refused == 0 ? engine.left(id) : refused;
  CHECK((left == -EIO || left == -ENOSPC));
  if (refused == 0) engine.release(id);
  CHECK(engine.statistics().nvme_bytes == 0);
  CHECK(survives(engine, mib, 2));
}

TEST_CASE("WhatOnePieceHasWrongIsNotTheTensor") {
  const Opened engine(over_the_drive(GENERATE("cpu", "emulated:1G"), GENERATE("corrupt:30", "read:30:EIO")));
  auto source = content(40 * mib, 1);
  const std::uint64_t id = engine.store(source);
  REQUIRE(engine.left(id) == 1);
  std::vector<std::byte> back(source.size());
  const int error = engine.fetch(id, back);
  CHECK((error == -EBADMSG || error == -EIO));
  CHECK(std::count(back.begin(), back.begin() + 20 * mib, std::byte{0xff}) == 20 * mib);
}

TEST_CASE("ATensorInPiecesMayBeForgottenAtAnyTime") {
  const Opened engine(over_the_drive(GENERATE("cpu", "emulated:1G"), "slow:1ms"));
  const auto source = content(20 * mib, 1);
  std::vector<std::byte> back(source.size());
  for (int round = 0; round < 12; ++round) {
    const std::uint64_t id = engine.store(source);
    if (round % 3 == 1) pause_ms(round);
    if (round % 3 == 2) REQUIRE(engine.left(id) == 1);
    if (round % 2 == 1) REQUIRE(terrace_offload_fetch(engine.get(), id, back.data(), nullptr) == 0);
    if (round % 4 == 3) pause_ms(3);
    if (round % 5 == 4)
      REQUIRE(terrace_offload_end_step(engine.get()) == 0);
    else
      engine.release(id);
    std::fill(back.begin(), back.end(), std::byte{2});
    CHECK(std::count(back.begin(), back.end(), std::byte{2}) == static_cast<std::ptrdiff_t>(back.size()));
  }
  REQUIRE(terrace_offload_end_step(engine.get()) == 0);
  CHECK(engine.statistics().live == 0);
  CHECK(engine.statistics().nvme_bytes == 0);
}
