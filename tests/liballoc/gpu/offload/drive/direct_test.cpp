// The direct path between device memory and the drive: on the fake driver, with the fake cuFile
// (tests/tiers/gpu/fake_cufile.cpp) and the host's codecs as kernels.
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>

#include "liballoc/gpu/offload/drive/direct_path.h"
#include "tests/liballoc/gpu/offload/directory.h"
#include "tests/liballoc/gpu/offload/engine/cuda_fixture.h"

using namespace terrace::liballoc::offload::test;
using terrace::liballoc::offload::DirectPath;

namespace {

// What the fake cuFile does wrong while it lives; "" is nothing. Set and ended while the engine rests.
class Cufile {
 public:
  explicit Cufile(const char* what) { setenv("FAKE_CUFILE", what, 1); }
  ~Cufile() { setenv("FAKE_CUFILE", "no driver", 1); }
  Cufile(const Cufile&) = delete;
  Cufile& operator=(const Cufile&) = delete;
};

// While it is opened, copies take 20 ms each: the way through host memory is the slower one.
struct SlowCopies {
  SlowCopies() { setenv("FAKE_CUDA_LACKS", "speed", 1); }
  ~SlowCopies() { unsetenv("FAKE_CUDA_LACKS"); }
};

// More than host memory has: it goes past it.
constexpr std::uint64_t large = 20 * mib;
Options small_memory(const char* compress) {
  Options options = cuda(16 * mib, 256 * mib);
  options.compress = compress;
  options.staging_bytes = 24 * mib;
  return options;
}

class Direct {
 public:
  explicit Direct(const char* compress = "off") : Direct(small_memory(compress)) {}
  explicit Direct(const Options& options) {
    const SlowCopies slow;
    engine_.emplace(options);
    INFO(path());
    REQUIRE(path().find(std::string(", GPUDirect Storage to ") + TERRACE_TEST_POOL_DIR) != std::string::npos);
  }
  const Opened& engine() const { return *engine_; }
  std::string path() const { return terrace_offload_path(engine_->get()); }

 private:
  Cufile works_{""};
  std::optional<Opened> engine_;
};

// It has left, and is on the drive alone.
std::uint64_t stored(const Direct& direct, const std::vector<std::byte>& source) {
  const std::uint64_t id = direct.engine().store(source);
  REQUIRE(direct.engine().left(id) == 1);
  return id;
}

void brings_back(const Direct& direct, std::uint64_t id, const std::vector<std::byte>& expected) {
  std::vector<std::byte> back(expected.size(), std::byte{0xa5});
  CHECK(direct.engine().fetch(id, back) == 0);
  wait_for_stream();
  direct.engine().release(id);
  CHECK((back == expected));
}

// What was released gives its extent back once its last user is through: a kernel's verdict, or the drive.
bool drive_empties(const Direct& direct) {
  for (int i = 0; i < 10'000 && direct.engine().statistics().nvme_bytes != 0; ++i) pause_ms(1);
  return direct.engine().statistics().nvme_bytes == 0;
}

std::string path_of(const Options& options) { return terrace_offload_path(Opened(options).get()); }

}  // namespace

TEST_CASE("WhatHostMemoryDoesNotHoldGoesDirectlyAndComesBack") {
  const std::string compress = GENERATE("off", "zvc", "auto");
  const Direct direct(compress.c_str());
  for (const std::uint64_t bytes : {large, large + 1, large + 4096 + 2})
    CHECK(returns(direct.engine(), bytes, bytes));
  const terrace_offload_statistics counts = direct.engine().statistics();
  CHECK(counts.in_pieces == 0);
  CHECK(counts.direct_bytes == counts.nvme_written_bytes + counts.nvme_read_bytes);
  if (compress == "off") CHECK(counts.direct_bytes > 6 * large);
  if (compress == "zvc") CHECK(counts.direct_bytes < 6 * large);
  if (compress == "zvc") CHECK(counts.direct_bytes > 6 * large / 4);
  CHECK(counts.live == 0);
}

TEST_CASE("WhatFindsHostMemoryFullGoesDirectly") {
  const Direct direct;
  std::vector<std::vector<std::byte>> sources;
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < 40; ++i) sources.push_back(content(mib, i));
  {
    StreamGate gate;  // all of them are stored before the first can leave
    for (const auto& source : sources) ids.push_back(direct.engine().store(source));
  }
  for (const std::uint64_t id : ids) REQUIRE(direct.engine().left(id) == 1);
  CHECK(direct.engine().statistics().direct_bytes > 0);
  for (std::size_t i = ids.size(); i-- > 0;) {
    std::vector<std::byte> back(mib);
    REQUIRE(direct.engine().fetch(ids[i], back) == 0);
    direct.engine().release(ids[i]);
    wait_for_stream();
    CHECK((back == sources[i]));
  }
}

