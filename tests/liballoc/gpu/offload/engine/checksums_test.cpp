// What the host sums, and what is found by it: everything that was on the drive, and nothing of what stayed
// in host memory unless somebody asked for that.
#include <cerrno>

#include "liballoc/gpu/offload/codec/proofs.h"
#include "tests/liballoc/gpu/offload/engine_fixture.h"

using namespace terrace::liballoc::offload;
using namespace terrace::liballoc::offload::test;

namespace {

// One tensor out and back.
terrace_offload_statistics after_a_round(const Options& options) {
  const Opened engine(options);
  CHECK(survives(engine, 3 * mib + 4, 1));
  return engine.statistics();
}

struct Proven {
  explicit Proven(std::uint64_t bytes) : source(content(bytes, 1)), memory(source) {
    tensor.id = 7;
    tensor.source = source.data();
    tensor.bytes = tensor.stored_bytes = bytes;
  }
  std::vector<std::byte> source, memory;
  Tensor tensor;
};

}  // namespace

TEST_CASE("WhatStaysInHostMemoryIsNotSummed") {
  const char* device = GENERATE("cpu", "emulated:1G");
  CAPTURE(device);
  CHECK(after_a_round({.device = device}).summed_bytes == 0);
  CHECK(after_a_round({.device = device, .checksums = "drive"}).summed_bytes == 0);
  CHECK(after_a_round({.device = device, .checksums = "all"}).summed_bytes == 2 * (3 * mib + 4));
}

TEST_CASE("AFrameIsSummedByWhoeverMakesIt") {
  const char* device = GENERATE("cpu", "emulated:1G");
  CAPTURE(device);
  CHECK(after_a_round({.device = device, .compress = "zvc"}).summed_bytes == 0);
  const auto all = after_a_round({.device = device, .compress = "zvc", .checksums = "all"});
  CHECK(all.summed_bytes == 2 * all.frame_bytes);
}

TEST_CASE("WhatIsWrittenToTheDriveIsSummedAsItIsWritten") {
  const Opened engine({.device = "emulated:1G", .dram_bytes = 16 * mib, .nvme_bytes = 256 * mib});
  std::vector<std::uint64_t> ids;
  std::vector<std::vector<std::byte>> sources;
  for (std::uint64_t i = 0; i < 40; ++i) sources.push_back(content(mib + 4, i));
  for (const auto& source : sources) {
    ids.push_back(engine.store(source));
    REQUIRE(engine.left(ids.back()) == 1);
  }
  const auto out = engine.statistics();
  CHECK(out.nvme_written_bytes > 20 * mib);
  CHECK(out.summed_bytes > 20 * mib);
  CHECK(out.summed_bytes <= out.nvme_written_bytes);
  std::vector<std::byte> back(mib + 4);
  for (std::size_t i = ids.size(); i-- > 0;) {
    REQUIRE(engine.fetch(ids[i], back) == 0);
    CHECK((back == sources[i]));
  }
  CHECK(engine.statistics().summed_bytes > out.summed_bytes + 20 * mib);
}

TEST_CASE("OnlyWhatWasOnTheDriveIsSeenUnlessEverythingIs") {
  const bool everything = GENERATE(false, true);
  Proofs proofs;
  if (everything) proofs.sum_everything();
  Proven stored(mib);
  proofs.take(stored.tensor, stored.memory.data());
  CHECK(proofs.are_to_be_seen(stored.tensor) == everything);
  if (!everything) {  // the drive's thread gives it a sum
    stored.tensor.sum = stored_sum(stored.memory.data(), mib, 7);
    stored.tensor.proof = Tensor::Proof::sum;
    CHECK_FALSE(proofs.are_to_be_seen(stored.tensor));
  }
  stored.tensor.from_drive = true;
  REQUIRE(proofs.are_to_be_seen(stored.tensor));
  CHECK(proofs.hold(stored.tensor, stored.memory.data()));
  stored.memory[mib - 1] ^= std::byte{1};
  CHECK_FALSE(proofs.hold(stored.tensor, stored.memory.data()));
}

TEST_CASE("ACopyThatIsToBeWrittenIsSummedOnItsWay") {
  Proofs proofs;
  Proven stored(mib);
  std::vector<std::byte> to(mib);
  stored.tensor.to = to.data();
  proofs.take_copy(stored.tensor, stored.memory.data(), true);
  CHECK(proofs.summed_bytes() == mib);
  CHECK(proofs.hold_copy(stored.tensor, stored.memory.data()));  // it never left host memory
  CHECK(proofs.summed_bytes() == mib);
  CHECK((to == stored.source));
  stored.tensor.from_drive = true;
  stored.memory[1] ^= std::byte{1};
  CHECK_FALSE(proofs.hold_copy(stored.tensor, stored.memory.data()));
}

TEST_CASE("AnUnknownChecksumIsRefused") {
  const terrace_offload_config config = config_of({.checksums = "some"});
  terrace_offload* engine = nullptr;
  char reason[256] = "";
  CHECK(terrace_offload_open(&config, &engine, reason, sizeof(reason)) == -EINVAL);
  CHECK(std::string(reason).find("'some'") != std::string::npos);
}
