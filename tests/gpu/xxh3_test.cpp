// XXH3 by all threads of a CTA against libxxhash.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "cases.h"

using namespace terrace::compression::cuda::test;

namespace {

void require_checksums(std::span<const std::uint32_t> lengths, const Setting& setting) {
  const Bytes bytes = noise(*std::max_element(lengths.begin(), lengths.end()) + 8, lengths.size());
  const std::vector<std::uint64_t> checksums = xxh3_of_prefixes(bytes, lengths, setting);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    INFO("length " << lengths[i] << ", " << setting.threads << " threads");
    REQUIRE(checksums[i] == XXH3_64bits(bytes.data(), lengths[i]));
  }
}

}  // namespace

TEST_CASE("EveryLengthTo5000HasItsChecksum") {
  std::vector<std::uint32_t> lengths(5001);
  std::iota(lengths.begin(), lengths.end(), 0);
  require_checksums(lengths, {.threads = 32, .resident_ctas = 2, .seed = 1});
}

TEST_CASE("LengthsToABlockHaveTheirChecksum") {
  std::mt19937 random(1);
  std::vector<std::uint32_t> lengths = {65535, 65536};
  for (int i = 0; i < 60; ++i)
    lengths.push_back(static_cast<std::uint32_t>(5000 + random() % (65536 - 5000)));
  for (const unsigned threads : {128U, 256U, 512U})
    require_checksums(lengths, {.threads = threads, .seed = 2});
}

TEST_CASE("TablesLongerThanABlockHaveTheirChecksum") {
  require_checksums(
      std::vector<std::uint32_t>{65537, 66559, 66560, 66561, 131072, 131073, 200000, 262144 + 16}, {});
}