TEST_CASE("DamageOnTheDriveIsFoundOnEitherWay") {
  const Direct direct;
  const auto source = content(large, 1);
  std::uint64_t id = 0;
  {
    const Cufile damages("damaged write");
    id = stored(direct, source);
  }
  const Cufile works("");
  std::vector<std::byte> back(large, std::byte{0xa5});
  CHECK(direct.engine().fetch(id, back) == -EBADMSG);
  CHECK((back != source));
  CHECK(direct.engine().statistics().checksum_failures == 1);
}

TEST_CASE("AnOlderFrameWhereAWriteWasLostIsFound") {
  const Direct direct;
  CHECK(returns(direct.engine(), large, 1));
  const auto source = content(large, 2);
  std::uint64_t id = 0;
  {
    const Cufile loses("lost write");
    id = stored(direct, source);
  }
  const Cufile works("");
  std::vector<std::byte> back(large);
  CHECK(direct.engine().fetch(id, back) == -EBADMSG);
  CHECK(direct.engine().statistics().checksum_failures == 1);
}

TEST_CASE("WhatCufileDoesNotWriteGoesThroughTheHost") {
  const Direct direct;
  const Cufile fails("short write");
  const auto source = content(large, 1);
  const std::uint64_t id = stored(direct, source);
  CHECK(direct.engine().statistics().nvme_bytes == large);
  brings_back(direct, id, source);
  const terrace_offload_statistics counts = direct.engine().statistics();
  CHECK(counts.io_errors == 1);
  CHECK(counts.in_pieces == 1);
  CHECK(counts.direct_bytes == 0);
}

TEST_CASE("WhatCufileDoesNotReadOrReadsWronglyComesThroughTheHost") {
  const std::string fault = GENERATE("failing read", "short read", "damaged read", "damaged beginning");
  const Direct direct(GENERATE("off", "zvc"));
  const auto source = content(large + 4096 + 2, 1);
  const std::uint64_t ids[] = {stored(direct, source), stored(direct, source)};
  {
    const Cufile fails(fault.c_str());
    brings_back(direct, ids[0], source);
    CHECK(direct.engine().statistics().io_errors == 1);
  }
  const Cufile works("");
  const std::uint64_t before = direct.engine().statistics().direct_bytes;
  brings_back(direct, ids[1], source);
  const terrace_offload_statistics counts = direct.engine().statistics();
  CHECK(counts.direct_bytes > before);
  CHECK(counts.io_errors == 1);
  CHECK(counts.checksum_failures == 0);
}

TEST_CASE("WhatTheHostDoesNotReadEitherIsAnError") {
  const auto [fault, error, failures] =
      GENERATE(table<const char*, int, unsigned>({{"read:1:EIO", -EIO, 0}, {"corrupt:1", -EBADMSG, 1}}));
  Options options = small_memory("off");
  options.fault = fault;
  const Direct direct(options);
  const std::uint64_t id = stored(direct, content(large, 1));
  const Cufile fails("failing read");
  std::vector<std::byte> back(large);
  CHECK(direct.engine().fetch(id, back) == error);
  CHECK(direct.engine().fetch(id, back) == error);
  CHECK(direct.engine().statistics().checksum_failures == failures);
}

TEST_CASE("ADirectTensorIsReleasedWhileItIsReadAgain") {
  const Direct direct;
  const auto source = content(large, 1);
  const Cufile damages("damaged read");
  for (const long pause : {0, 1, 3, 10}) {
    const std::uint64_t id = stored(direct, source);
    std::vector<std::byte> back(large);
    REQUIRE(terrace_offload_fetch(direct.engine().get(), id, back.data(), nullptr) == 0);
    pause_ms(pause);
    direct.engine().release(id);
    wait_for_stream();
  }
  CHECK(terrace_offload_end_step(direct.engine().get()) == 0);
  CHECK(direct.engine().statistics().live == 0);
  CHECK(drive_empties(direct));
  CHECK(direct.engine().statistics().checksum_failures == 0);
}

// Host memory has room for the first of three, which are fetched as they were stored. The last one is more
// than may be read ahead.
TEST_CASE("ADirectTensorIsReadAheadInTheLearnedOrder") {
  const bool drive_fails = GENERATE(false, true);
  Options options = small_memory("off");
  options.read_ahead_bytes = 12 * mib;
  if (drive_fails) options.fault = "read:1:EIO";
  const Direct direct(options);
  const std::vector<std::byte> sources[] = {content(10 * mib, 1), content(8 * mib, 2), content(large, 3)};
  for (const bool learned : {false, true}) {
    INFO("learned: " << learned);
    std::vector<std::uint64_t> ids;
    for (const auto& source : sources) ids.push_back(stored(direct, source));
    brings_back(direct, ids[0], sources[0]);
    const std::uint64_t direct_bytes = direct.engine().statistics().direct_bytes;
    brings_back(direct, ids[1], sources[1]);
    const bool ahead = learned && !drive_fails;
    CHECK((direct.engine().statistics().direct_bytes == direct_bytes) == ahead);
    if (!drive_fails) CHECK(direct.engine().statistics().read_ahead_hits == (learned ? 1 : 0));
    brings_back(direct, ids[2], sources[2]);
    CHECK(terrace_offload_end_step(direct.engine().get()) == 0);
  }
  CHECK(direct.engine().statistics().io_errors == (drive_fails ? 1 : 0));
}

