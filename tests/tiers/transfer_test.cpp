// How a transfer goes on after a partial result, without any device.
#include "tiers/transfer.h"

#include <catch2/catch.hpp>

using namespace terrace::tiers;

TEST_CASE("A full result finishes") {
  Progress progress{.total_bytes = 3 * block_bytes};
  int error = 0;
  CHECK(advance(progress, 3 * block_bytes, &error) == Step::finished);
}

TEST_CASE("A partial result goes on from a block boundary") {
  Progress progress{.total_bytes = 3 * block_bytes};
  int error = 0;
  CHECK(advance(progress, block_bytes + 512, &error) == Step::again);
  CHECK(progress.done_bytes == block_bytes);
  CHECK(advance(progress, 2 * block_bytes, &error) == Step::finished);
}

TEST_CASE("EndOfFileIsEio") {
  Progress progress{.total_bytes = 2 * block_bytes};
  int error = 0;
  CHECK(advance(progress, block_bytes, &error) == Step::again);
  CHECK(advance(progress, 0, &error) == Step::failed);
  CHECK(error == EIO);
}

TEST_CASE("An interruption is repeated, for ever it is EIO") {
  const std::int64_t result = GENERATE(-EINTR, -EAGAIN, -ECANCELED, 512);
  Progress progress{.total_bytes = 2 * block_bytes};
  int error = 0;
  int steps = 1;
  while (advance(progress, result, &error) == Step::again) ++steps;
  CHECK(steps == max_fruitless);
  CHECK(error == EIO);
  CHECK(progress.done_bytes == 0);
}

TEST_CASE("Progress resets the patience") {
  Progress progress{.total_bytes = 1000 * block_bytes};
  int error = 0;
  for (int i = 0; i < 999; ++i) {
    REQUIRE(advance(progress, -EINTR, &error) == Step::again);
    REQUIRE(advance(progress, block_bytes, &error) == Step::again);
  }
  CHECK(advance(progress, block_bytes, &error) == Step::finished);
}

TEST_CASE("The device's own error is passed on") {
  const int device_error = GENERATE(EIO, ENOSPC, ENODATA, EFBIG);
  Progress progress{.total_bytes = block_bytes};
  int error = 0;
  CHECK(advance(progress, -device_error, &error) == Step::failed);
  CHECK(error == device_error);
}
