// The conformance suite over the emulated device: as fast as memory, behind a link, and behind the host.
#include <catch2/catch.hpp>

#include "device_conformance.h"
#include "device_support.h"

using namespace terrace::tiers::gpu::test;

TEST_CASE("EmulatedDevice conforms") {
  check_conformance([] { return open("emulated:64M"); });
}

TEST_CASE("EmulatedDeviceBehindALink conforms") {
  check_conformance([] { return open("emulated:64M,h2d=1G,d2h=512M,latency=20us"); });
}

TEST_CASE("EmulatedDeviceThatLags conforms") {
  check_conformance([] { return open("emulated:64M,lag=2ms"); });
}