TEST_CASE("WhatAFrameDoesNotNeedOfTheDriveIsGivenBack") {
  Options options = small_memory("zvc");
  options.nvme_bytes = 45 * mib;  // two frames' bounds, and not three
  const Direct direct(options);
  std::vector<std::vector<std::byte>> sources;
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < 3; ++i) sources.push_back(content(large, i));
  for (const auto& source : sources) ids.push_back(stored(direct, source));
  const terrace_offload_statistics counts = direct.engine().statistics();
  CHECK(counts.in_pieces == 0);
  CHECK(counts.nvme_bytes >= counts.nvme_written_bytes);
  CHECK(counts.nvme_bytes < counts.nvme_written_bytes + ids.size() * 64 * kib);
  for (std::size_t i = 0; i < ids.size(); ++i) brings_back(direct, ids[i], sources[i]);
  CHECK(drive_empties(direct));
}

TEST_CASE("ADirectTensorIsReleasedAtAnyTime") {
  const Direct direct;
  CHECK(returns(direct.engine(), large, 2));  // from now on nobody waits for host memory first
  const auto source = content(large, 1);
  {
    StreamGate gate;
    direct.engine().release(direct.engine().store(source));
  }
  for (const bool has_left : {false, true}) {
    const std::uint64_t id = direct.engine().store(source);
    if (has_left) REQUIRE(direct.engine().left(id) == 1);
    CHECK(terrace_offload_end_step(direct.engine().get()) == 0);
    CHECK(direct.engine().statistics().live == 0);
    CHECK(drive_empties(direct));
  }
  CHECK(returns(direct.engine(), large, 2));
}

TEST_CASE("ADirectWayThatIsSlowerIsNotTaken") {
  const Cufile slow("slow");
  const Opened engine(small_memory("off"));
  const std::string path = terrace_offload_path(engine.get());
  INFO(path);
  CHECK(path.find("without GPUDirect Storage: a probe's way to the drive and back took") !=
        std::string::npos);
  CHECK(returns(engine, large, 1));
  CHECK(engine.statistics().direct_bytes == 0);
  CHECK(engine.statistics().in_pieces == 1);
}

TEST_CASE("ADirectWayThatDoesNotWorkIsNotTaken") {
  const auto [fault, words] = GENERATE(table<const char*, const char*>(
      {{"no driver", "cuFile error 5001"}, {"no file", "5008"}, {"lost write", "what came back is not"}}));
  const Cufile fails(fault);
  const std::string path = path_of(small_memory("off"));
  INFO(path);
  CHECK(path.find("without GPUDirect Storage: ") != std::string::npos);
  CHECK(path.find(words) != std::string::npos);
}

TEST_CASE("ADirectTensorThatIsReleasedBeforeItWasWrittenIsNotCounted") {
  const Directory directory;
  Options options = small_memory("off");
  options.nvme_directory = directory.path().c_str();
  const Direct direct(options);
  CHECK(returns(direct.engine(), large, 2));  // from now on nobody waits for host memory first
  const std::uint64_t before = direct.engine().statistics().writes_total_bytes;
  const auto source = content(large, 1);
  {
    StreamGate gate;
    direct.engine().release(direct.engine().store(source));
  }
  CHECK(drive_empties(direct));
  CHECK(direct.engine().statistics().writes_total_bytes == before);
}

TEST_CASE("WhatCufileDidNotWriteIsCountedTwice") {
  const bool there_is_budget = GENERATE(true, false);
  const Directory directory;
  Options options = small_memory("off");
  options.nvme_directory = directory.path().c_str();
  if (!there_is_budget) options.writes_total_bytes = DirectPath::probe_writes_bytes + large * 3 / 2;
  const Direct direct(options);
  const std::uint64_t before = direct.engine().statistics().writes_total_bytes;
  const Cufile fails("short write");
  const auto source = content(large, 1);
  const std::uint64_t id = direct.engine().store(source);
  CHECK(direct.engine().left(id) == (there_is_budget ? 1 : -EDQUOT));
  const std::uint64_t counted = direct.engine().statistics().writes_total_bytes - before;
  CHECK(counted >= (there_is_budget ? 2 : 1) * large);
  CHECK(counted < (there_is_budget ? 2 : 1) * large + mib);
}

TEST_CASE("TheProbeIsCountedAgainstTheEndurance") {
  const Cufile works("");
  const SlowCopies slow;
  Options options = small_memory("off");
  options.writes_total_bytes = mib;
  CHECK(path_of(options).find("endurance budget has no room for a probe") != std::string::npos);
}
