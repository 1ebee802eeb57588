// More tensors than host memory: what goes to the drive comes back, in any order, whatever the drive does.
#include <algorithm>
#include <cerrno>

#include "tests/liballoc/gpu/offload/engine_fixture.h"
#include "tests/liballoc/support.h"

using namespace terrace::liballoc::offload::test;
using terrace::liballoc::test::Random;

namespace {

struct Stored {
  std::vector<std::vector<std::byte>> sources;
  std::vector<std::uint64_t> ids;
};

// Stores `count` tensors, waits for each, and overwrites it. False when one was refused.
bool store_all(const Opened& engine, std::uint64_t count, std::uint64_t bytes, Stored* out) {
  for (std::uint64_t i = 0; i < count; ++i) {
    out->sources.push_back(content(bytes, i));
    auto copy = out->sources.back();
    std::uint64_t id = 0;
    if (engine.try_store(copy, &id) != 0) return false;
    const int left = engine.left(id);
    if (left != 1) engine.release(id);
    if (left != 1) return false;
    out->ids.push_back(id);
  }
  return true;
}

void check_all_in(const std::vector<std::size_t>& order, const Opened& engine, const Stored& stored) {
  for (const std::size_t i : order) {
    std::vector<std::byte> back(stored.sources[i].size());
    REQUIRE(engine.fetch(stored.ids[i], back) == 0);
    CHECK((back == stored.sources[i]));
    engine.release(stored.ids[i]);
  }
}

std::vector<std::size_t> reversed(std::size_t count) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = count - 1 - i;
  return order;
}

std::vector<std::size_t> shuffled(std::size_t count) {
  auto order = reversed(count);
  Random random(count);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

constexpr Options small{.dram_bytes = 16 * mib, .nvme_bytes = 256 * mib};

Options on(const char* device, Options options = small) {
  options.device = device;
  return options;
}

}  // namespace

TEST_CASE("FourTimesTheHostsMemoryComesBackFromTheDrive") {
  const Opened engine(on(GENERATE("cpu", "emulated:1G")));
  const bool backwards = GENERATE(true, false);
  Stored stored;
  REQUIRE(store_all(engine, 64, mib, &stored));
  CHECK(engine.statistics().nvme_written_bytes >= 47 * mib);
  check_all_in(backwards ? reversed(64) : shuffled(64), engine, stored);
  // What was released while the drive still wrote it goes when that has ended; reads go first.
  for (int i = 0; i < 5000 && engine.statistics().nvme_bytes != 0; ++i) pause_ms(1);
  const auto after = engine.statistics();
  CHECK(after.dram_peak_bytes <= 16 * mib);
  CHECK(after.nvme_read_bytes >= 40 * mib);
  CHECK(after.nvme_bytes == 0);
  CHECK(after.io_errors == 0);
}

TEST_CASE("TensorsOfManySizesShareMemoryAndDrive") {
  const Opened engine(on(GENERATE("cpu", "emulated:1G")));
  Stored stored;
  Random random(3);
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::uint64_t bytes = 1 + random.below(3 * mib);
    stored.sources.push_back(content(bytes, i));
    const std::uint64_t id = engine.store(stored.sources.back());
    REQUIRE(engine.left(id) == 1);
    stored.ids.push_back(id);
  }
  check_all_in(shuffled(40), engine, stored);
}

TEST_CASE("StepsOverTheDriveReadAheadInTheLearnedOrder") {
  const Opened engine(
      on("cpu", {.dram_bytes = 16 * mib, .nvme_bytes = 256 * mib, .read_ahead_bytes = 4 * mib}));
  for (int step = 0; step < 3; ++step) {
    Stored stored;
    REQUIRE(store_all(engine, 40, mib, &stored));
    check_all_in(reversed(40), engine, stored);
    REQUIRE(terrace_offload_end_step(engine.get()) == 0);
  }
  CHECK(engine.statistics().read_ahead_hits > 20);
}

TEST_CASE("StepsOverTheDriveDoNotGrow") {
  const Opened engine(small);
  for (int step = 0; step < 20; ++step) {
    Stored stored;
    REQUIRE(store_all(engine, 30, mib, &stored));
    std::vector<std::byte> back(mib);
    for (std::size_t i = 0; i < 30; i += 4) CHECK(engine.fetch(stored.ids[i], back) == 0);
    REQUIRE(terrace_offload_end_step(engine.get()) == 0);
    CHECK(engine.statistics().nvme_bytes == 0);
  }
  CHECK(engine.statistics().nvme_peak_bytes <= 31 * mib);
  CHECK(engine.statistics().dram_peak_bytes <= 16 * mib);
}

TEST_CASE("AFullPoolLeavesTheRestInHostMemory") {
  const Opened engine({.dram_bytes = 16 * mib, .nvme_bytes = 8 * mib});
  Stored stored;
  CHECK_FALSE(store_all(engine, 64, mib, &stored));
  CHECK(stored.ids.size() >= 16);
  CHECK(stored.ids.size() <= 24);
  check_all_in(reversed(stored.ids.size()), engine, stored);
}

TEST_CASE("ADriveThatRefusesToWriteLeavesTensorsInHostMemory") {
  const char* fault = GENERATE("write:1:EIO", "write:6:ENOSPC", "reserve:3:ENOSPC");
  CAPTURE(fault);
  Options options = small;
  options.fault = fault;
  const Opened engine(options);
  Stored stored;
  CHECK_FALSE(store_all(engine, 64, mib, &stored));
  CHECK(stored.ids.size() >= 15);
  std::uint64_t id = 0;
  const auto more = content(mib, 99);
  const int refused = engine.try_store(more, &id);
  CHECK((refused == -EIO || refused == -ENOSPC));
  check_all_in(reversed(stored.ids.size()), engine, stored);
}

