#include "daemon/base/size.h"

#include <catch2/catch.hpp>

using namespace terrace::daemon;

TEST_CASE("sizes are shown in the largest unit that fits") {
  CHECK(format_size(0) == "0 B");
  CHECK(format_size(1023) == "1023 B");
  CHECK(format_size(1536) == "1.5 KiB");
  CHECK(format_size(2ULL << 30) == "2.0 GiB");
}
