// What people write as a size or a percentage: the same on the command line, in variables, in terraced.toml.
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
  CHECK(bytes_of("007") == 7);
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
  const char* text =
      GENERATE("", ".", "..", "G", ".G", "-1", "+1", " 1", "1 ", "1 G", "1KK", "1iB", "1P", "0x10", "1e9",
               "1..5G", "1.5.G", "60%", "1G\n", "inf", "nan", "1ki", "1gg", "G2", "2G%");
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

TEST_CASE("PercentagesMayHaveFractions") {
  const auto share_of_text = [](const char* text) {
    std::uint64_t share = 99;
    CAPTURE(text);
    REQUIRE(read_percent(text, &share) == 0);
    return share;
  };
  CHECK(share_of(16 * gib, share_of_text("100%")) == 16 * gib);
  CHECK(share_of(16 * gib, share_of_text("12.5%")) == 2 * gib);
  CHECK(share_of(1000, share_of_text("60.5%")) == 605);
  CHECK(share_of(1000, share_of_text(".1%")) == 1);
  CHECK(share_of(1000, share_of_text("100.0000000009%")) == 1000);
  CHECK(share_of(99, share_of_text("33.3%")) == 32);  // rounded down
  CHECK(share_of(~std::uint64_t{0}, share_of_text("100%")) == ~std::uint64_t{0});
}

TEST_CASE("WhatIsNoPercentageLeavesTheOutputAlone") {
  const auto [text, error] = GENERATE(table<const char*, int>({
      {"", EINVAL},
      {"%", EINVAL},
      {".%", EINVAL},
      {"60", EINVAL},
      {"60 %", EINVAL},
      {"60%%", EINVAL},
      {"-5%", EINVAL},
      {"sixty%", EINVAL},
      {"2G%", EINVAL},
      {"0%", ERANGE},
      {"0.0%", ERANGE},
      {"0.0000000001%", ERANGE},
      {"101%", ERANGE},
      {"100.001%", ERANGE},
      {"99999999999999999999%", ERANGE},
  }));
  std::uint64_t share = 99;
  CAPTURE(text);
  CHECK(read_percent(text, &share) == error);
  CHECK(share == 99);
}
