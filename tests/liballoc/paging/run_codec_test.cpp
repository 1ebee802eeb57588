// A run's way to the tier and back without a tier: what is to be written is put where a read would put it.
#include "liballoc/paging/transfers/run_codec.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "liballoc/base/checksum.h"
#include "tests/liballoc/support.h"

using namespace terrace::liballoc;
namespace os = terrace::os;
using test::Random;

namespace {

constexpr std::size_t block = 64 * test::kib;
constexpr std::size_t words_of_a_block = block / 4;

// Blocks of every kind in random order: zero, raw, one value repeated, sparse, very sparse.
void fill_block(std::uint32_t* words, Random& random) {
  const std::uint64_t kind = random.below(5);
  const auto value = static_cast<std::uint32_t>(random.next() | 1);
  for (std::size_t i = 0; i < words_of_a_block; ++i) {
    const auto any = static_cast<std::uint32_t>(random.next());
    const std::uint32_t kinds[] = {0, any | 1, value, any % 3 == 0 ? any : 0, any % 300 == 0 ? any : 0};
    words[i] = kinds[kind];
  }
}

struct Stored {
  const std::byte* data;
  std::uint32_t bytes;
  std::uint64_t sum;
  unsigned buffer;
};

struct Fixture {
  explicit Fixture(Compression compression) : run(run_bytes), frame(run_bytes) {
    REQUIRE(codec.use(compression) == 0);
  }

  void fill(std::uint64_t seed) {
    Random random(seed);
    for (std::size_t at = 0; at < run_bytes; at += block)
      fill_block(reinterpret_cast<std::uint32_t*>(run.base() + at), random);
  }
  // What is to be written, a compressed frame or the run as it is.
  Stored encode(std::uint32_t number, std::uint32_t generation) {
    RunEncoding encoding;
    if (codec.begin_encoding(run.base(), number, generation, false, &encoding)) {
      encoding.work(*codec.scratch());
      if (codec.end_encoding(encoding))
        return {encoding.buffer, encoding.bytes, encoding.sum, encoding.number};
    }
    const std::uint64_t start = os::thread_ns();
    const std::uint64_t sum = checksum(run.base(), run_bytes, generation);
    codec.summed(os::thread_ns() - start);
    return {run.base(), run_bytes, sum, RunCodec::no_buffer};
  }
  bool decode(std::uint32_t bytes, std::uint64_t sum, std::uint32_t generation) {
    if (bytes == run_bytes) return checksum(frame.base(), run_bytes, generation) == sum;
    RunDecoding decoding{.frame = frame.base(), .bytes = bytes, .generation = generation, .sum = sum};
    decoding.work(*codec.scratch());
    codec.end_decoding(decoding);
    return decoding.is_intact;
  }
  // Stores the run and reads it to its place in the frame.
  Stored store(std::uint32_t generation) {
    const Stored stored = encode(7, generation);
    std::memset(frame.base(), 0xEE, run_bytes);
    std::memcpy(RunFrame::place(frame.base(), stored.bytes), stored.data, stored.bytes);
    codec.give_back(stored.buffer);
    return stored;
  }
  bool comes_back(const Stored& stored, std::uint32_t generation) {
    return decode(stored.bytes, stored.sum, generation) &&
           std::memcmp(frame.base(), run.base(), run_bytes) == 0;
  }

  RunCodec codec;
  test::Region run, frame;
};

const auto any_codec = [] {
  return GENERATE(Compression::zvc, Compression::zvc_exp, Compression::rle, Compression::csr8,
                  Compression::automatic);
};

}  // namespace

TEST_CASE("ARunOfBlocksOfEveryKindComesBack") {
  Fixture f(any_codec());
  bool compressed = false;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    f.fill(seed);
    const auto stored = f.store(3);
    CAPTURE(seed, stored.bytes);
    compressed |= stored.bytes < run_bytes;
    CHECK(f.comes_back(stored, 3));
  }
  CHECK(compressed);
}

