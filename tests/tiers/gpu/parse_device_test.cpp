// What may follow --gpu, and what is said about the rest.
#include <catch2/catch.hpp>
#include <cerrno>

#include "tiers/gpu/device.h"

using namespace terrace::tiers::gpu;

namespace {

DeviceSpec parsed(const char* text) {
  DeviceSpec spec;
  std::string reason;
  const int error = parse_device(text, &spec, &reason);
  INFO(text << ": " << reason);
  REQUIRE(error == 0);
  CHECK(reason.empty());
  return spec;
}

std::string refused(const std::string& text) {
  DeviceSpec spec;
  spec.index = 42;
  std::string reason;
  INFO(text);
  CHECK(parse_device(text, &spec, &reason) == EINVAL);
  CHECK(spec.index == 42);  // untouched
  CHECK(reason.find("\"" + text + "\"") == 0);
  CHECK(reason.find("accepted: cuda") != std::string::npos);
  CHECK(parse_device(text, &spec, nullptr) == EINVAL);
  return reason;
}

bool says(const std::string& reason, const char* words) { return reason.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("ACudaDeviceHasAnIndex") {
  CHECK(parsed("cuda").kind == Kind::cuda);
  CHECK(parsed("cuda").index == 0);
  CHECK(parsed("cuda:7").index == 7);
  for (const char* text :
       {"cuda:", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:1x", "cuda:1024", "cuda:99999999999"}) {
    CHECK(says(refused(text), "is no index"));
  }
}

TEST_CASE("AnEmulatedDeviceHasACapacityAndALink") {
  const DeviceSpec spec = parsed("emulated:8G,h2d=12G,d2h=11G,latency=10us");
  CHECK(spec.kind == Kind::emulated);
  CHECK(spec.capacity_bytes == std::uint64_t{8} << 30);
  CHECK(spec.to_device_bytes_per_s == std::uint64_t{12} << 30);
  CHECK(spec.to_host_bytes_per_s == std::uint64_t{11} << 30);
  CHECK(spec.latency_ns == 10'000);
  CHECK(parsed("emulated:2M").to_host_bytes_per_s == 0);
  CHECK(parsed("emulated:2097152").capacity_bytes == 2 << 20);
  CHECK(parsed("emulated:512MiB,latency=0ns").latency_ns == 0);
  CHECK(parsed("emulated:16T,latency=10s,h2d=0").latency_ns == 10'000'000'000);
  CHECK(spec.lag_ns == 0);
  CHECK(parsed("emulated:2M,lag=50ms").lag_ns == 50'000'000);
}

TEST_CASE("CapacitiesAreCheckedToTheByte") {
  for (const char* text : {"emulated:", "emulated:0", "emulated:1M", "emulated:3M", "emulated:-8G",
                           "emulated:8g", "emulated:8 G", "emulated:1.5G", "emulated:8GB", "emulated:17T",
                           "emulated:G", "emulated:18446744073709551616", "emulated:18014398509481986K"}) {
    CHECK(says(refused(text), "is no capacity"));
  }
  CHECK(says(refused("emulated"), "no capacity"));
}

TEST_CASE("OptionsAreKnownOnceAndWithAUnit") {
  CHECK(says(refused("emulated:8G,"), "is no option"));
  CHECK(says(refused("emulated:8G,,h2d=1G"), "is no option"));
  CHECK(says(refused("emulated:8G,H2D=1G"), "is no option"));
  CHECK(says(refused("emulated:8G,rate=1G"), "is no option"));
  CHECK(says(refused("emulated:8G,h2d=1G,h2d=2G"), "given twice"));
  CHECK(says(refused("emulated:8G,latency=1us,latency=1us"), "given twice"));
  CHECK(says(refused("emulated:8G,lag=1ms,lag=1ms"), "given twice"));
  for (const char* text :
       {"emulated:8G,h2d", "emulated:8G,h2d=", "emulated:8G,d2h=x", "emulated:8G,h2d=1G=2G",
        "emulated:8G,latency=10", "emulated:8G,latency=11s", "emulated:8G,latency=10u",
        "emulated:8G,latency=99999999999999999999s", "emulated:8G,lag=50", "emulated:8G,lag=11s"}) {
    CHECK(says(refused(text), "is no value"));
  }
}

TEST_CASE("OtherKindsAreRefused") {
  for (const char* text : {"", ":", "Cuda", "gpu", "cpu", "cuda,emulated", " cuda", "emulated :8G"}) {
    CHECK(says(refused(text), "is no kind of device"));
  }
  CHECK(says(refused(std::string("cuda\0", 5)), "is no kind of device"));
}
