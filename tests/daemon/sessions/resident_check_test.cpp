// Which reports can be true, and which cannot.
#include "daemon/sessions/process/resident_check.h"

#include <catch2/catch.hpp>

#include "tests/units.h"

using namespace terrace::daemon;
using terrace::tests::gib;
using terrace::tests::mib;

TEST_CASE("an interpreter with its libraries beside the heap is no lie") {
  ResidentCheck check;
  check.observe(4 * gib, 4 * gib + 512 * mib, true);
  CHECK_FALSE(check.is_understated(4 * gib));
  CHECK(check.resident_bytes(4 * gib) == 4 * gib);
}

TEST_CASE("what is reported and not counted is nobody's harm: untouched, or swapped out by the kernel") {
  ResidentCheck check;
  check.observe(8 * gib, gib, false);
  CHECK(check.resident_bytes(8 * gib) == 8 * gib);
}

TEST_CASE("before the kernel was asked the report holds") {
  CHECK(ResidentCheck().resident_bytes(7) == 7);
  CHECK_FALSE(ResidentCheck().counted_bytes());
}

TEST_CASE("a job with gigabytes outside of its heap gives, and is believed") {
  ResidentCheck check;
  for (int i = 0; i < 2; ++i) check.observe(8 * gib, 13 * gib, false);
  check.observe(6 * gib, 11 * gib, true);
  CHECK_FALSE(check.is_understated(6 * gib));
  CHECK(check.resident_bytes(6 * gib) == 6 * gib);
}

TEST_CASE("who reports that it gave and has not is found out") {
  ResidentCheck check;
  for (int i = 0; i < 3; ++i) check.observe(8 * gib, 8 * gib + 200 * mib, false);
  check.observe(5 * gib, 8 * gib + 200 * mib, true);
  CHECK(check.is_understated(5 * gib));
  CHECK(check.resident_bytes(5 * gib) == 8 * gib + 200 * mib);
  for (int i = 0; i < 100; ++i) check.observe(5 * gib, 8 * gib + 200 * mib, true);  // and stays so
  CHECK(check.is_understated(5 * gib));
  check.observe(5 * gib, 5 * gib + 200 * mib, true);
  CHECK_FALSE(check.is_understated(5 * gib));
}

TEST_CASE("who has reported nothing, ever, cannot say that all of it lies outside of the heap") {
  ResidentCheck check;
  for (int i = 0; i < 100; ++i) check.observe(0, 2 * gib, false);
  CHECK(check.is_understated(0));
  CHECK(check.resident_bytes(0) == 2 * gib);
}

TEST_CASE("a reading that a report lags behind does not count as outside of the heap") {
  ResidentCheck check;
  check.observe(gib, gib, false);
  check.observe(gib, 3 * gib, false);  // it grew, and the report comes later
  check.observe(3 * gib, 3 * gib, false);
  check.observe(gib, 3 * gib, true);
  CHECK(check.is_understated(gib));
}
