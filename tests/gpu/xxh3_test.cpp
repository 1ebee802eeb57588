// XXH3 by all threads of a CTA against libxxhash.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <catch2/catch.hpp>
#include <random>

#include "machine.h"

using namespace terrace::compression::cuda::test;

namespace {

Bytes random_bytes(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

void check(std::size_t n, const Setting& setting = {}) {
  const Bytes bytes = random_bytes(n, n);
  INFO("length " << n << ", " << setting.threads << " threads");
  REQUIRE(xxh3_of(bytes, setting) == XXH3_64bits(bytes.data(), n));
}

}  // namespace

TEST_CASE("EveryLengthTo5000HasItsChecksum") {
  for (std::size_t n = 0; n <= 5000; ++n) check(n, {.threads = 32, .resident_ctas = 1, .seed = n % 3});
}

TEST_CASE("LengthsToABlockHaveTheirChecksum") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 60; ++i)
    check(5000 + random() % (65536 - 5000), {.threads = i % 2 == 0 ? 128U : 256U, .resident_ctas = 1, .seed = random()});
  check(65535);
  check(65536);
}

TEST_CASE("TablesLongerThanABlockHaveTheirChecksum") {
  for (const std::size_t n : {65537, 66559, 66560, 66561, 131072, 131073, 200000, 262144 + 16}) check(n);
}
