// What people write as a size: the same for `terrace run` and for TERRACE_* variables.
#include "liballoc/wire/size.h"

#include <catch2/catch.hpp>

using namespace terrace::wire;

namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

std::uint64_t bytes_of(const char* text) {
  std::uint64_t bytes = 99;
  CAPTURE(text);
  REQUIRE(read_size(text, &bytes) == 0);
  return bytes;
}

}  // namespace

TEST_CASE("SizesHaveUnitsInEitherCase") {
  CHECK(bytes_of("17") == 17);
  CHECK(bytes_of("17b") == 17);
  for (const char* text : {"2G", "2g", "2GB", "2gb", "2GiB", "2gib", "2048M", "2097152kib"})
    CHECK(bytes_of(text) == 2 * gib);
  CHECK(bytes_of("4194303T") == 4194303 * (gib << 10));
}

TEST_CASE("FractionsAreExactAndRoundedDown") {
  CHECK(bytes_of("1.5G") == gib + gib / 2);
  CHECK(bytes_of(".5G") == gib / 2);
  CHECK(bytes_of("1.G") == gib);
  CHECK(bytes_of("0.1K") == 102);
  CHECK(bytes_of("0.999999999T") == 1099511626676);  // (2^40 * 999999999) / 10^9
  CHECK(bytes_of("1.0000000009K") == 1024);
  CHECK(bytes_of("4194303.999T") < std::uint64_t{1} << 62);
}

TEST_CASE("WhatIsNoSizeLeavesTheOutputAlone") {
  const char* text = GENERATE("", ".", "..", "G", ".G", "-1", "+1", " 1", "1 ", "1 G", "1KK", "1iB", "1P",
                              "0x10", "1e9", "1..5G", "1.5.G", "60%", "1G\n", "inf");
  std::uint64_t bytes = 99;
  CAPTURE(text);
  CHECK(read_size(text, &bytes) == EINVAL);
  CHECK(bytes == 99);
}

TEST_CASE("SizesPastAnyMachineAreOutOfRange") {
  const char* text =
      GENERATE("4194304T", "4611686018427387904", "18446744073709551617", "99999999999999999999999999");
  std::uint64_t bytes = 99;
  CAPTURE(text);
  CHECK(read_size(text, &bytes) == ERANGE);
  CHECK(bytes == 99);
}
