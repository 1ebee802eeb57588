// The direct path between device memory and the drive: on the fake driver, with the fake cuFile
// (tests/tiers/gpu/fake_cufile.cpp) and the host's codecs as kernels.
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>

#include "tests/liballoc/gpu/offload/cuda_fixture.h"

using namespace terrace::liballoc::offload::test;

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
  explicit Direct(const char* compress = "off") {
    const SlowCopies slow;
    engine_.emplace(small_memory(compress));
    INFO(path());
    REQUIRE(path().find(std::string(", GPUDirect Storage to ") + TERRACE_TEST_POOL_DIR) != std::string::npos);
  }
  const Opened& engine() const { return *engine_; }
  std::string path() const { return terrace_offload_path(engine_->get()); }

 private:
  Cufile works_{""};
  std::optional<Opened> engine_;
};

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

TEST_CASE("DamageOnTheDirectWayIsFound") {
  const Direct direct;
  const auto source = content(large, 1);
  const std::uint64_t id = direct.engine().store(source);
  REQUIRE(direct.engine().left(id) == 1);
  const Cufile damages("damaged read");
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
    id = direct.engine().store(source);
    REQUIRE(direct.engine().left(id) == 1);
  }
  const Cufile works("");
  std::vector<std::byte> back(large);
  CHECK(direct.engine().fetch(id, back) == -EBADMSG);
  CHECK(direct.engine().statistics().checksum_failures == 1);
}

TEST_CASE("WhatCufileDoesNotWriteGoesThroughTheHost") {
  const Direct direct;
  const Cufile fails("short write");
  CHECK(returns(direct.engine(), large, 1));
  const terrace_offload_statistics counts = direct.engine().statistics();
  CHECK(counts.io_errors == 1);
  CHECK(counts.in_pieces == 1);
  CHECK(counts.direct_bytes == 0);
}

TEST_CASE("WhatCufileDoesNotReadIsAnError") {
  const Direct direct;
  const auto source = content(large, 1);
  const std::uint64_t id = direct.engine().store(source);
  REQUIRE(direct.engine().left(id) == 1);
  const Cufile fails("failing read");
  std::vector<std::byte> back(large);
  CHECK(direct.engine().fetch(id, back) == -EIO);
  CHECK(direct.engine().statistics().io_errors == 1);
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
    CHECK(direct.engine().statistics().nvme_bytes == 0);
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

TEST_CASE("TheProbeIsCountedAgainstTheEndurance") {
  const Cufile works("");
  const SlowCopies slow;
  Options options = small_memory("off");
  options.writes_total_bytes = mib;
  CHECK(path_of(options).find("endurance budget has no room for a probe") != std::string::npos);
}
