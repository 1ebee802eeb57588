// The checksum of stored runs: one sum whatever the processor, and a different one for every flipped bit and
// every generation.
#include "liballoc/base/checksum.h"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "tests/liballoc/support.h"

namespace terrace::liballoc {
namespace {

std::vector<unsigned char> random_bytes(std::size_t count, std::uint64_t seed) {
  test::Random random(seed);
  std::vector<unsigned char> bytes(count);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random.next());
  return bytes;
}

bool has_avx2() { return __builtin_cpu_supports("avx2"); }

}  // namespace

TEST_CASE("All variants agree on every length and alignment") {
  if (!has_avx2()) {
    WARN("SKIP: this processor has no AVX2");
    return;
  }
  const auto bytes = random_bytes(70'000, 1);
  test::Random random(2);
  int different = 0;
  for (int i = 0; i < 5'000; ++i) {
    const std::size_t offset = random.below(64);
    const std::size_t most = i % 10 == 0 ? bytes.size() - offset : 600;
    const std::size_t length = random.below(most);
    const std::uint64_t generation = i % 3 == 0 ? random.next() : random.below(4);
    const auto* data = bytes.data() + offset;
    different += checksum_sse2(data, length, generation) != checksum_avx2(data, length, generation) ? 1 : 0;
    different += checksum(data, length, generation) != checksum_sse2(data, length, generation) ? 1 : 0;
  }
  CHECK(different == 0);
}

TEST_CASE("The sum is XXH3-64, as other programs compute it") {
  // xxhsum -H3 of nothing and of "abc".
  CHECK(checksum("", 0, 0) == 0x2d06800538d394c2);
  CHECK(checksum("abc", 3, 0) == 0x78af5f94892f3950);
}

TEST_CASE("The sum depends on the generation") {
  const auto bytes = random_bytes(4096, 3);
  std::set<std::uint64_t> sums;
  for (std::uint64_t generation = 0; generation < 1000; ++generation)
    sums.insert(checksum(bytes.data(), bytes.size(), generation));
  CHECK(sums.size() == 1000);
}

TEST_CASE("Every single flipped bit of a 4 KiB block changes the sum") {
  auto bytes = random_bytes(4096, 4);
  if (GENERATE(false, true)) std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  const std::uint64_t right = checksum(bytes.data(), bytes.size(), 1);
  int undetected = 0;
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<unsigned char>(1U << (bit % 8));
    bytes[bit / 8] ^= mask;
    undetected += checksum(bytes.data(), bytes.size(), 1) == right ? 1 : 0;
    bytes[bit / 8] ^= mask;
  }
  CHECK(undetected == 0);
  CHECK(checksum(bytes.data(), bytes.size(), 1) == right);
}

TEST_CASE("Blocks of zeroes of different length have different sums") {
  const std::vector<unsigned char> zeroes(2 * run_bytes);
  std::set<std::uint64_t> sums;
  for (std::size_t length = 0; length <= 4096; ++length) sums.insert(checksum(zeroes.data(), length, 0));
  sums.insert(checksum(zeroes.data(), run_bytes, 0));
  sums.insert(checksum(zeroes.data(), 2 * run_bytes, 0));
  CHECK(sums.size() == 4099);
}

}  // namespace terrace::liballoc
