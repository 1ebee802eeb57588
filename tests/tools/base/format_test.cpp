#include "tools/cli/base/format.h"

#include <catch2/catch.hpp>

using namespace terrace::cli;

TEST_CASE("BytesReadInIecUnits") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1024) == "1.00 KiB");
  CHECK(bytes_text(1536) == "1.50 KiB");
  CHECK(bytes_text(std::uint64_t{2} << 30) == "2.00 GiB");
  CHECK(bytes_text(std::uint64_t{100} << 20) == "100 MiB");
  CHECK(bytes_text(~std::uint64_t{0}) == "16.0 EiB");
}

TEST_CASE("BytesNeverReadAsAThousandOfAUnitTheyFill") {
  CHECK(bytes_text((std::uint64_t{1} << 30) - 1) == "1.00 GiB");
  CHECK(bytes_text((std::uint64_t{1023} << 20)) == "1023 MiB");
}

TEST_CASE("ExactBytesArePlainNumbers") { CHECK(bytes_text(1536, true) == "1536"); }

TEST_CASE("DurationsUseTheUnitThatFits") {
  CHECK(duration_text(0) == "0 ns");
  CHECK(duration_text(812) == "812 ns");
  CHECK(duration_text(3'200) == "3.20 µs");
  CHECK(duration_text(15'000'000) == "15.0 ms");
  CHECK(duration_text(1'500'000'000) == "1.50 s");
  CHECK(duration_text(192'000'000'000) == "3m12s");
  CHECK(duration_text(7'500'000'000'000) == "2h05m");
}

TEST_CASE("CountsAreShort") {
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(1'234'567) == "1.23 M");
  CHECK(count_text(2.5) == "2.50");
}

TEST_CASE("PercentagesHaveOneDecimal") {
  CHECK(percent_text(0.256) == "25.6%");
  CHECK(percent_text(0) == "0.0%");
}