TEST_CASE("ADriveThatWasFullIsTriedAgainInTheNextStep") {
  const auto end = GENERATE(&terrace_offload_end_step, &terrace_offload_next_step);
  Options options = small;
  options.fault = "write:1:ENOSPC";
  const Opened engine(options);
  std::uint64_t tried = 0;
  for (int step = 0; step < 3; ++step) {
    Stored stored;
    CHECK_FALSE(store_all(engine, 64, mib, &stored));
    CHECK(engine.statistics().io_errors > tried);
    tried = engine.statistics().io_errors;
    check_all_in(reversed(stored.ids.size()), engine, stored);
    REQUIRE(end(engine.get()) == 0);
  }
}

TEST_CASE("ADriveThatDoesNotReadIsEioAndNothingElseIsLost") {
  Options options = small;
  options.fault = "read:1:EIO";
  const Opened engine(options);
  Stored stored;
  REQUIRE(store_all(engine, 40, mib, &stored));
  std::vector<std::byte> back(mib);
  int lost = 0;
  int intact = 0;
  for (std::size_t i = 40; i-- > 0;) {
    const int error = engine.fetch(stored.ids[i], back);
    if (error == -EIO) ++lost;
    if (error == 0 && back == stored.sources[i]) ++intact;
    if (error != 0) CHECK(engine.fetch(stored.ids[i], back) == error);
    engine.release(stored.ids[i]);
  }
  CHECK(lost + intact == 40);
  CHECK(lost >= 20);
  CHECK(intact >= 10);
  CHECK(engine.statistics().io_errors >= 20);
}

TEST_CASE("AFlippedBitIsEbadmsgAndNeverData") {
  Options options = small;
  options.fault = "corrupt:2";
  options.device = GENERATE("cpu", "emulated:1G");
  options.compress = GENERATE("off", "zvc");
  const Opened engine(options);
  Stored stored;
  REQUIRE(store_all(engine, 40, 2 * mib - 8, &stored));
  int damaged = 0;
  for (std::size_t i = 40; i-- > 0;) {
    std::vector<std::byte> back(2 * mib - 8);
    const int error = engine.fetch(stored.ids[i], back);
    if (error == 0) CHECK((back == stored.sources[i]));
    if (error == -EBADMSG) ++damaged;
    engine.release(stored.ids[i]);
  }
  CHECK(damaged == 1);
  CHECK(engine.statistics().checksum_failures == 1);
}

TEST_CASE("ASlowDriveIsWaitedFor") {
  Options options = small;
  options.fault = "slow:2ms";
  const Opened engine(options);
  Stored stored;
  REQUIRE(store_all(engine, 24, mib, &stored));
  check_all_in(shuffled(24), engine, stored);
}

TEST_CASE("TensorsThatWaitForRoomAreHandedBackOrReleased") {
  Options options = small;
  options.fault = "slow:5ms";
  options.device = GENERATE("cpu", "emulated:1G");
  const Opened engine(options);
  std::vector<std::vector<std::byte>> sources;
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < 40; ++i) sources.push_back(content(mib, i));
  for (const auto& source : sources) {
    std::uint64_t id = 0;
    if (engine.try_store(source, &id) == 0) ids.push_back(id);
  }
  for (std::size_t i = ids.size(); i-- > 0;) {
    std::vector<std::byte> back(mib);
    if (i % 3 == 0 && terrace_offload_left(engine.get(), ids[i]) >= 0) {
      const int error = engine.fetch(ids[i], back);
      CHECK((error == 0 || terrace_offload_left(engine.get(), ids[i]) == error));
      CHECK((error != 0 || back == sources[i]));
    }
    engine.release(ids[i]);
  }
  CHECK(engine.statistics().live == 0);
}

// What is fetched while it waits for room is used by the way back, and then by the way out as well.
TEST_CASE("ATensorFetchedWhileItWaitsForRoomEndsWithItsStep") {
  Options options = small;
  options.device = "emulated:1G";
  options.fault = "slow:1ms";
  const Opened engine(options);
  std::vector<std::vector<std::byte>> sources;
  for (std::uint64_t i = 0; i < 40; ++i) sources.push_back(content(mib, i));
  for (int step = 0; step < 10; ++step) {
    std::vector<std::byte> back(mib);
    for (const auto& source : sources) {
      std::uint64_t id = 0;
      if (engine.try_store(source, &id) != 0) continue;
      const int error = terrace_offload_fetch(engine.get(), id, back.data(), nullptr);
      if (error != 0) {  // it found no room meanwhile, and its own memory is the only copy
        CHECK(error == -ENOSPC);
        CHECK(terrace_offload_left(engine.get(), id) == -ENOSPC);
        engine.release(id);
        continue;
      }
      if (step % 2 == 0) {  // a fetch that was begun ends, even where its tensor then finds no room
        CHECK(terrace_offload_arrive(engine.get(), id, nullptr) == 0);
        CHECK(back == source);
      }
      if (step % 2 != 0) engine.release(id);
    }
    REQUIRE(terrace_offload_end_step(engine.get()) == 0);
  }
  CHECK(engine.statistics().live == 0);
}

TEST_CASE("AFaultThatIsNotUnderstoodIsRefused") {
  Options options = small;
  options.fault = "explode:1";
  const terrace_offload_config config = config_of(options);
  terrace_offload* engine = nullptr;
  char reason[256] = "";
  CHECK(terrace_offload_open(&config, &engine, reason, sizeof(reason)) == -EINVAL);
  CHECK(std::string(reason).find("explode") != std::string::npos);
}