// The tightest case of decoding in place: all that saves space lies in the first blocks, so that the bytes of
// the others lie just in front of where they go.
TEST_CASE("ARunThatIsSparseOnlyAtItsBeginningComesBack") {
  Fixture f(Compression::zvc);
  for (std::size_t zero_blocks : {2U, 3U, 4U, 8U}) {
    Random random(zero_blocks);
    auto* words = reinterpret_cast<std::uint64_t*>(f.run.base());
    for (std::size_t i = 0; i < run_bytes / 8; ++i)
      words[i] = i * 8 < zero_blocks * block ? 0 : random.next() | 1;
    const auto stored = f.store(1);
    CAPTURE(zero_blocks, stored.bytes);
    CHECK((stored.bytes < run_bytes) == (zero_blocks > 2));
    CHECK(f.comes_back(stored, 1));
  }
}

TEST_CASE("StoredBytesAreWholePages") {
  Fixture f(any_codec());
  f.fill(1);
  CHECK(f.store(1).bytes % 4096 == 0);
}

TEST_CASE("AnotherGenerationIsRefused") {
  Fixture f(any_codec());
  f.fill(2);
  const auto stored = f.store(5);
  CHECK_FALSE(f.comes_back(stored, 4));
}

TEST_CASE("AnyChangedByteOfWhatWasStoredIsRefused") {
  Fixture f(any_codec());
  f.fill(3);
  Random random(1);
  const auto good = f.encode(7, 1);
  const std::vector<std::byte> bytes(good.data, good.data + good.bytes);
  f.codec.give_back(good.buffer);
  REQUIRE(good.bytes < run_bytes);
  for (int i = 0; i < 60; ++i) {
    std::byte* place = RunFrame::place(f.frame.base(), good.bytes);
    std::memcpy(place, bytes.data(), bytes.size());
    // What is behind the frame's end is not read; its padding to whole pages has no meaning.
    const std::size_t at = random.below(good.bytes - 4096);
    place[at] ^= static_cast<std::byte>(1 + random.below(255));
    CAPTURE(at);
    CHECK_FALSE(f.decode(good.bytes, good.sum, 1));
  }
}

TEST_CASE("DenseRunsAreStoredAsTheyAre") {
  Fixture f(any_codec());
  Random random(9);
  auto* words = reinterpret_cast<std::uint64_t*>(f.run.base());
  for (std::size_t i = 0; i < run_bytes / 8; ++i) words[i] = random.next() | 0x0101010101010101;
  const auto stored = f.store(2);
  CHECK(stored.bytes == run_bytes);
  CHECK(stored.data == f.run.base());
  CHECK(stored.buffer == RunCodec::no_buffer);
  CHECK(f.comes_back(stored, 2));
}

TEST_CASE("BuffersAreGivenOutUntilNoneIsLeft") {
  Fixture f(Compression::zvc);
  f.fill(4);
  std::vector<unsigned> taken;
  while (f.codec.has_free_buffer()) taken.push_back(f.encode(1, 1).buffer);
  REQUIRE(taken.size() == RunCodec::buffers);
  f.codec.give_back(taken.back());
  CHECK(f.encode(1, 1).buffer == taken.back());
}

TEST_CASE("StatisticsCountContentAndFrames") {
  Fixture f(Compression::zvc_exp);
  f.fill(5);
  const auto stored = f.store(1);
  REQUIRE(f.comes_back(stored, 1));
  f.codec.publish_counts();
  const terrace_codec_statistics& zvc_exp = f.codec.statistics()[1];
  CHECK(zvc_exp.content_bytes == run_bytes);
  CHECK(zvc_exp.frame_bytes == stored.bytes);
  CHECK(zvc_exp.compress_ns > 0);
  CHECK(zvc_exp.decompress_ns > 0);
}

TEST_CASE("OffTakesNoMemoryAndChangesNothing") {
  Fixture f(Compression::off);
  f.fill(6);
  CHECK_FALSE(f.codec.is_on());
  const auto stored = f.store(1);
  CHECK(stored.bytes == run_bytes);
  CHECK(f.comes_back(stored, 1));
}

