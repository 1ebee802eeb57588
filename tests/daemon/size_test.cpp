#include "daemon/size.h"

#include <catch2/catch.hpp>

using namespace terrace::daemon;

TEST_CASE("sizes are powers of 1024 with one of the known suffixes") {
  CHECK(parse_size("1") == 1);
  CHECK(parse_size("7B") == 7);
  CHECK(parse_size("2K") == 2048);
  CHECK(parse_size("2KiB") == 2048);
  CHECK(parse_size("3M") == 3 << 20);
  CHECK(parse_size("1536MiB") == 1536ULL << 20);
  CHECK(parse_size("16G") == 16ULL << 30);
  CHECK(parse_size("4TiB") == 4ULL << 40);
}

TEST_CASE("what is no size is refused") {
  const auto* text = GENERATE("", "G", "0", "0G", "-1G", "+1G", "1.5G", "1 G", "16g", "16GB", "G16", "16Gi",
                              "1e3", "9223372036854775808", "8388608T", "99999999999999999999");
  CAPTURE(text);
  CHECK_FALSE(parse_size(text));
}

TEST_CASE("amounts are sizes or whole percentages from 1 to 100") {
  CHECK(parse_amount("16G") == Amount{Amount::Unit::bytes, 16ULL << 30});
  CHECK(parse_amount("80%") == Amount{Amount::Unit::percent, 80});
  CHECK(parse_amount("100%")->of(1000) == 1000);
  CHECK(parse_amount("1%")->of(1000) == 10);
  const auto* text = GENERATE("0%", "101%", "%", "8.5%", "80 %", "-5%", "80%%");
  CAPTURE(text);
  CHECK_FALSE(parse_amount(text));
}

TEST_CASE("sizes are shown in the largest unit that fits") {
  CHECK(format_size(0) == "0 B");
  CHECK(format_size(1023) == "1023 B");
  CHECK(format_size(1536) == "1.5 KiB");
  CHECK(format_size(2ULL << 30) == "2.0 GiB");
}