// The job's budget shrank: its codec's buffers go, what it made stays readable, and it can begin again.
TEST_CASE("ACodecThatIsSwitchedOffDecodesWhatItMade") {
  Fixture f(any_codec());
  f.fill(8);
  Stored stored = f.encode(7, 1);
  for (int i = 0; i < 50 && stored.buffer == RunCodec::no_buffer; ++i)  // auto: not at once
    stored = f.encode(7, 1);
  REQUIRE(stored.buffer != RunCodec::no_buffer);
  CHECK(f.codec.taken_runs() == RunCodec::memory_runs);
  REQUIRE(f.codec.use(Compression::off) == 0);  // the frame is still to be written
  std::memset(f.frame.base(), 0xEE, run_bytes);
  std::memcpy(RunFrame::place(f.frame.base(), stored.bytes), stored.data, stored.bytes);
  f.codec.give_back(stored.buffer);
  CHECK(*stored.data == std::byte{0});  // the memory is gone
  CHECK(f.codec.taken_runs() == 1);
  CHECK(f.comes_back(stored, 1));
  CHECK(f.store(2).bytes == run_bytes);
  REQUIRE(f.codec.use(Compression::zvc) == 0);
  const auto again = f.store(3);
  CHECK(again.bytes < run_bytes);
  CHECK(f.comes_back(again, 3));
}

// zvc_exp makes these random signs, mantissas and 20 exponents 0.94 as large, which is not worth storing.
TEST_CASE("FramesThatAreNotKeptAreNotMadeForEver") {
  Fixture f(Compression::automatic);
  Random random(1);
  auto* words = reinterpret_cast<std::uint32_t*>(f.run.base());
  for (std::size_t i = 0; i < run_bytes / 4; ++i)
    words[i] = static_cast<std::uint32_t>((random.next() & 0x807fffffU) | (110 + random.below(20)) << 23);
  int made = 0;
  std::uint64_t before = 0;
  for (unsigned i = 0; i < 400; ++i) {
    f.codec.wrote(run_bytes, 20'000'000, 20'000'000);
    f.codec.read(run_bytes, 20'000'000, 20'000'000);
    REQUIRE(f.store(i).bytes == run_bytes);
    f.codec.publish_counts();
    std::uint64_t spent = 0;
    for (int codec = 0; codec < TERRACE_CODECS; ++codec) spent += f.codec.statistics()[codec].compress_ns;
    made += i >= 200 && spent > before ? 1 : 0;
    before = spent;
  }
  CHECK(made < 40);
}

// What the tier does while the job computes costs the job nothing; compressing would. This tier is so slow
// that no build of the codecs and no machine is slower.
TEST_CASE("TransfersThatNobodyWaitsForAreNotCompressed") {
  Fixture f(Compression::automatic);
  const auto share_compressed = [&](bool waits) {
    int compressed = 0;
    for (int i = 0; i < 400; ++i) {
      f.fill(static_cast<std::uint64_t>(i % 4) + 10);
      f.codec.wrote(run_bytes, 100'000'000, waits ? 100'000'000 : 0);
      f.codec.read(run_bytes, 100'000'000, waits ? 100'000'000 : 0);
      const auto stored = f.store(1);
      compressed += i >= 200 && stored.bytes < run_bytes ? 1 : 0;
    }
    return compressed;
  };
  CHECK(share_compressed(true) > 180);
  CHECK(share_compressed(false) < 20);
  CHECK(share_compressed(true) > 180);
}

// As a quota does it, or a drive that collects garbage: in the mean a run takes 0.5 s each way, which is more
// than any build of the codecs takes on any machine.
TEST_CASE("ADiskThatTakesManyAtOnceAndThenNoneIsAsSlowAsInTheMean") {
  Fixture f(Compression::automatic);
  auto* words = reinterpret_cast<std::uint32_t*>(f.run.base());
  for (std::size_t i = 0; i < run_bytes / 4; i += 2) words[i] = 0x3f800000 + static_cast<std::uint32_t>(i);
  int compressed = 0;
  for (unsigned i = 0; i < 400; ++i) {
    const std::uint64_t ns = i % 20 == 19 ? 10'000'000'000 : 2'000'000;
    f.codec.wrote(run_bytes, ns, ns);
    f.codec.read(run_bytes, ns, ns);
    const auto stored = f.store(i);
    REQUIRE(f.comes_back(stored, i));
    compressed += i >= 200 && stored.bytes < run_bytes ? 1 : 0;
  }
  CHECK(compressed > 180);
}
